//! A peer of the datapath: one plane.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use fairwater_proto::Dialect;

use crate::announcements::AnnouncementList;
use crate::outgoing::Outgoing;
use crate::program::Compiled;

/// A peer of a datapath.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// Refusals that are answered in one [`REFUSALS_PERIOD_US`].
const REFUSALS: u32 = 16;
const REFUSALS_PERIOD_US: u64 = 100_000;

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) dialect: Dialect,
    pub(crate) liveness: Liveness,
    /// When the last Hello was due, µs.
    pub(crate) greeted_us: u64,
    /// A Hello is to be sent.
    pub(crate) hello: bool,
    /// Hellos since the peer last sent anything.
    pub(crate) hellos: u32,
    /// The plane's instance, once it has said Welcome.
    pub(crate) instance: Option<u64>,
    /// How long this peer may send nothing before it counts as silent, µs.
    pub(crate) silence_us: u64,
    pub(crate) probe: Probe,
    /// Changes with each probe.
    pub(crate) probe_generation: u32,
    /// Programs that the peer has installed, by its numbers.
    pub(crate) programs: BTreeMap<u32, Arc<Compiled>>,
    /// The plane refused the last Hello because it takes no more datapaths.
    pub(crate) is_full: bool,
    pub(crate) announcements: AnnouncementList,
    pub(crate) outgoing: Outgoing,
    refusals: u32,
    refusals_since_us: u64,
}

/// Whether a plane is alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// The plane was greeted and has not sent anything yet.
    Greeted,
    /// The plane sent something when it was due.
    Alive,
    /// The plane sent nothing when it was due.
    Silent,
}

/// The probe of a peer of libccp's dialect: see [`crate::silence`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probe {
    /// No probe is under way.
    None,
    /// A flow that carries nothing is to be created.
    Due,
    /// The flow was created and nothing came yet.
    Sent,
    /// The flow is to be closed.
    Over,
}

impl Peer {
    pub(crate) const fn new(
        dialect: Dialect,
        queue_bytes: usize,
        silence_us: u64,
        now_us: u64,
    ) -> Self {
        Self {
            dialect,
            liveness: Liveness::Greeted,
            greeted_us: now_us,
            hello: true,
            hellos: 1,
            instance: None,
            silence_us,
            probe: Probe::None,
            probe_generation: 0,
            programs: BTreeMap::new(),
            is_full: false,
            announcements: AnnouncementList::EMPTY,
            outgoing: Outgoing::new(queue_bytes),
            refusals: REFUSALS,
            refusals_since_us: now_us,
        }
    }

    /// Whether a refusal may be answered now: two peers that refuse each other's messages must
    /// not keep each other busy.
    pub(crate) fn may_answer_refusal(&mut self, now_us: u64) -> bool {
        if now_us.saturating_sub(self.refusals_since_us) >= REFUSALS_PERIOD_US {
            self.refusals_since_us = now_us;
            self.refusals = REFUSALS;
        }
        let may = self.refusals > 0;
        self.refusals = self.refusals.saturating_sub(1);
        may
    }
}

/// Peers by index; the slot of a removed peer is used again.
#[derive(Debug, Default)]
pub(crate) struct Peers(Vec<PeerSlot>);

#[derive(Debug)]
struct PeerSlot {
    generation: u32,
    peer: Option<Peer>,
}

impl Peers {
    pub(crate) fn add(&mut self, peer: Peer) -> PeerId {
        let vacant = self.0.iter().position(|slot| slot.peer.is_none());
        let at = vacant.unwrap_or(self.0.len());
        if at == self.0.len() {
            self.0.push(PeerSlot {
                generation: 0,
                peer: None,
            });
        }
        self.0[at].peer = Some(peer);
        PeerId {
            index: u32::try_from(at).unwrap_or(u32::MAX),
            generation: self.0[at].generation,
        }
    }

    pub(crate) fn remove(&mut self, peer: PeerId) -> Option<Peer> {
        let index = self.index(peer)?;
        let slot = &mut self.0[index];
        slot.generation = slot.generation.wrapping_add(1);
        slot.peer.take()
    }

    /// Number of slots, empty ones included.
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    /// The index of a peer that has not been removed.
    pub(crate) fn index(&self, peer: PeerId) -> Option<usize> {
        let index = peer.index as usize;
        let slot = self.0.get(index)?;
        (slot.generation == peer.generation && slot.peer.is_some()).then_some(index)
    }

    /// The identifier of the peer at an index.
    pub(crate) fn id(&self, index: usize) -> Option<PeerId> {
        let slot = self.0.get(index)?;
        slot.peer.as_ref()?;
        Some(PeerId {
            index: u32::try_from(index).ok()?,
            generation: slot.generation,
        })
    }

    pub(crate) fn at(&self, index: usize) -> Option<&Peer> {
        self.0.get(index)?.peer.as_ref()
    }

    pub(crate) fn at_mut(&mut self, index: usize) -> Option<&mut Peer> {
        self.0.get_mut(index)?.peer.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.0.iter().filter_map(|slot| slot.peer.as_ref())
    }
}
