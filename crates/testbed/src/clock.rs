//! The lab's clock.

use std::time::{Duration, Instant};

use fairwater_net::Time;

/// Time since the start of a run, by the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Clock(Instant::now())
    }

    pub(crate) fn now(self) -> Time {
        Time::ZERO + self.0.elapsed()
    }
}

/// The CPU time the calling thread has used, user and system.
pub(crate) fn thread_cpu() -> Duration {
    cpu(rustix::time::ClockId::ThreadCPUTime)
}

/// The CPU time this process has used, user and system, of all its threads.
pub(crate) fn process_cpu() -> Duration {
    cpu(rustix::time::ClockId::ProcessCPUTime)
}

fn cpu(clock: rustix::time::ClockId) -> Duration {
    Duration::try_from(rustix::time::clock_gettime(clock)).unwrap_or_default()
}
