//! Marks above a threshold of the queue as it is, for DCTCP.

use super::drop_tail::Fifo;
use super::{DropReason, Held, Limit, Sink};
use crate::{Packet, Time};

/// A step mark: RFC 8257 §3.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepConfig {
    /// What the queue holds.
    pub limit: Limit,
    /// K: a packet that finds more than this waiting is marked if it can be; nothing is dropped
    /// for it.
    pub threshold: Limit,
}

/// See [`StepConfig`].
#[derive(Debug)]
pub(super) struct Step<P> {
    config: StepConfig,
    pub(super) fifo: Fifo<P>,
}

impl<P: Packet> Step<P> {
    pub(super) fn new(config: StepConfig) -> Self {
        Step {
            config,
            fifo: Fifo::new(),
        }
    }

    pub(super) fn enqueue(&mut self, now: Time, mut held: Held<P>, sink: &mut Sink<P>) {
        if !self.fifo.has_room(self.config.limit, held.size_bytes) {
            return sink.drop(now, DropReason::QueueFull, held);
        }
        // RFC 8257 §3.1: on arrival, by the instantaneous queue, when it is longer than K.
        let (packets, bytes) = (self.fifo.len(), self.fifo.bytes());
        if !self.config.threshold.holds(packets, bytes) {
            sink.mark(&mut held);
        }
        self.fifo.push(held);
    }
}
