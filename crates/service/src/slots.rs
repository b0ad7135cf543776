//! Slot tables: the flow in each slot of a peer, and the plane's slots.

use std::net::SocketAddr;

use fairwater_plane::FlowId;

use super::direct::DatapathId;
use super::merged_command::MergedCommand;
use super::peer::PeerId;

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
    /// The local address and port, if the peer says.
    pub(super) local: SocketAddr,
    /// The remote address and port, if the peer says.
    pub(super) remote: SocketAddr,
    /// What the peer tells its flows apart by.
    pub(super) tag: u32,
    /// Maximum segment size, bytes; 0 if the peer does not say.
    pub(super) mss: u32,
    /// The index of its algorithm.
    pub(super) algorithm: u32,
    /// Place in the catalogue of the program that the flow was last switched to.
    pub(super) program: u32,
    /// cwnd of the last report that had one, bytes.
    pub(super) cwnd: u64,
    /// Pacing rate of the last report, bytes/s; 0 is none.
    pub(super) rate: u64,
    /// Smoothed RTT as the flow started or resumed, µs.
    pub(super) srtt_us: u64,
}

/// Where a flow of the plane is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Location {
    /// In this slot of this peer.
    Peer { peer: PeerId, slot: u32 },
    /// In this direct datapath, under the datapath's own name.
    Direct { datapath: DatapathId, flow: FlowId },
}

/// The plane's slots: each belongs to a flow of some datapath, or is free.
#[derive(Debug, Default)]
pub(super) struct PlaneSlots {
    free: Vec<u32>,
    slots: Vec<PlaneSlot>,
}

#[derive(Debug, Clone, Copy)]
struct PlaneSlot {
    /// How often the slot was given out.
    generation: u32,
    location: Option<Location>,
}

impl PlaneSlots {
    /// A slot in a generation that it never had, for the flow that is there; `None` when `most` are
    /// in use.
    pub(super) fn take(&mut self, most: u32, location: Location) -> Option<FlowId> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                let index = u32::try_from(self.slots.len()).ok()?;
                if index >= most {
                    return None;
                }
                self.slots.push(PlaneSlot {
                    generation: 0,
                    location: None,
                });
                index
            }
        };
        let slot = self.slots.get_mut(index as usize)?;
        slot.generation = slot.generation.wrapping_add(1);
        slot.location = Some(location);
        Some(FlowId {
            slot: index,
            generation: slot.generation,
        })
    }

    pub(super) fn give_back(&mut self, flow: FlowId) {
        if let Some(slot) = self.slots.get_mut(flow.slot as usize) {
            slot.location = None;
            self.free.push(flow.slot);
        }
    }

    /// Where a flow is.
    #[inline]
    pub(super) fn location(&self, flow: FlowId) -> Option<Location> {
        let slot = self.slots.get(flow.slot as usize)?;
        slot.location.filter(|_| slot.generation == flow.generation)
    }

    /// The flows that there are.
    pub(super) fn flows(&self) -> impl Iterator<Item = FlowId> {
        let numbered = (0u32..).zip(&self.slots);
        numbered.filter_map(|(slot, record)| {
            record.location?;
            Some(FlowId {
                slot,
                generation: record.generation,
            })
        })
    }

    pub(super) fn in_use(&self) -> u64 {
        (self.slots.len() - self.free.len()) as u64
    }
}
