//! Marks above a threshold of the queue as it is, for DCTCP.

use super::discipline::{DefaultValue, Parameter, QueueContext, QueueError, refuse_zeros};
use super::drop_tail::Fifo;
use super::field::Field;
use super::{Configuration, DropReason, Held, Limit, Scheduler, Sink};
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

impl Configuration for StepConfig {
    const NAME: &'static str = "step";
    const SUMMARY: &'static str = "Drop-tail that marks (ECN CE) above a threshold, for DCTCP";
    const PARAMETERS: &'static [Parameter<Self>] = &[Parameter {
        name: "threshold",
        default: DefaultValue::Required,
        help: "a packet that finds more than this waiting is marked",
        field: |config| Field::Threshold(&mut config.threshold),
    }];

    fn usual(context: &QueueContext) -> Self {
        StepConfig {
            limit: context.buffer_or_bdp(),
            threshold: Limit::Unlimited,
        }
    }

    fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    fn check(&self) -> Result<(), QueueError> {
        refuse_zeros(Self::NAME, &[("buffer", self.limit.is_zero())])
    }

    fn marks(&self) -> bool {
        self.threshold != Limit::Unlimited
    }
}

/// See [`StepConfig`].
#[derive(Debug)]
pub(super) struct Step<P> {
    config: StepConfig,
    fifo: Fifo<P>,
}

impl<P: Packet> Scheduler<P> for Step<P> {
    type Config = StepConfig;

    fn new(config: &StepConfig, _seed: u64) -> Self {
        Step {
            config: *config,
            fifo: Fifo::new(),
        }
    }

    fn enqueue(&mut self, now: Time, mut held: Held<P>, sink: &mut Sink<P>) {
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

    fn dequeue(&mut self, _now: Time, _sink: &mut Sink<P>) -> Option<Held<P>> {
        self.fifo.pop()
    }

    fn evict(&mut self, now: Time, sink: &mut Sink<P>) -> bool {
        sink.evict(now, self.fifo.pop_back())
    }

    fn set_limit(&mut self, limit: Limit) {
        self.config.limit = limit;
    }

    fn len(&self) -> usize {
        self.fifo.len()
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }
}
