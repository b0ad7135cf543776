//! Proportional integral controller, enhanced: RFC 8033.

use std::time::Duration;

use super::discipline::{DefaultValue, Parameter, QueueContext, QueueError, refuse_zeros};
use super::drop_tail::Fifo;
use super::field::Field;
use super::{Configuration, DropReason, Held, Limit, Scheduler, Sink, draws};
use crate::probability::Draws;
use crate::{Packet, Probability, Time};

/// PIE. The time in the queue is told by timestamps (RFC 8033 §4.3), not estimated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PieConfig {
    /// What the queue holds.
    pub limit: Limit,
    /// QDELAY_REF: the time in the queue that is aimed at.
    pub target: Duration,
    /// T_UPDATE: the drop probability is worked out anew this often; at least 1 µs.
    pub update: Duration,
    /// MAX_BURST: time after a quiet period in which nothing is dropped.
    pub max_burst: Duration,
    /// By how much the distance from the target moves the probability, 1/s.
    pub alpha: f64,
    /// By how much the change since the last update does, 1/s.
    pub beta: f64,
    /// Whether packets that understand marks are marked rather than dropped, up to a drop
    /// probability of `ecn_limit`.
    pub ecn: bool,
    /// See `ecn`: mark_ecnth.
    pub ecn_limit: Probability,
}

impl Default for PieConfig {
    /// RFC 8033 §4.2, §4.4 and §5.1; the 1000 packets of tc-pie(8).
    fn default() -> Self {
        PieConfig {
            limit: Limit::Packets(1000),
            target: Duration::from_millis(15),
            update: Duration::from_millis(15),
            max_burst: Duration::from_millis(150),
            alpha: 0.125,
            beta: 1.25,
            ecn: false,
            ecn_limit: Probability::percent(10),
        }
    }
}

impl Configuration for PieConfig {
    const NAME: &'static str = "pie";
    const SUMMARY: &'static str = "Proportional integral controller, enhanced (RFC 8033)";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter {
            name: "target",
            default: DefaultValue::Usual,
            help: "time in the queue that is aimed at",
            field: |config| Field::Period(&mut config.target),
        },
        Parameter {
            name: "update",
            default: DefaultValue::Usual,
            help: "how often the drop probability is computed; at least 1 µs",
            field: |config| Field::Period(&mut config.update),
        },
        Parameter {
            name: "max_burst",
            default: DefaultValue::Usual,
            help: "after quiet, nothing is dropped for this long",
            field: |config| Field::Duration(&mut config.max_burst),
        },
        Parameter {
            name: "alpha",
            default: DefaultValue::Usual,
            help: "gain of the distance from the target, 1/s",
            field: |config| Field::Factor(&mut config.alpha),
        },
        Parameter {
            name: "beta",
            default: DefaultValue::Usual,
            help: "gain of the change since the last update, 1/s",
            field: |config| Field::Factor(&mut config.beta),
        },
        Parameter {
            name: "ecn",
            default: DefaultValue::Usual,
            help: "mark ECN-capable packets instead of dropping them",
            field: |config| Field::Boolean(&mut config.ecn),
        },
        Parameter {
            name: "ecn_limit",
            default: DefaultValue::Usual,
            help: "drop probability from which packets are dropped even with `ecn`",
            field: |config| Field::Probability(&mut config.ecn_limit),
        },
    ];

    fn usual(_context: &QueueContext) -> Self {
        PieConfig::default()
    }

    fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    fn check(&self) -> Result<(), QueueError> {
        let zeros = [
            ("buffer", self.limit.is_zero()),
            ("update", self.update.is_zero()),
        ];
        refuse_zeros(Self::NAME, &zeros)
    }

    fn marks(&self) -> bool {
        self.ecn
    }
}

/// MEAN_PKTSIZE, bytes: with no more than two of these waiting nothing is dropped.
const MEAN_PACKET_BYTES: u64 = 1500;

/// See [`PieConfig`].
#[derive(Debug)]
pub(super) struct Pie<P> {
    config: PieConfig,
    drop_probability: f64,
    /// Probability gathered since the last drop (RFC 8033 §5.4).
    gathered: f64,
    burst_allowance: Duration,
    /// Time in the queue of the last packet that left it; zero once the queue is empty.
    delay: Duration,
    /// `delay` at the last update.
    old_delay: Duration,
    next_update: Time,
    draws: Draws,
    fifo: Fifo<P>,
}

impl<P: Packet> Scheduler<P> for Pie<P> {
    type Config = PieConfig;

