//! The kernel's clock for TCP: `tcp_mstamp` is CLOCK_MONOTONIC in µs.

use rustix::time::{ClockId, clock_gettime};

/// Now, µs since boot.
pub fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000
        + u64::try_from(now.tv_nsec).unwrap_or(0) / 1000
}
