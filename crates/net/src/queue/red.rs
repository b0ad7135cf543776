//! Random early detection: Floyd & Jacobson, "Random Early Detection Gateways for Congestion
//! Avoidance", 1993, in the parameters of tc-red(8).

use super::discipline::{DefaultValue, Parameter, QueueContext, QueueError, refuse_zeros};
use super::drop_tail::Fifo;
use super::field::{Choice, Field};
use super::{Configuration, DropReason, Held, Limit, Scheduler, Sink, draws};
use crate::probability::Draws;
use crate::{Packet, Probability, Rate, Time};

/// RED in the parameters of tc-red(8), without its `adaptive`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RedConfig {
    /// Bytes that the queue holds at most.
    pub limit_bytes: u64,
    /// Below this average, bytes, nothing is marked.
    pub min_bytes: u64,
    /// From this average, bytes, everything is marked.
    pub max_bytes: u64,
    /// Bytes of a typical packet: how the average ages while the queue is empty, and `burst`.
    pub avpkt_bytes: u32,
    /// Packets that may arrive at once before the average reaches `min_bytes`; it sets the weight
    /// of the average. At least `1 + min / avpkt`; less is taken as that.
    pub burst_packets: u32,
    /// The probability that a packet is marked when the average is just below `max_bytes`.
    pub probability: Probability,
    /// How fast the average ages while the queue is empty: the link's rate.
    pub bandwidth: Rate,
    /// Whether packets that understand marks are marked rather than dropped.
    pub ecn: bool,
    /// Whether all are dropped from `max_bytes` on, even those.
    pub harddrop: bool,
    /// Whether packets that cannot be marked are let pass rather than dropped.
    pub nodrop: bool,
}

impl RedConfig {
    /// What tc-red(8) takes where only the limit is given, and the link's rate instead of 10 Mbit/s.
    pub fn with_limit(limit_bytes: u64, bandwidth: Rate) -> Self {
        let max_bytes = limit_bytes / 4;
        let min_bytes = max_bytes / 3;
        let avpkt_bytes = 1000;
        let burst = (2 * min_bytes + max_bytes) / (3 * u64::from(avpkt_bytes));
        RedConfig {
            limit_bytes,
            min_bytes,
            max_bytes,
            avpkt_bytes,
            burst_packets: u32::try_from(burst).unwrap_or(u32::MAX),
            probability: Probability::percent(2),
            bandwidth,
            ecn: false,
            harddrop: false,
            nodrop: false,
        }
    }

    /// RED1 of vCC Table 1: nearly a step. The table has no `avpkt`; 61 is the least `burst` that
    /// tc-red takes (vCC §3.2) when it is 1500.
    pub fn vcc_red1(bandwidth: Rate) -> Self {
        RedConfig {
            min_bytes: 90_000,
            max_bytes: 90_001,
            avpkt_bytes: 1500,
            burst_packets: 61,
            probability: Probability::ALWAYS,
            ecn: true,
            ..RedConfig::with_limit(1_000_000, bandwidth)
        }
    }

    /// RED2 of vCC Table 1: the example of tc-red(8), whose `avpkt` is 1000.
    pub fn vcc_red2(bandwidth: Rate) -> Self {
        RedConfig {
            min_bytes: 30_000,
            max_bytes: 90_000,
            burst_packets: 55,
            ecn: true,
            ..RedConfig::with_limit(400_000, bandwidth)
        }
    }

    /// RED3 of vCC Table 1: RED2, more aggressive.
    pub fn vcc_red3(bandwidth: Rate) -> Self {
        RedConfig {
            probability: Probability::ALWAYS,
            ..RedConfig::vcc_red2(bandwidth)
        }
    }

    /// The weight of a new value in the average: the greatest power of a half that lets
    /// `burst_packets` arrive at an empty queue with the average still below `min_bytes`
    /// (Floyd & Jacobson §6, as tc-red works it out). 1 where there is none, as when `min_bytes` is
    /// no more than a packet, which tc-red refuses: the queue is then its own average.
    pub fn weight(&self) -> f64 {
        let avpkt = f64::from(self.avpkt_bytes.max(1));
        let min_packets = self.min_bytes as f64 / avpkt;
        let min = self.min_bytes / u64::from(self.avpkt_bytes.max(1));
        let least = u32::try_from(min.saturating_add(1));
        let burst = self.burst_packets.max(least.unwrap_or(u32::MAX));
        let mut weight = 0.5;
        for _ in 1..31 {
            if f64::from(burst) + 1.0 - min_packets <= (1.0 - power(1.0 - weight, burst)) / weight {
                return weight;
            }
            weight /= 2.0;
        }
        1.0
    }
}

