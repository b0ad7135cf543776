//! One peer of the service, and its flows.

use fairwater_proto::{Capabilities, Dialect, FlowId};

use super::conformance::Conformance;
use super::outgoing::Outgoing;
use super::slots::{PeerFlow, PeerSlot};

/// One peer of a service: an index that is given out again, and a generation that tells its
/// successive holders apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl PeerId {
    /// The index, dense from 0: for tables of whoever carries the packets.
    #[must_use]
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

/// Whether a peer has a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Installed {
    /// No flow of the peer has needed it.
    #[default]
    No,
    Yes,
    /// The peer cannot run it.
    Refused,
}

/// What a peer said of itself in its Hello.
#[derive(Debug)]
pub(super) struct Introduction {
    pub(super) name: String,
    pub(super) instance: u64,
    pub(super) capabilities: Capabilities,
    /// It never introduced itself: its messages told that it knew an earlier plane, or began
    /// before there was one.
    pub(super) implied: bool,
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) id: PeerId,
    /// What its last packet was in, until it introduces itself.
    pub(super) dialect: Option<Dialect>,
    pub(super) introduction: Option<Introduction>,
    pub(super) last_packet_us: u64,
    /// When it was last sent a sign of life.
    pub(super) welcomed_us: u64,
    /// By the peer's slots.
    pub(super) slots: Vec<PeerSlot>,
    pub(super) flows: u32,
    pub(super) reports: u64,
    /// By position in the catalogue.
    pub(super) programs: Vec<Installed>,
    pub(super) outgoing: Outgoing,
    pub(super) conformance: Conformance,
}

impl Peer {
    pub(super) fn new(id: PeerId, programs: usize, now_us: u64) -> Self {
        Self {
            id,
            dialect: None,
            introduction: None,
            last_packet_us: now_us,
            welcomed_us: now_us,
            slots: Vec::new(),
            flows: 0,
            reports: 0,
            programs: vec![Installed::No; programs],
            outgoing: Outgoing::default(),
            conformance: Conformance::default(),
        }
    }

    /// The name to be shown.
    pub(super) fn name(&self) -> &str {
        self.introduction
            .as_ref()
            .map_or("?", |introduction| &introduction.name)
    }

    /// The flow of the slot, if it is of that generation.
    #[inline]
    pub(super) fn peer_flow(&self, flow: FlowId) -> Option<&PeerFlow> {
        let peer_flow = self.slots.get(flow.slot as usize)?.peer_flow.as_ref()?;
        (peer_flow.generation == flow.generation).then_some(peer_flow)
    }

    /// How many programs it was given.
    pub(super) fn installed(&self) -> usize {
        let given = |p: &&Installed| **p == Installed::Yes;
        self.programs.iter().filter(given).count()
    }

    /// Forgets what the peer was sent before it was restarted.
    pub(super) fn forget(&mut self) {
        self.programs.fill(Installed::No);
        self.outgoing.reset();
        self.conformance = Conformance::default();
    }
}
