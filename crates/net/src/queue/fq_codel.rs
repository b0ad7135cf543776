//! Fair queueing with controlled delay: RFC 8290.

use super::codel::{CoDelConfig, Controller};
use super::discipline::{DefaultValue, Parameter, QueueContext, QueueError, refuse_zeros};
use super::field::Field;
use super::flows::{Flows, Index, MAX_BUCKETS};
use super::turns::Turns;
use super::{Configuration, DropReason, Held, Limit, Scheduler, Sink, draws};
use crate::{Packet, Time};

/// FQ-CoDel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FqCoDelConfig {
    /// What all queues hold together.
    pub limit: Limit,
    /// How many queues flows are hashed to, from 1 to 65536.
    pub flows: u32,
    /// Bytes that a queue may send before the next has its turn.
    pub quantum_bytes: u32,
    /// CoDel of each queue; its limit has no meaning here.
    pub codel: CoDelConfig,
}

impl Default for FqCoDelConfig {
    /// RFC 8290 §5.2: 1024 queues, 10240 packets, a quantum of an Ethernet frame (here its IP
    /// packet), and marks for who understands them.
    fn default() -> Self {
        FqCoDelConfig {
            limit: Limit::Packets(10_240),
            flows: 1024,
            quantum_bytes: 1500,
            codel: CoDelConfig {
                limit: Limit::Unlimited,
                ecn: true,
                ..CoDelConfig::default()
            },
        }
    }
}

impl Configuration for FqCoDelConfig {
    const NAME: &'static str = "fq_codel";
    const SUMMARY: &'static str = "Fair queueing with controlled delay (RFC 8290)";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter {
            name: "target",
            default: DefaultValue::Usual,
            help: "acceptable standing time in the queue",
            field: |config| Field::Period(&mut config.codel.target),
        },
        Parameter {
            name: "interval",
            default: DefaultValue::Usual,
            help: "window over which the least time in the queue is tracked (RFC 8289 §4.3)",
            field: |config| Field::Period(&mut config.codel.interval),
        },
        Parameter {
            name: "ecn",
            default: DefaultValue::Usual,
            help: "mark ECN-capable packets instead of dropping them",
            field: |config| Field::Boolean(&mut config.codel.ecn),
        },
        Parameter::flows(|config| Field::Count(&mut config.flows, MAX_BUCKETS)),
        Parameter::quantum(|config| Field::PacketBytes(&mut config.quantum_bytes)),
    ];

    fn usual(_context: &QueueContext) -> Self {
        FqCoDelConfig::default()
    }

    fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    fn check(&self) -> Result<(), QueueError> {
        let zeros = [
            ("buffer", self.limit.is_zero()),
            ("flows", self.flows == 0),
            ("quantum", self.quantum_bytes == 0),
            ("interval", self.codel.interval.is_zero()),
        ];
        refuse_zeros(Self::NAME, &zeros)
    }

    fn marks(&self) -> bool {
        self.codel.ecn
    }
}

/// Packets dropped at once at most when the queues are full (RFC 8290 §4.1).
const DROP_BATCH: usize = 64;

/// What is kept of one queue.
#[derive(Debug, Default)]
struct Flow {
    /// Bytes that it may still send in its turn.
    deficit: i64,
    active: bool,
    controller: Controller,
}

/// See [`FqCoDelConfig`].
#[derive(Debug)]
pub(super) struct FqCoDel<P> {
    config: FqCoDelConfig,
    flows: Flows<P, Flow>,
    /// Queues that have just become active: they are served first, for one quantum.
    new: Turns,
    old: Turns,
}

impl<P: Packet> Scheduler<P> for FqCoDel<P> {
    type Config = FqCoDelConfig;

    fn new(config: &FqCoDelConfig, seed: u64) -> Self {
        FqCoDel {
            config: *config,
            flows: Flows::new(config.flows, draws(seed).up_to(u64::MAX)),
            new: Turns::new(),
            old: Turns::new(),
        }
    }

    /// RFC 8290 §4.1.
    fn enqueue(&mut self, now: Time, held: Held<P>, sink: &mut Sink<P>) {
        let index = self.flows.index_of(&held.packet);
        self.flows.push(index, held);
        let flow = &mut self.flows.bucket(index).state;
        if !flow.active {
            flow.active = true;
            flow.deficit = i64::from(self.config.quantum_bytes.max(1));
            self.new.push_back(index);
        }
        while !self
            .config
            .limit
            .holds(self.flows.len(), self.flows.bytes())
        {
            let Some(fattest) = self.flows.longest() else {
                return;
            };
            self.drop_half(fattest, now, sink);
        }
    }

    /// RFC 8290 §4.2.
    fn dequeue(&mut self, now: Time, sink: &mut Sink<P>) -> Option<Held<P>> {
        loop {
            let is_new = !self.new.is_empty();
            let turns = if is_new { &mut self.new } else { &mut self.old };
            let index = turns.front()?;
            let codel = &self.config.codel;
            let flow = &mut self.flows.bucket(index).state;
            if flow.deficit <= 0 {
                flow.deficit += i64::from(self.config.quantum_bytes.max(1));
                turns.pop_front();
                self.old.push_back(index);
                continue;
            }
            let held = self.flows.change(index, |bucket| {
                bucket
                    .state
                    .controller
                    .dequeue(codel, &mut bucket.fifo, now, sink)
            });
            let flow = &mut self.flows.bucket(index).state;
            match held {
                Some(held) => {
                    flow.deficit -= i64::from(held.size_bytes);
                    return Some(held);
                }
                // An empty queue goes the way of the old ones once, or it would be new again with
                // its next packet, and the old ones would starve.
                None if is_new => {
                    self.new.pop_front();
                    self.old.push_back(index);
                }
                None => {
                    flow.active = false;
                    self.old.pop_front();
                }
            }
        }
    }

    fn evict(&mut self, now: Time, sink: &mut Sink<P>) -> bool {
        let held = self
            .flows
            .longest()
            .and_then(|fattest| self.flows.pop(fattest));
        sink.evict(now, held)
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

impl<P: Packet> FqCoDel<P> {
    /// Drops from the head of the fattest queue, half of it but not too many: as many drops at
    /// once as make looking for it cheap.
    fn drop_half(&mut self, index: Index, now: Time, sink: &mut Sink<P>) {
        let half = self.flows.bucket(index).fifo.len().div_ceil(2);
        for _ in 0..half.min(DROP_BATCH) {
            if let Some(held) = self.flows.pop(index) {
                sink.drop(now, DropReason::QueueFull, held);
            }
        }
    }
}
