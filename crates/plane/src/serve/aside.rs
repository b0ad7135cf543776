//! Commands for other flows than the one whose event is at hand: members of its aggregate, which
//! may be another peer's.

use std::collections::{HashMap, VecDeque};

use super::peer::PeerId;
use crate::{Command, FlowId};

/// Where the members of aggregates sit, and what those of other peers are to be told.
#[derive(Debug, Default)]
pub(super) struct Aside {
    /// By the plane's slot; flows that are alone are not here.
    seats: HashMap<u32, (PeerId, u32)>,
    commands: VecDeque<(FlowId, Command)>,
}

impl Aside {
    /// A flow of this peer, in this slot of its, may be told something at another's event.
    pub(super) fn insert(&mut self, flow: FlowId, peer: PeerId, slot: u32) {
        self.seats.insert(flow.slot, (peer, slot));
    }

    /// The flow ended.
    pub(super) fn remove(&mut self, flow: FlowId) {
        if !self.seats.is_empty() {
            self.seats.remove(&flow.slot);
        }
    }

    /// The peer that a member is of, and its slot there.
    pub(super) fn seat(&self, flow: FlowId) -> Option<(PeerId, u32)> {
        self.seats.get(&flow.slot).copied()
    }

    pub(super) fn push(&mut self, flow: FlowId, command: &Command) {
        self.commands.push_back((flow, command.clone()));
    }

    pub(super) fn pop(&mut self) -> Option<(FlowId, Command)> {
        self.commands.pop_front()
    }
}
