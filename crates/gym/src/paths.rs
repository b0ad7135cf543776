//! The paths that episodes run on, drawn at random.

use std::time::Duration;

use fairwater_net::{Capacity, Limit, LinkConfig, LossConfig, Probability, QueueConfig, Rate};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use thiserror::Error;

/// From `least` to `most`, both included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// The least value.
    pub least: f64,
    /// The greatest value.
    pub most: f64,
}

impl Range {
    /// From `least` to `most`.
    #[must_use]
    pub const fn new(least: f64, most: f64) -> Self {
        Self { least, most }
    }

    /// Each factor as likely as any other; `libm`'s functions are the same on every machine.
    fn draw_log(self, rng: &mut ChaCha8Rng) -> f64 {
        let share: f64 = rng.random();
        let (low, high) = (libm::log(self.least), libm::log(self.most));
        libm::exp(low + (high - low) * share).clamp(self.least, self.most)
    }

    /// Each value as likely as any other.
    fn draw(self, rng: &mut ChaCha8Rng) -> f64 {
        let share: f64 = rng.random();
        (self.least + (self.most - self.least) * share).clamp(self.least, self.most)
    }

    fn check(self, what: &'static str, within: Self, errors: &mut Vec<String>) {
        let is_in = |value: f64| (within.least..=within.most).contains(&value);
        if !is_in(self.least) || !is_in(self.most) || self.least > self.most {
            errors.push(format!(
                "{what} is from {} to {}: expected a range, rising, within {} to {}",
                self.least, self.most, within.least, within.most
            ));
        }
    }
}

/// A distribution of paths: rates, round-trip times and buffers evenly by their logarithms, loss
/// evenly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Paths {
    /// The bottleneck's rate, Mbit/s of IP packets, within 0.1 to 1000.
    pub rate_mbit: Range,
    /// The round-trip time without queues, ms, within 1 to 1000.
    pub rtt_ms: Range,
    /// The bottleneck's buffer in bandwidth-delay products, within 0.05 to 20; at least 4 packets.
    pub buffer_bdp: Range,
    /// The share of packets lost at random, within 0 to 0.5.
    pub loss: Range,
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            rate_mbit: Range::new(1.0, 24.0),
            rtt_ms: Range::new(10.0, 80.0),
            buffer_bdp: Range::new(0.5, 4.0),
            loss: Range::new(0.0, 0.01),
        }
    }
}

/// Everything that is wrong with settings.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", .errors.join("\n"))]
pub struct SettingsErrors {
    /// One sentence each; never empty.
    pub errors: Vec<String>,
}

impl Paths {
    pub(crate) fn errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        for (what, range, within) in [
            ("the rate, Mbit/s,", self.rate_mbit, Range::new(0.1, 1000.0)),
            ("the RTT, ms,", self.rtt_ms, Range::new(1.0, 1000.0)),
            ("the buffer, BDPs,", self.buffer_bdp, Range::new(0.05, 20.0)),
            ("the share of packets lost", self.loss, Range::new(0.0, 0.5)),
        ] {
            range.check(what, within, &mut errors);
        }
        errors
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "ranges are checked"
    )]
    pub(crate) fn draw(&self, rng: &mut ChaCha8Rng) -> Path {
        let rate_bps = (self.rate_mbit.draw_log(rng) * 1e6) as u64;
        let rtt_us = (self.rtt_ms.draw_log(rng) * 1e3) as u64;
        let bdps = self.buffer_bdp.draw_log(rng);
        let bdp = rate_bps as f64 / 8e6 * rtt_us as f64;
        Path {
            rate_bps,
            rtt_us,
            buffer_bytes: ((bdps * bdp) as u64).max(4 * PACKET),
            loss: self.loss.draw(rng),
        }
    }
}

/// Bytes of a full IP packet.
const PACKET: u64 = 1500;

/// The path of an episode.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Path {
    /// The bottleneck's rate, bit/s of IP packets.
    pub rate_bps: u64,
    /// The round-trip time without queues, µs.
    pub rtt_us: u64,
    /// The bottleneck's buffer, bytes: a drop-tail queue.
    pub buffer_bytes: u64,
    /// The share of packets lost at random on the way to the receiver.
    pub loss: f64,
}

impl Path {
    /// The RTT of a full packet alone on the path, µs: what the round trip takes, and its
    /// transmission.
    #[expect(clippy::cast_precision_loss, reason = "a time of seconds at most")]
    pub(crate) fn base_rtt_us(&self) -> f64 {
        let transmission = PACKET as f64 * 8e6 / self.rate_bps as f64;
        self.rtt_us as f64 + transmission
    }

    /// The link to the receiver, and the link back.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a billion"
    )]
    pub(crate) fn links(&self) -> (LinkConfig, LinkConfig) {
        let one_way = Duration::from_micros(self.rtt_us) / 2;
        let capacity = Rate::from_bps(self.rate_bps).map_or(Capacity::Unlimited, Capacity::Rate);
        let queue = QueueConfig::DropTail(Limit::Bytes(self.buffer_bytes));
        let mut there = LinkConfig::new(capacity, queue, one_way);
        if let Some(loss) =
            Probability::from_ppb((self.loss * 1e9) as u32).filter(|_| self.loss > 0.0)
        {
            there.loss = LossConfig::Random(loss);
        }
        let unlimited = QueueConfig::DropTail(Limit::Unlimited);
        let back = LinkConfig::new(Capacity::Unlimited, unlimited, one_way);
        (there, back)
    }
}
