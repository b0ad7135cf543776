//! Looking for a while before waiting, where that pays.

use std::time::{Duration, Instant};

/// The longest to look for a packet before waiting for one, unless told otherwise: of the order of
/// what it takes to wake a processor that sleeps (`fairwater-bench round-trip` on an idle machine),
/// so that where looking finds nothing it costs about as much again as waiting does.
pub const DEFAULT_SPIN: Duration = Duration::from_micros(50);

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

/// Whether to look before the next wait, judged by what looking has come to so far. Sans I/O: it
/// is told how long everything took.
///
/// Looking has paid when something came within the limit. Each such time earns one credit, up to
/// 16, and each other one costs four, so that looking goes on where it pays at least four times
/// in five. Without credit everything is waited for, and after a pause one look is tried: of each
/// such try that fails the next pause is twice as long, up to 1,024 waits. Waits that lasted much
/// longer than any look do not shorten the pause. So looking stops within a few waits, and costs
/// nothing any more, where packets are rare, where they come at odd times, and where the peer
/// shares this processor and cannot send while it is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdaptiveSpin {
    limit: Duration,
    credit: u32,
    /// Short waits from one failed try to the next.
    pause: u32,
    /// Those that are left.
    left: u32,
}

impl AdaptiveSpin {
    const MOST_CREDIT: u32 = 16;
    const FAILURE: u32 = 4;
    const LONGEST_PAUSE: u32 = 1024;

    /// Looks for at most `limit`, never if that is zero, and not before packets come in such
    /// short order.
    #[must_use]
    pub const fn new(limit: Duration) -> Self {
        Self {
            limit,
            credit: 0,
            pause: 1,
            left: 1,
        }
    }

    /// How long to look before the next wait: the limit, or zero.
    #[must_use]
    pub const fn look(&self) -> Duration {
        if self.credit > 0 || self.left == 0 {
            self.limit
        } else {
            Duration::ZERO
        }
    }

    /// A look ended after this time: something was `found` by then, or not. What was found too
    /// late was found by chance: something else had the processor meanwhile.
    pub fn looked(&mut self, took: Duration, found: bool) {
        if found && took <= self.limit {
            if self.credit == 0 {
                self.pause = (self.pause / 2).max(1);
            }
            self.credit = (self.credit + 1).min(Self::MOST_CREDIT);
            return;
        }
        let tried = self.credit == 0;
        self.credit = self.credit.saturating_sub(Self::FAILURE);
        if tried {
            self.pause = (2 * self.pause).min(Self::LONGEST_PAUSE);
        }
        if self.credit == 0 {
            self.left = self.pause;
        }
    }

    /// A wait without a look ended after this time because something came. Its length has being
    /// woken in it, which is taken for one limit.
    pub fn waited(&mut self, took: Duration) {
        if took <= 2 * self.limit {
            self.left = self.left.saturating_sub(1);
        }
    }
}
