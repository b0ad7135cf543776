//! One plane, as the datapath sees it.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use fairwater_proto::Dialect;

use crate::news::NewsList;
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
    /// Hellos since the peer was last heard of.
    pub(crate) hellos: u32,
    /// The plane's instance, once it has said Welcome.
    pub(crate) instance: Option<u64>,
    /// What silence is for this peer, µs.
    pub(crate) silence_us: u64,
    pub(crate) probe: Probe,
    /// Changes with each probe.
    pub(crate) probe_generation: u32,
    /// What it has installed, by its numbers.
    pub(crate) programs: BTreeMap<u32, Arc<Compiled>>,
    pub(crate) news: NewsList,
    pub(crate) outgoing: Outgoing,
    refusals: u32,
    refusals_since_us: u64,
}

/// Whether a plane is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// It was greeted and has not said anything yet.
    Greeted,
    /// It spoke when it was due to.
    Alive,
    /// It did not.
    Silent,
}

/// How a peer of libccp's dialect is asked for a sign of life: see [`crate::silence`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probe {
    /// It is not.
    None,
    /// A flow that carries nothing is to be created.
    Due,
    /// It was created and nothing came yet.
    Sent,
    /// It is to be closed.
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
            news: NewsList::EMPTY,
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

/// Peers by index; those that were removed leave a gap, which the next one fills.
#[derive(Debug, Default)]
pub(crate) struct Peers(Vec<Seat>);

#[derive(Debug)]
struct Seat {
    generation: u32,
    peer: Option<Peer>,
}

impl Peers {
    pub(crate) fn add(&mut self, peer: Peer) -> PeerId {
        let vacant = self.0.iter().position(|seat| seat.peer.is_none());
        let at = vacant.unwrap_or(self.0.len());
        if at == self.0.len() {
            self.0.push(Seat {
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
        let seat = &mut self.0[index];
        seat.generation = seat.generation.wrapping_add(1);
        seat.peer.take()
    }

    /// How many indices there are, gaps included.
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    /// The index of a peer that is there.
    pub(crate) fn index(&self, peer: PeerId) -> Option<usize> {
        let index = peer.index as usize;
        let seat = self.0.get(index)?;
        (seat.generation == peer.generation && seat.peer.is_some()).then_some(index)
    }

    /// The peer that is at the index.
    pub(crate) fn id(&self, index: usize) -> Option<PeerId> {
        let seat = self.0.get(index)?;
        seat.peer.as_ref()?;
        Some(PeerId {
            index: u32::try_from(index).ok()?,
            generation: seat.generation,
        })
    }

    pub(crate) fn at(&self, index: usize) -> Option<&Peer> {
        self.0.get(index)?.peer.as_ref()
    }

    pub(crate) fn at_mut(&mut self, index: usize) -> Option<&mut Peer> {
        self.0.get_mut(index)?.peer.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.0.iter().filter_map(|seat| seat.peer.as_ref())
    }
}
