//! Releases bytes at a rate: a token bucket that a change of the rate does not refill (Bundler §6).

use std::time::Duration;

use fairwater_net::Time;

/// Tokens are counted in bytes × 10⁹, exact at any rate in bytes/s.
const UNIT: i128 = 1_000_000_000;

/// Time at the rate that may be made up for after a late wake-up.
const BURST_TIME: Duration = Duration::from_millis(1);

/// The longest time that is reckoned with at once, so that no product overflows.
const MAX_STEP: Duration = Duration::from_secs(3_600);

/// Bytes that may be made up for at least: two packets.
const MIN_BURST_BYTES: i128 = 3_000;

/// The token bucket of a bundle.
#[derive(Debug, Clone)]
pub struct Pacer {
    /// Bytes/s; `None` does not limit.
    rate: Option<u64>,
    /// Negative after a packet that was larger than what was there.
    tokens: i128,
    updated: Time,
}

impl Pacer {
    /// A pacer that does not limit yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            rate: None,
            tokens: 0,
            updated: Time::ZERO,
        }
    }

    /// The rate, bytes/s; `None` does not limit.
    #[must_use]
    pub const fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// From `now` on, another rate: at least 1 byte/s. What has been earned or is owed stays.
    pub fn set_rate(&mut self, now: Time, rate: Option<u64>) {
        self.earn(now);
        if self.rate.is_none() {
            // Nothing was counted while nothing was limited.
            self.tokens = 0;
        }
        self.rate = rate.map(|rate| rate.max(1));
    }

    /// When the next packet may leave, at the earliest `now`.
    #[must_use]
    pub fn ready_at(&mut self, now: Time) -> Time {
        self.earn(now);
        match self.rate {
            Some(rate) if self.tokens < 0 => {
                let owed = self.tokens.unsigned_abs();
                let wait = owed.div_ceil(u128::from(rate));
                now.plus_nanos(u64::try_from(wait).unwrap_or(u64::MAX))
            }
            _ => now,
        }
    }

    /// A packet leaves.
    pub fn spend(&mut self, bytes: u64) {
        if self.rate.is_some() {
            self.tokens -= i128::from(bytes) * UNIT;
        }
    }

    fn earn(&mut self, now: Time) {
        let passed = now.since(self.updated);
        self.updated = self.updated.max(now);
        let Some(rate) = self.rate else {
            return;
        };
        let earned = i128::from(rate) * passed.min(MAX_STEP).as_nanos() as i128;
        let burst = i128::from(rate) * BURST_TIME.as_nanos() as i128;
        let limit = burst.max(MIN_BURST_BYTES * UNIT);
        self.tokens = (self.tokens + earned).min(limit);
    }
}

impl Default for Pacer {
    fn default() -> Self {
        Self::new()
    }
}