    fn new(config: &PieConfig, seed: u64) -> Self {
        Pie {
            drop_probability: 0.0,
            gathered: 0.0,
            burst_allowance: config.max_burst,
            delay: Duration::ZERO,
            old_delay: Duration::ZERO,
            next_update: Time::ZERO + config.update,
            draws: draws(seed),
            fifo: Fifo::new(),
            config: PieConfig {
                update: config.update.max(Duration::from_micros(1)),
                ..*config
            },
        }
    }

    /// RFC 8033 §4.1.
    fn enqueue(&mut self, now: Time, mut held: Held<P>, sink: &mut Sink<P>) {
        self.update_until(now);
        if !self.fifo.has_room(self.config.limit, held.size_bytes) {
            self.gathered = 0.0;
            return sink.drop(now, DropReason::QueueFull, held);
        }
        if self.chosen() {
            // RFC 8033 §5.1: a sender that is told and does not slow down is not told for ever.
            let tell = self.config.ecn && self.drop_probability < self.config.ecn_limit.as_f64();
            if !(tell && sink.mark(&mut held)) {
                return sink.drop(now, DropReason::Aqm, held);
            }
        }
        self.fifo.push(held);
    }

    fn dequeue(&mut self, now: Time, _sink: &mut Sink<P>) -> Option<Held<P>> {
        self.update_until(now);
        let held = self.fifo.pop()?;
        self.delay = if self.fifo.len() == 0 {
            Duration::ZERO
        } else {
            now.since(held.enqueued)
        };
        Some(held)
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

impl<P: Packet> Pie<P> {
    /// Whether the packet that arrives is dropped, or marked in its place.
    fn chosen(&mut self) -> bool {
        // RFC 8033 §4.1: it must stay work-conserving, and small bursts pass.
        let quiet = self.old_delay < self.config.target / 2 && self.drop_probability < 0.2;
        let short = self.fifo.bytes() <= 2 * MEAN_PACKET_BYTES;
        if self.burst_allowance > Duration::ZERO || quiet || short {
            return false;
        }
        // RFC 8033 §5.4: drops are neither too close nor too far apart.
        if self.drop_probability == 0.0 {
            self.gathered = 0.0;
        }
        self.gathered += self.drop_probability;
        if self.gathered < 0.85 {
            return false;
        }
        let chosen = self.gathered >= 8.5 || self.draws.unit() < self.drop_probability;
        if chosen {
            self.gathered = 0.0;
        }
        chosen
    }

    /// Makes up for the updates that were due by `now`: the queue has not changed since.
    fn update_until(&mut self, now: Time) {
        while self.next_update <= now {
            let before = (self.drop_probability, self.burst_allowance, self.old_delay);
            self.update();
            let rests = before == (self.drop_probability, self.burst_allowance, self.old_delay);
            let period = self.config.update.as_nanos();
            // What changed nothing once changes nothing until a packet comes or goes.
            let missed = now.since(self.next_update).as_nanos() / period;
            let updates = if rests { missed + 1 } else { 1 };
            let later = u64::try_from(updates * period).unwrap_or(u64::MAX);
            let next = self.next_update.plus_nanos(later);
            if next == self.next_update {
                return; // the end of time
            }
            self.next_update = next;
        }
    }

    /// RFC 8033 §4.2, with the cap of §5.5.
    fn update(&mut self) {
        let (delay, old, target) = (
            self.delay.as_secs_f64(),
            self.old_delay.as_secs_f64(),
            self.config.target.as_secs_f64(),
        );
        let mut change = self.config.alpha * (delay - target) + self.config.beta * (delay - old);
        change /= scale(self.drop_probability);
        if self.drop_probability >= 0.1 {
            change = change.min(0.02);
        }
        self.drop_probability += change;
        if self.delay.is_zero() && self.old_delay.is_zero() {
            // RFC 8033 §4.2: it decays exponentially once there is no congestion.
            self.drop_probability *= 0.98;
        }
        self.drop_probability = self.drop_probability.clamp(0.0, 1.0);
        // RFC 8033 §4.4.
        let half = self.config.target / 2;
        self.burst_allowance =
            if self.drop_probability == 0.0 && self.delay < half && self.old_delay < half {
                self.config.max_burst
            } else {
                self.burst_allowance.saturating_sub(self.config.update)
            };
        self.old_delay = self.delay;
    }
}

/// What a change is divided by while the probability is small (RFC 8033 §4.2).
fn scale(probability: f64) -> f64 {
    const STEPS: [(f64, f64); 6] = [
        (0.000_001, 2048.0),
        (0.000_01, 512.0),
        (0.000_1, 128.0),
        (0.001, 32.0),
        (0.01, 8.0),
        (0.1, 2.0),
    ];
    let step = STEPS.iter().find(|(below, _)| probability < *below);
    step.map_or(1.0, |(_, divisor)| *divisor)
}
