//! When the next segment may leave.

/// The first segments of a connection are not paced, as in Linux: the initial window is a burst.
const UNPACED: u64 = 10;

/// Spaces segments at a rate.
#[derive(Debug, Clone)]
pub(super) struct Pacer {
    /// Whether a flow without a rate is paced by its window.
    by_window: bool,
    /// The next segment may leave at this time, ns.
    free_at: u64,
}

impl Pacer {
    pub(super) fn new(by_window: bool) -> Self {
        Self {
            by_window,
            free_at: 0,
        }
    }

    /// The pacing rate in force, bytes/s; 0 is none. It is the controller's rate, or without that,
    /// if so configured, twice the window per SRTT in slow start and 1.2 times after it (Linux's
    /// `tcp_update_pacing_rate`).
    pub(super) fn rate(&self, set: u64, window: u64, slow_start: bool, srtt_ns: u64) -> u64 {
        if set > 0 || !self.by_window || srtt_ns == 0 {
            return set;
        }
        let percent = if slow_start { 200 } else { 120 };
        window.saturating_mul(percent * 10_000_000) / srtt_ns
    }

    /// When the next segment may leave, ns.
    pub(super) fn free_at(&self) -> u64 {
        self.free_at
    }

    /// Accounts for a segment that leaves, with `payload` bytes. Rates are of payload, as delivery
    /// rates are, and as Linux paces: `tcp_update_skb_after_send` sees the segment without its
    /// headers. A pause earns up to half of a segment's time back, as in Linux, which makes up for
    /// late timers.
    pub(super) fn on_send(&mut self, now: u64, payload: u64, rate: u64, sent: u64) {
        if rate == 0 || sent <= UNPACED {
            self.free_at = self.free_at.max(now);
            return;
        }
        let takes = payload.saturating_mul(1_000_000_000) / rate;
        let credit = now.saturating_sub(self.free_at).min(takes / 2);
        self.free_at = now.max(self.free_at).saturating_add(takes - credit);
    }
}
