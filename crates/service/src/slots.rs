//! Slot tables: the flow in each slot of a peer, and the plane's slots.

use fairwater_plane::FlowId;

use super::merged_command::MergedCommand;

/// One slot of a peer.
#[derive(Debug, Default)]
pub(super) struct PeerSlot {
    /// The flow that has the slot now.
    pub(super) peer_flow: Option<PeerFlow>,
    /// The command that the peer has not been sent yet.
    pub(super) pending: Option<Box<MergedCommand>>,
    /// Whether the slot is in the peer's queue of slots with pending commands.
    pub(super) queued: bool,
}

/// A flow of a peer.
#[derive(Debug, Clone, Copy)]
pub(super) struct PeerFlow {
    /// The generation of the peer's slot.
    pub(super) generation: u32,
    /// The flow's name in the plane.
    pub(super) flow: FlowId,
    /// Maximum segment size, bytes; 0 if the peer does not say.
    pub(super) mss: u32,
    /// The index of its algorithm.
    pub(super) algorithm: u32,
    /// Place in the catalogue of the program that the flow was last switched to.
    pub(super) program: u32,
}

/// The plane's slots: each belongs to a flow of some peer, or is free.
#[derive(Debug, Default)]
pub(super) struct PlaneSlots {
    free: Vec<u32>,
    /// How often each slot was given out.
    generations: Vec<u32>,
}

impl PlaneSlots {
    /// A slot in a generation that it never had; `None` when `most` are in use.
    pub(super) fn take(&mut self, most: u32) -> Option<FlowId> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = u32::try_from(self.generations.len()).ok()?;
                if slot >= most {
                    return None;
                }
                self.generations.push(0);
                slot
            }
        };
        let generation = self.generations.get_mut(slot as usize)?;
        *generation = generation.wrapping_add(1);
        Some(FlowId {
            slot,
            generation: *generation,
        })
    }

    pub(super) fn give_back(&mut self, flow: FlowId) {
        self.free.push(flow.slot);
    }

    pub(super) fn in_use(&self) -> u64 {
        (self.generations.len() - self.free.len()) as u64
    }
}
