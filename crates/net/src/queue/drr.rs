//! Deficit round robin: Shreedhar & Varghese, "Efficient Fair Queuing Using Deficit Round-Robin",
//! 1996.

use super::discipline::{Parameter, QueueContext, QueueError, refuse_zeros};
use super::field::Field;
use super::flows::{Flows, MAX_BUCKETS};
use super::turns::Turns;
use super::{Configuration, Held, Limit, Scheduler, Sink, draws};
use crate::{Packet, Time};

/// Deficit round robin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrrConfig {
    /// What all queues hold together.
    pub limit: Limit,
    /// How many queues flows are hashed to, from 1 to 65536.
    pub flows: u32,
    /// Bytes that each queue may send more in each round; what it did not use for want of a packet
    /// small enough it keeps.
    pub quantum_bytes: u32,
}

impl Default for DrrConfig {
    /// A quantum of one packet, which makes each service O(1) (Shreedhar & Varghese §IV); queues
    /// and limit are those of [`super::FqCoDelConfig`].
    fn default() -> Self {
        DrrConfig {
            limit: Limit::Packets(10_240),
            flows: 1024,
            quantum_bytes: 1500,
        }
    }
}

impl Configuration for DrrConfig {
    const NAME: &'static str = "drr";
    const SUMMARY: &'static str = "Deficit round robin (Shreedhar & Varghese 1996)";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter::flows(|config| Field::Count(&mut config.flows, MAX_BUCKETS)),
        Parameter::quantum(|config| Field::PacketBytes(&mut config.quantum_bytes)),
    ];

    fn usual(_context: &QueueContext) -> Self {
        DrrConfig::default()
    }

    fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    fn check(&self) -> Result<(), QueueError> {
        let zeros = [
            ("buffer", self.limit.is_zero()),
            ("flows", self.flows == 0),
            ("quantum", self.quantum_bytes == 0),
        ];
        refuse_zeros(Self::NAME, &zeros)
    }
}

/// See [`DrrConfig`]. The state of a queue is its deficit counter, bytes.
#[derive(Debug)]
pub(super) struct Drr<P> {
    config: DrrConfig,
    flows: Flows<P, u64>,
    active: Turns,
    /// Whether the queue in front has got its quantum of this round.
    in_turn: bool,
}

impl<P: Packet> Scheduler<P> for Drr<P> {
    type Config = DrrConfig;

    fn new(config: &DrrConfig, seed: u64) -> Self {
        Drr {
            config: *config,
            flows: Flows::new(config.flows, draws(seed).up_to(u64::MAX)),
            active: Turns::new(),
            in_turn: false,
        }
    }

    fn enqueue(&mut self, now: Time, held: Held<P>, sink: &mut Sink<P>) {
        let index = self.flows.index_of(&held.packet);
        if self.flows.push(index, held) {
            self.active.push_back(index);
        }
        let limit = self.config.limit;
        if self.flows.steal(limit, &mut self.active, now, sink) {
            self.in_turn = false;
        }
    }

    fn dequeue(&mut self, _now: Time, _sink: &mut Sink<P>) -> Option<Held<P>> {
        loop {
            let index = self.active.front()?;
            let bucket = self.flows.bucket(index);
            if !self.in_turn {
                bucket.state += u64::from(self.config.quantum_bytes.max(1));
                self.in_turn = true;
            }
            let size = u64::from(bucket.fifo.head_bytes());
            if size > bucket.state {
                self.active.rotate();
                self.in_turn = false;
                continue;
            }
            bucket.state -= size;
            let held = self.flows.pop(index);
            let bucket = self.flows.bucket(index);
            if bucket.fifo.len() == 0 {
                bucket.state = 0;
                self.active.pop_front();
                self.in_turn = false;
            }
            return held;
        }
    }

    fn evict(&mut self, now: Time, sink: &mut Sink<P>) -> bool {
        let front = self.active.front();
        let dropped = self.flows.evict(&mut self.active, now, sink);
        self.in_turn &= self.active.front() == front;
        dropped
    }

    fn set_limit(&mut self, limit: Limit) {
        self.config.limit = limit;
    }

    fn len(&self) -> usize {
        self.flows.len()
    }

    fn bytes(&self) -> u64 {
        self.flows.bytes()
    }
}
