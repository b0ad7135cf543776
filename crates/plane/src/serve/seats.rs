//! Where a peer's flows sit in the plane.

use crate::FlowId;

use super::command::Pending;

/// What the service keeps of one of a peer's slots.
#[derive(Debug, Default)]
pub(super) struct Seat {
    /// The flow that has the slot now.
    pub(super) tenant: Option<Tenant>,
    /// What the peer has not been told yet.
    pub(super) pending: Option<Box<Pending>>,
    /// Whether the slot is in the peer's queue of those that have something pending.
    pub(super) queued: bool,
}

/// A flow of a peer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tenant {
    /// The generation of the peer's slot.
    pub(super) generation: u32,
    /// Where the plane has it.
    pub(super) flow: FlowId,
    /// Bytes; 0 if the peer said so.
    pub(super) mss: u32,
    /// The index of its algorithm.
    pub(super) algorithm: u32,
    /// Where in the catalogue the program is that it was last switched to.
    pub(super) program: u32,
}

/// The plane's slots: each is some peer's, or free.
#[derive(Debug, Default)]
pub(super) struct Slots {
    free: Vec<u32>,
    /// How often each slot was given out.
    generations: Vec<u32>,
}

impl Slots {
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
