//! The kernel's clock: CLOCK_MONOTONIC, as `bpf_ktime_get_ns` and `tcp_mstamp` have it.

use rustix::time::{ClockId, clock_gettime};

/// Now, ns since boot.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// Now, µs since boot.
pub fn now_us() -> u64 {
    now_ns() / 1_000
}
