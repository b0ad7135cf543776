//! Commands for flows of other peers: an event of one member of an aggregate may lead to commands
//! for every other member.

use std::collections::{HashMap, VecDeque};

use super::peer::PeerId;
use fairwater_plane::{Command, FlowId};

/// The peer and slot of each member of an aggregate, and the commands for members of other peers.
#[derive(Debug, Default)]
pub(super) struct DeferredCommands {
    /// Peer and slot there, by the plane's slot; for members of aggregates alone.
    slots: HashMap<u32, (PeerId, u32)>,
    commands: VecDeque<(FlowId, Command)>,
}

impl DeferredCommands {
    /// Adds a member: the flow in this slot of this peer.
    pub(super) fn insert(&mut self, flow: FlowId, peer: PeerId, slot: u32) {
        self.slots.insert(flow.slot, (peer, slot));
    }

    /// Removes a flow that ended.
    pub(super) fn remove(&mut self, flow: FlowId) {
        if !self.slots.is_empty() {
            self.slots.remove(&flow.slot);
        }
    }

    /// The peer of a member, and the member's slot there.
    pub(super) fn location(&self, flow: FlowId) -> Option<(PeerId, u32)> {
        self.slots.get(&flow.slot).copied()
    }

    pub(super) fn push(&mut self, flow: FlowId, command: &Command) {
        self.commands.push_back((flow, command.clone()));
    }

    pub(super) fn pop(&mut self) -> Option<(FlowId, Command)> {
        self.commands.pop_front()
    }
}
