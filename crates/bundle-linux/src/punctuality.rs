//! Threads that are woken on time.

use std::num::NonZeroU64;

/// The niceness of the boxes' threads: before all that is not real-time. Real-time priority would keep the kernel's own
/// threads from receiving packets where a box takes a whole core.
const NICENESS: i32 = -19;

/// Asks that the calling thread be woken on time: a late sendbox sends less than its rate, and a late receivebox adds to
/// the RTT. Without the right to, the thread still works, later.
pub(crate) fn ask_for_punctuality() {
    // Timers are exact to a nanosecond, not to 50 us.
    let _ = rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN));
    // On Linux the niceness is the thread's, not the process's.
    let _ = rustix::process::setpriority_process(None, NICENESS);
}
