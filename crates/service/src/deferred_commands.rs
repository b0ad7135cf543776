//! Commands for flows of other datapaths: an event of one member of an aggregate may lead to commands
//! for every other member.

use std::collections::VecDeque;

use fairwater_plane::{Command, FlowId};

use crate::peer::PeerId;

/// Commands for flows of other datapaths than the one at hand, in their order.
#[derive(Debug, Default)]
pub(super) struct DeferredCommands(VecDeque<(FlowId, Command)>);

impl DeferredCommands {
    pub(super) fn push(&mut self, flow: FlowId, command: &Command) {
        self.0.push_back((flow, command.clone()));
    }

    pub(super) fn pop(&mut self) -> Option<(FlowId, Command)> {
        self.0.pop_front()
    }
}

/// A hand-over of a flow whose dialect has no message for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnaskedHandOver {
    pub(super) peer: PeerId,
    /// The peer's slot, and the plane's name of the flow.
    pub(super) slot: u32,
    pub(super) flow: FlowId,
    /// Index of the next algorithm.
    pub(super) algorithm: u32,
}
