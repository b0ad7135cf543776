//! What the service keeps of one peer.

use fairwater_lang::SignalSet;
use fairwater_proto::{Dialect, FlowId};

use super::outgoing::Outgoing;
use super::seats::{Seat, Tenant};

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

/// What became of a program at a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Installed {
    /// Nobody needed it so far.
    #[default]
    No,
    Yes,
    /// The peer cannot have it.
    Refused,
}

/// Who a peer said it is.
#[derive(Debug)]
pub(super) struct Introduction {
    pub(super) name: String,
    pub(super) instance: u64,
    pub(super) signals: SignalSet,
    /// How many programs it keeps.
    pub(super) max_programs: u32,
    /// It never introduced itself: its messages told that it knew an earlier plane, or began
    /// before there was one.
    pub(super) implied: bool,
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) id: PeerId,
    /// What its last packet was in, until it introduces itself.
    pub(super) dialect: Option<Dialect>,
    pub(super) met: Option<Introduction>,
    pub(super) heard_us: u64,
    /// When it was last sent a sign of life.
    pub(super) welcomed_us: u64,
    /// By the peer's slots.
    pub(super) seats: Vec<Seat>,
    pub(super) flows: u32,
    pub(super) reports: u64,
    /// By place in the catalogue.
    pub(super) programs: Vec<Installed>,
    pub(super) outgoing: Outgoing,
}

impl Peer {
    pub(super) fn new(id: PeerId, programs: usize, now_us: u64) -> Self {
        Self {
            id,
            dialect: None,
            met: None,
            heard_us: now_us,
            welcomed_us: now_us,
            seats: Vec::new(),
            flows: 0,
            reports: 0,
            programs: vec![Installed::No; programs],
            outgoing: Outgoing::default(),
        }
    }

    /// The name to be shown.
    pub(super) fn name(&self) -> &str {
        self.met.as_ref().map_or("?", |met| &met.name)
    }

    /// The tenant of the slot, if it is of that generation.
    #[inline]
    pub(super) fn tenant(&self, flow: FlowId) -> Option<&Tenant> {
        let tenant = self.seats.get(flow.slot as usize)?.tenant.as_ref()?;
        (tenant.generation == flow.generation).then_some(tenant)
    }

    /// How many programs it was given.
    pub(super) fn installed(&self) -> usize {
        let given = |p: &&Installed| **p == Installed::Yes;
        self.programs.iter().filter(given).count()
    }

    /// Forgets what its former life was told.
    pub(super) fn forget(&mut self) {
        self.programs.fill(Installed::No);
        self.outgoing.reset();
    }
}
