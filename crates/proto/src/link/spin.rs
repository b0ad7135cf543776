//! Looking for a while before waiting.

use std::time::{Duration, Instant};

/// How long to look for a packet before waiting for one, unless told otherwise: about what it
/// costs to be woken, so that waiting never costs more than twice the best that could be done.
pub const DEFAULT_SPIN: Duration = Duration::from_micros(5);

/// Looks until something is `ready`, for at most `limit`, and says whether it is. Being woken by
/// an event file costs several µs, more in a virtual machine: worth it for peers that answer
/// within that time, and a waste where the peer needs this very processor.
///
/// ```
/// # use fairwater_proto::link::{self, Link};
/// # fn look(links: &[Box<dyn Link>]) -> bool {
/// link::spin(link::DEFAULT_SPIN, || links.iter().any(|link| link.is_pending()))
/// # }
/// ```
pub fn spin(limit: Duration, mut ready: impl FnMut() -> bool) -> bool {
    /// Looks between two readings of the clock.
    const LOOKS: u32 = 16;
    if limit.is_zero() {
        return ready();
    }
    let start = Instant::now();
    loop {
        for _ in 0..LOOKS {
            if ready() {
                return true;
            }
            std::hint::spin_loop();
        }
        if start.elapsed() >= limit {
            return false;
        }
    }
}