/// `base` to the power of `exponent`, by multiplication alone: the same on every machine.
fn power(base: f64, exponent: u32) -> f64 {
    let (mut result, mut square, mut left) = (1.0, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result *= square;
        }
        square *= square;
        left >>= 1;
    }
    result
}

/// A limit in packets counts each packet as one of the usual size.
const PACKET_BYTES: u64 = 1500;

impl Configuration for RedConfig {
    const NAME: &'static str = "red";
    const SUMMARY: &'static str =
        "Random early detection (Floyd & Jacobson 1993), in the parameters of tc-red(8)";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter {
            name: "preset",
            default: DefaultValue::Derived("none"),
            help: "all values of a queue of vCC Table 1",
            field: |config| Field::Choice(config),
        },
        Parameter {
            name: "min",
            default: DefaultValue::Derived("a third of `max`"),
            help: "average queue below which nothing is marked",
            field: |config| Field::Bytes(&mut config.min_bytes),
        },
        Parameter {
            name: "max",
            default: DefaultValue::Derived("a quarter of the limit"),
            help: "average queue from which everything is marked",
            field: |config| Field::Bytes(&mut config.max_bytes),
        },
        Parameter {
            name: "avpkt",
            default: DefaultValue::Usual,
            help: "size of a typical packet",
            field: |config| Field::PacketBytes(&mut config.avpkt_bytes),
        },
        Parameter {
            name: "burst",
            default: DefaultValue::Derived("(2 min + max) / 3 avpkt"),
            help: "packets that may arrive at once before the average reaches `min`",
            field: |config| Field::Packets(&mut config.burst_packets),
        },
        Parameter {
            name: "probability",
            default: DefaultValue::Usual,
            help: "share of packets marked when the average is just below `max`",
            field: |config| Field::Probability(&mut config.probability),
        },
        Parameter {
            name: "ecn",
            default: DefaultValue::Usual,
            help: "mark ECN-capable packets instead of dropping them",
            field: |config| Field::Boolean(&mut config.ecn),
        },
        Parameter {
            name: "harddrop",
            default: DefaultValue::Usual,
            help: "drop all packets from `max` on, even with `ecn`",
            field: |config| Field::Boolean(&mut config.harddrop),
        },
        Parameter {
            name: "nodrop",
            default: DefaultValue::Usual,
            help: "let packets that cannot be marked pass instead of dropping them",
            field: |config| Field::Boolean(&mut config.nodrop),
        },
    ];

    fn usual(context: &QueueContext) -> Self {
        RedConfig::with_limit(limit_bytes(context.buffer_or_bdp()), context.rate)
    }

    fn set_limit(&mut self, limit: Limit) {
        self.limit_bytes = limit_bytes(limit);
    }

    fn check(&self) -> Result<(), QueueError> {
        let zeros = [
            ("buffer", self.limit_bytes == 0),
            ("min", self.min_bytes == 0),
            ("avpkt", self.avpkt_bytes == 0),
        ];
        refuse_zeros(Self::NAME, &zeros)?;
        if self.max_bytes <= self.min_bytes {
            return Err(QueueError::RedThresholds {
                min_bytes: self.min_bytes,
                max_bytes: self.max_bytes,
            });
        }
        Ok(())
    }

    fn marks(&self) -> bool {
        self.ecn
    }
}

fn limit_bytes(limit: Limit) -> u64 {
    match limit {
        Limit::Bytes(bytes) => bytes,
        Limit::Packets(packets) => packets.saturating_mul(PACKET_BYTES),
        Limit::Unlimited => u64::MAX,
    }
}

