//! What a box holds of one connection, for status screens; and an orderly end.

use fairwater_net::Time;

use super::{Buffering, ReturnReason};
use crate::controlled::ControlledFlow;
use crate::{Edge, FlowKey};

/// What a box holds of one connection, and what it did for it since it began to hold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    /// Bytes of the guest that the peer has not acknowledged.
    pub bytes: usize,
    /// Bytes of the guest that the peer has acknowledged.
    pub acked: u64,
    /// Smoothed RTT between the box and the peer, µs; 0 before the first sample.
    pub srtt_us: u64,
    /// Segments that the box sent again.
    pub retransmissions: u64,
    /// Retransmission timeouts of the box.
    pub timeouts: u64,
    /// Duplicate ACKs that the guest did not get to see.
    pub hidden: u64,
}

impl ControlledFlow {
    /// What the box holds of the connection; `None` if it holds nothing of it.
    #[must_use]
    pub fn held(&self) -> Option<Held> {
        match &self.buffering {
            Buffering::Held(buffered) => Some(buffered.describe()),
            Buffering::Idle | Buffering::Ended => None,
        }
    }
}

impl Edge {
    /// Stops to hold data: what was not sent leaves at once ([`Edge::poll_transmit`]), and guests learn of losses that
    /// were hidden from them. Their packets may pass the box by from then on.
    pub fn let_go(&mut self, now: Time) {
        let ids: Vec<usize> = self.table.iter().map(|(id, ..)| id).collect();
        for id in ids {
            self.return_held(now, id, ReturnReason::Released);
        }
    }

    /// Forgets the connections that `is_gone` says, with all that is held of them.
    pub fn forget(&mut self, is_gone: impl Fn(&FlowKey) -> bool) {
        self.table.forget(is_gone, &mut self.flows);
    }

    /// Sets how much is held from now on.
    pub const fn set_buffers(&mut self, config: super::BufferConfig) {
        self.flows.buffers.config = config;
    }

    /// Whether the box knows a connection with that key, open or opening.
    #[must_use]
    pub fn knows(&self, key: &FlowKey) -> bool {
        self.table.find(key).is_some() || self.table.half_open(key).is_some()
    }
}
