//! Rates.

use std::fmt;
use std::time::Duration;

/// A rate of IP packets' bits per second, at least 1. Headers below IP are not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// A rate of `bps` bits per second; `None` when zero.
    pub const fn from_bps(bps: u64) -> Option<Self> {
        if bps == 0 { None } else { Some(Rate(bps)) }
    }

    /// `bps` bits per second, or 1 for zero.
    pub(crate) const fn at_least_one(bps: u64) -> Self {
        if bps == 0 { Rate(1) } else { Rate(bps) }
    }

    /// Bits per second.
    pub const fn bps(self) -> u64 {
        self.0
    }

    /// The time `bytes` take at this rate, rounded up to a nanosecond.
    pub fn time_for(self, bytes: u64) -> Duration {
        if let Some(work) = bytes.checked_mul(8_000_000_000) {
            return Duration::from_nanos(work.div_ceil(self.0));
        }
        let bits_ns = u128::from(bytes) * 8 * 1_000_000_000;
        let ns = bits_ns.div_ceil(u128::from(self.0));
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// The nanoseconds `bytes` take at this rate, when `ahead` of their bits × ns/s were paid for
    /// before; rounded up, and by how much.
    #[inline]
    pub(crate) fn time_for_exactly(self, bytes: u32, ahead: u64) -> (u64, u64) {
        // 2³² bytes are 3.4 × 10¹⁹ bits × ns/s, just too many for 64 bits.
        let Some(work) = u64::from(bytes).checked_mul(8_000_000_000) else {
            let work = u128::from(bytes) * 8_000_000_000 - u128::from(ahead);
            let ns = work.div_ceil(u128::from(self.0));
            let rounded = ns * u128::from(self.0) - work;
            return (u64::try_from(ns).unwrap_or(u64::MAX), rounded as u64);
        };
        if work <= ahead {
            return (0, ahead - work);
        }
        let (ns, rest) = ((work - ahead) / self.0, (work - ahead) % self.0);
        if rest == 0 {
            (ns, 0)
        } else {
            (ns + 1, self.0 - rest)
        }
    }

    /// The whole bytes that pass in `time`: with a round-trip time, the bandwidth-delay product.
    pub fn bytes_in(self, time: Duration) -> u64 {
        let bytes = time.as_nanos().saturating_mul(u128::from(self.0)) / 8_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// In the largest of `gbit`, `mbit`, `kbit`, `bit` that states the rate exactly: `48mbit`.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, bps) in [
            ("gbit", 1_000_000_000),
            ("mbit", 1_000_000),
            ("kbit", 1_000),
        ] {
            if self.0.is_multiple_of(bps) {
                return write!(f, "{}{unit}", self.0 / bps);
            }
        }
        write!(f, "{}bit", self.0)
    }
}
