//! Virtual time.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A moment, in nanoseconds since an origin the caller chose. Arithmetic saturates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The origin.
    pub const ZERO: Time = Time(0);

    /// `ns` nanoseconds after the origin.
    pub const fn from_nanos(ns: u64) -> Self {
        Time(ns)
    }

    /// `us` microseconds after the origin.
    pub const fn from_micros(us: u64) -> Self {
        Time(us.saturating_mul(1_000))
    }

    /// `ms` milliseconds after the origin.
    pub const fn from_millis(ms: u64) -> Self {
        Time(ms.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the origin.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// `ns` nanoseconds later.
    pub const fn plus_nanos(self, ns: u64) -> Self {
        Time(self.0.saturating_add(ns))
    }

    /// How long after `earlier` this is; zero when it is not after.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    #[inline]
    fn add(self, later: Duration) -> Time {
        let ns = u64::try_from(later.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_add(ns))
    }
}

impl Sub<Duration> for Time {
    type Output = Time;

    #[inline]
    fn sub(self, earlier: Duration) -> Time {
        let ns = u64::try_from(earlier.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_sub(ns))
    }
}
