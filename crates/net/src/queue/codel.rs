//! Controlled delay: RFC 8289.

use std::time::Duration;

use super::discipline::{DefaultValue, Parameter, QueueContext, QueueError, refuse_zeros};
use super::drop_tail::Fifo;
use super::field::Field;
use super::{Configuration, DropReason, Held, Limit, Scheduler, Sink};
use crate::{Packet, Time};

/// CoDel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoDelConfig {
    /// What the queue holds.
    pub limit: Limit,
    /// Acceptable standing time in the queue.
    pub target: Duration,
    /// Window over which the least time in the queue is tracked: about a worst-case RTT
    /// (RFC 8289 §4.3).
    pub interval: Duration,
    /// Whether packets that understand marks are marked rather than dropped.
    pub ecn: bool,
}

impl Default for CoDelConfig {
    /// RFC 8289 §4.3 and §4.4: 100 ms and 5 ms; the 1000 packets of tc-codel(8).
    fn default() -> Self {
        CoDelConfig {
            limit: Limit::Packets(1000),
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            ecn: false,
        }
    }
}

impl Configuration for CoDelConfig {
    const NAME: &'static str = "codel";
    const SUMMARY: &'static str = "Controlled delay (RFC 8289)";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter {
            name: "target",
            default: DefaultValue::Usual,
            help: "acceptable standing time in the queue",
            field: |config| Field::Period(&mut config.target),
        },
        Parameter {
            name: "interval",
            default: DefaultValue::Usual,
            help: "window over which the least time in the queue is tracked (RFC 8289 §4.3)",
            field: |config| Field::Period(&mut config.interval),
        },
        Parameter {
            name: "ecn",
            default: DefaultValue::Usual,
            help: "mark ECN-capable packets instead of dropping them",
            field: |config| Field::Boolean(&mut config.ecn),
        },
    ];

    fn usual(_context: &QueueContext) -> Self {
        CoDelConfig::default()
    }

    fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    fn check(&self) -> Result<(), QueueError> {
        let zeros = [
            ("buffer", self.limit.is_zero()),
            ("interval", self.interval.is_zero()),
        ];
        refuse_zeros(Self::NAME, &zeros)
    }

    fn marks(&self) -> bool {
        self.ecn
    }
}

/// The bytes that CoDel leaves alone: one packet of the usual size (RFC 8289 §4.2).
const MAX_PACKET_BYTES: u64 = 1500;

/// What CoDel knows of one queue.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Controller {
    /// When the time in the queue will have been above the target for an interval.
    first_above: Option<Time>,
    /// The next drop while dropping; the last one that was due otherwise.
    drop_next: Time,
    /// Drops since dropping began.
    count: u64,
    /// `count` when dropping began.
    last_count: u64,
    dropping: bool,
}

impl Controller {
    /// Takes the next packet of `fifo` that is not dropped: `deque` of RFC 8289 §5.5. A packet that
    /// is marked instead of dropped is the one that is taken.
    pub(super) fn dequeue<P: Packet>(
        &mut self,
        config: &CoDelConfig,
        fifo: &mut Fifo<P>,
        now: Time,
        sink: &mut Sink<P>,
    ) -> Option<Held<P>> {
        let (mut held, mut above) = self.take(config, fifo, now)?;
        if self.dropping {
            self.dropping = above;
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                if config.ecn && sink.mark(&mut held) {
                    self.drop_next = self.next_drop(config, self.drop_next);
                    break;
                }
                sink.drop(now, DropReason::Aqm, held);
                let Some(next) = self.take(config, fifo, now) else {
                    self.dropping = false;
                    return None;
                };
                (held, above) = next;
                self.dropping = above;
                if above {
                    self.drop_next = self.next_drop(config, self.drop_next);
                }
            }
        } else if above {
            self.dropping = true;
            // The rate of drops that controlled the queue a short while ago is a good start.
            let recent = now.since(self.drop_next) < config.interval.saturating_mul(16);
            let drops = self.count.saturating_sub(self.last_count);
            self.count = if recent && drops > 1 { drops } else { 1 };
            self.last_count = self.count;
            self.drop_next = self.next_drop(config, now);
            if !(config.ecn && sink.mark(&mut held)) {
                sink.drop(now, DropReason::Aqm, held);
                (held, _) = self.take(config, fifo, now)?;
            }
        }
        Some(held)
    }

    /// Takes the packet at the head; whether it may be dropped: `dodequeue` of RFC 8289 §5.6.
    fn take<P>(
        &mut self,
        config: &CoDelConfig,
        fifo: &mut Fifo<P>,
        now: Time,
    ) -> Option<(Held<P>, bool)> {
        let Some(held) = fifo.pop() else {
            self.first_above = None;
            return None;
        };
        if now.since(held.enqueued) < config.target || fifo.bytes() <= MAX_PACKET_BYTES {
            self.first_above = None;
            return Some((held, false));
        }
        let above_until = *self.first_above.get_or_insert(now + config.interval);
        Some((held, now >= above_until))
    }

    /// The next drop comes an interval / √count after the one at `from` (RFC 8289 §5.6).
    fn next_drop(&self, config: &CoDelConfig, from: Time) -> Time {
        let interval = config.interval.as_nanos() as f64;
        from.plus_nanos((interval / (self.count as f64).sqrt()) as u64)
    }
}

/// See [`CoDelConfig`].
#[derive(Debug)]
pub(super) struct CoDel<P> {
    config: CoDelConfig,
    controller: Controller,
    fifo: Fifo<P>,
}

impl<P: Packet> Scheduler<P> for CoDel<P> {
    type Config = CoDelConfig;

    fn new(config: &CoDelConfig, _seed: u64) -> Self {
        CoDel {
            config: *config,
            controller: Controller::default(),
            fifo: Fifo::new(),
        }
    }

    fn enqueue(&mut self, now: Time, held: Held<P>, sink: &mut Sink<P>) {
        if self.fifo.has_room(self.config.limit, held.size_bytes) {
            self.fifo.push(held);
        } else {
            sink.drop(now, DropReason::QueueFull, held);
        }
    }

    fn dequeue(&mut self, now: Time, sink: &mut Sink<P>) -> Option<Held<P>> {
        self.controller
            .dequeue(&self.config, &mut self.fifo, now, sink)
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
