//! Stochastic fairness queueing: McKenney, "Stochastic Fairness Queueing", 1990, in the parameters
//! of tc-sfq(8).

use std::time::Duration;

use super::discipline::{DefaultValue, Parameter, QueueContext, QueueError, refuse_zeros};
use super::field::Field;
use super::flows::{Flows, Index, MAX_BUCKETS};
use super::turns::Turns;
use super::{Configuration, Held, Limit, Scheduler, Sink, draws};
use crate::probability::Draws;
use crate::{Packet, Time};

/// SFQ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SfqConfig {
    /// What all queues hold together.
    pub limit: Limit,
    /// How many queues flows are hashed to, from 1 to 65536: `divisor`.
    pub flows: u32,
    /// Bytes that a queue sends before the next has its turn; the packet that exceeds them is sent
    /// whole, and paid for in the next round.
    pub quantum_bytes: u32,
    /// The hash changes this often, so that flows that share a queue do not share it for ever.
    pub perturb: Option<Duration>,
}

impl Default for SfqConfig {
    /// tc-sfq(8): 127 packets, 1024 queues, a quantum of one packet, and a hash that stays.
    fn default() -> Self {
        SfqConfig {
            limit: Limit::Packets(127),
            flows: 1024,
            quantum_bytes: 1500,
            perturb: None,
        }
    }
}

impl Configuration for SfqConfig {
    const NAME: &'static str = "sfq";
    const SUMMARY: &'static str = "Stochastic fairness queueing (McKenney 1990)";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter {
            name: "perturb",
            default: DefaultValue::Usual,
            help: "the hash of flows changes this often",
            field: |config| Field::OptionalPeriod(&mut config.perturb),
        },
        Parameter::flows(|config| Field::Count(&mut config.flows, MAX_BUCKETS)),
        Parameter::quantum(|config| Field::PacketBytes(&mut config.quantum_bytes)),
    ];

    fn usual(_context: &QueueContext) -> Self {
        SfqConfig::default()
    }

    fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    fn check(&self) -> Result<(), QueueError> {
        let zeros = [
            ("buffer", self.limit.is_zero()),
            ("flows", self.flows == 0),
            ("quantum", self.quantum_bytes == 0),
            (
                "perturb",
                self.perturb.is_some_and(|period| period.is_zero()),
            ),
        ];
        refuse_zeros(Self::NAME, &zeros)
    }
}

/// See [`SfqConfig`]. The state of a queue is what it may still send in this round, bytes.
#[derive(Debug)]
pub(super) struct Sfq<P> {
    config: SfqConfig,
    flows: Flows<P, i64>,
    active: Turns,
    next_perturbation: Option<Time>,
    draws: Draws,
}

impl<P: Packet> Scheduler<P> for Sfq<P> {
    type Config = SfqConfig;

    fn new(config: &SfqConfig, seed: u64) -> Self {
        let mut draws = draws(seed);
        Sfq {
            config: *config,
            flows: Flows::new(config.flows, draws.up_to(u64::MAX)),
            active: Turns::new(),
            next_perturbation: config.perturb.map(|period| Time::ZERO + period),
            draws,
        }
    }

    fn enqueue(&mut self, now: Time, held: Held<P>, sink: &mut Sink<P>) {
        self.perturb(now);
        self.push(held);
        // McKenney: what is too much is taken from the longest queue, from its end.
        let limit = self.config.limit;
        self.flows.steal(limit, &mut self.active, now, sink);
    }

    fn dequeue(&mut self, _now: Time, _sink: &mut Sink<P>) -> Option<Held<P>> {
        loop {
            let index = self.active.front()?;
            let quantum = self.quantum();
            let bucket = self.flows.bucket(index);
            if bucket.state <= 0 {
                bucket.state += quantum;
                self.active.rotate();
                continue;
            }
            let held = self.flows.pop(index);
            let bucket = self.flows.bucket(index);
            bucket.state -= held.as_ref().map_or(0, |held| i64::from(held.size_bytes));
            if bucket.fifo.len() == 0 {
                self.active.pop_front();
            }
            return held;
        }
    }

    fn evict(&mut self, now: Time, sink: &mut Sink<P>) -> bool {
        self.flows.evict(&mut self.active, now, sink)
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

impl<P: Packet> Sfq<P> {
    fn push(&mut self, held: Held<P>) {
        let index: Index = self.flows.index_of(&held.packet);
        if self.flows.push(index, held) {
            self.flows.bucket(index).state = self.quantum();
            self.active.push_back(index);
        }
    }

    fn quantum(&self) -> i64 {
        i64::from(self.config.quantum_bytes.max(1))
    }

    /// Changes the hash when it is time, and sorts what waits by the new one.
    fn perturb(&mut self, now: Time) {
        let (Some(due), Some(period)) = (self.next_perturbation, self.config.perturb) else {
            return;
        };
        if now < due {
            return;
        }
        self.next_perturbation = Some(now + period);
        let salt = self.draws.up_to(u64::MAX);
        self.active.clear();
        for held in self.flows.perturb(salt) {
            self.push(held);
        }
    }
}
