//! The timer of the server's heartbeat.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use fairwater_proto::link::{Pollable, Source, Trigger};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// A timer that ends a server's wait again and again. It is armed once: a timeout would be armed at
/// each wait, and where timers are virtual that leaves the virtual machine.
#[derive(Debug)]
pub(super) struct Heartbeat {
    timer: OwnedFd,
    period: Duration,
}

impl Heartbeat {
    /// A timer that expires at least this often, but at most once in a millisecond.
    pub(super) fn new(period: Duration) -> io::Result<Self> {
        let period = period.max(Duration::from_millis(1));
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let each = Timespec {
            tv_sec: i64::try_from(period.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: period.subsec_nanos().into(),
        };
        let times = Itimerspec {
            it_interval: each,
            it_value: each,
        };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &times)?;
        Ok(Self { timer, period })
    }

    pub(super) fn period(&self) -> Duration {
        self.period
    }

    /// Clears the expired timer; it re-arms itself.
    pub(super) fn clear(&self) {
        let mut count = [0; 8];
        // It would block if another turn heard it; there is nothing to do about anything else.
        let _ = rustix::io::read(&self.timer, &mut count);
    }
}

impl Pollable for Heartbeat {
    fn sources(&self) -> [Option<Source<'_>>; 2] {
        let source = Source {
            fd: self.timer.as_fd(),
            trigger: Trigger::Level,
        };
        [Some(source), None]
    }
}