impl Choice for RedConfig {
    fn expected(&self) -> &'static str {
        "`vcc-red1`, `vcc-red2` or `vcc-red3`"
    }

    fn choose(&mut self, name: &str) -> bool {
        let preset = match name {
            "vcc-red1" => RedConfig::vcc_red1,
            "vcc-red2" => RedConfig::vcc_red2,
            "vcc-red3" => RedConfig::vcc_red3,
            _ => return false,
        };
        *self = preset(self.bandwidth);
        true
    }
}

/// See [`RedConfig`].
#[derive(Debug)]
pub(super) struct Red<P> {
    config: RedConfig,
    weight: f64,
    /// The moving average of the queue, bytes.
    average: f64,
    /// Packets let pass since the last one marked.
    passed: u64,
    /// Since when the queue is empty.
    idle_since: Option<Time>,
    draws: Draws,
    fifo: Fifo<P>,
}

impl<P: Packet> Scheduler<P> for Red<P> {
    type Config = RedConfig;

    fn new(config: &RedConfig, seed: u64) -> Self {
        Red {
            config: *config,
            weight: config.weight(),
            average: 0.0,
            passed: 0,
            idle_since: Some(Time::ZERO),
            draws: draws(seed),
            fifo: Fifo::new(),
        }
    }

    fn enqueue(&mut self, now: Time, mut held: Held<P>, sink: &mut Sink<P>) {
        self.update_average(now);
        if self.average >= self.config.min_bytes as f64 {
            let hard = self.average >= self.config.max_bytes as f64;
            let chosen = hard || self.chosen();
            self.passed = if chosen { 0 } else { self.passed + 1 };
            if chosen && !self.spare(&mut held, hard, sink) {
                return sink.drop(now, DropReason::Aqm, held);
            }
        } else {
            self.passed = 0;
        }
        let limit = Limit::Bytes(self.config.limit_bytes);
        if !self.fifo.has_room(limit, held.size_bytes) {
            return sink.drop(now, DropReason::QueueFull, held);
        }
        self.idle_since = None;
        self.fifo.push(held);
    }

    fn dequeue(&mut self, now: Time, _sink: &mut Sink<P>) -> Option<Held<P>> {
        let held = self.fifo.pop();
        if self.fifo.len() == 0 && self.idle_since.is_none() {
            self.idle_since = Some(now);
        }
        held
    }

    fn evict(&mut self, now: Time, sink: &mut Sink<P>) -> bool {
        let held = self.fifo.pop_back();
        if self.fifo.len() == 0 && self.idle_since.is_none() {
            self.idle_since = Some(now);
        }
        sink.evict(now, held)
    }

    fn set_limit(&mut self, limit: Limit) {
        self.config.limit_bytes = limit_bytes(limit);
    }

    fn len(&self) -> usize {
        self.fifo.len()
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }
}

impl<P: Packet> Red<P> {
    /// Floyd & Jacobson §4: at each arrival; if it finds the queue empty, as if packets had arrived
    /// one after another since it is and found it so, this one included.
    fn update_average(&mut self, now: Time) {
        match self.idle_since {
            Some(since) => {
                let packet = self
                    .config
                    .bandwidth
                    .time_for(self.config.avpkt_bytes.into());
                let packets = now.since(since).as_nanos() / packet.as_nanos().max(1);
                self.average *= power(
                    1.0 - self.weight,
                    u32::try_from(packets).unwrap_or(u32::MAX),
                );
                self.idle_since = Some(now);
            }
            None => self.average += self.weight * (self.fifo.bytes() as f64 - self.average),
        }
    }

    /// Whether a packet that arrives with the average between the thresholds is marked. Marks are
    /// spread evenly: the number of packets from one to the next is uniform on 1 to 1 / p_b
    /// (Floyd & Jacobson §7, the second method).
    fn chosen(&mut self) -> bool {
        let (min, max) = (self.config.min_bytes as f64, self.config.max_bytes as f64);
        let p_b = self.config.probability.as_f64() * (self.average - min) / (max - min);
        let left = 1.0 - self.passed as f64 * p_b;
        self.draws.unit() * left < p_b
    }

    /// Whether a packet that was chosen is let pass, marked or not.
    fn spare(&self, held: &mut Held<P>, hard: bool, sink: &mut Sink<P>) -> bool {
        if self.config.harddrop && hard {
            return false;
        }
        (self.config.ecn && sink.mark(held)) || self.config.nodrop
    }
}
