//! When the next segment may leave.

/// The first segments of a connection are not paced, as in Linux: the initial window is a burst.
const UNPACED: u64 = 10;

/// Most lateness of a timer that is made up for, ns: about as much as one packet of Linux's sender covers
/// (`sk_pacing_shift`).
const MOST_LATE: u64 = 1_000_000;

/// Spaces segments at a rate.
#[derive(Debug, Clone)]
pub(super) struct Pacer {
    /// Whether a flow without a rate is paced by its window.
    by_window: bool,
    /// The next segment may leave at this time, ns.
    free_at: u64,
    /// A segment was held back by this pacer alone.
    holds: bool,
}

impl Pacer {
    pub(super) fn new(by_window: bool) -> Self {
        Self {
            by_window,
            free_at: 0,
            holds: false,
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

    /// Notes whether the next segment is held back by this pacer, or by something else.
    pub(super) fn hold(&mut self, holds: bool) {
        self.holds = holds;
    }

    /// Accounts for a segment that leaves, with `payload` bytes. Rates are of payload, as delivery
    /// rates are, and as Linux paces: `tcp_update_skb_after_send` sees the segment without its
    /// headers. A pause earns up to half of a segment's time back, as in Linux. What a late timer
    /// held back keeps the times that it had: the segments behind it are not late too. Linux needs
    /// no such rule, since its packets are of many segments.
    pub(super) fn on_send(&mut self, now: u64, payload: u64, rate: u64, sent: u64) {
        if rate == 0 || sent <= UNPACED {
            self.free_at = self.free_at.max(now);
            self.holds = false;
            return;
        }
        let takes = payload.saturating_mul(1_000_000_000) / rate;
        let most = if self.holds { MOST_LATE } else { takes / 2 };
        let credit = now.saturating_sub(self.free_at).min(most);
        let from = now.max(self.free_at).saturating_sub(credit);
        self.free_at = from.saturating_add(takes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes a second, and ns of a segment at that rate.
    const RATE: u64 = 10_000_000;
    const TAKES: u64 = 100_000;

    /// A pacer that has sent a segment at 1 s.
    fn pacer() -> Pacer {
        let mut pacer = Pacer::new(false);
        pacer.on_send(1_000_000_000, 1_000, RATE, 20);
        pacer
    }

    #[test]
    fn late_timers_do_not_slow_a_rate() {
        let mut pacer = pacer();
        let mut sent = 0;
        let mut now = 1_000_000_000;
        while now < 2_000_000_000 {
            pacer.hold(true);
            // Each timer is late by more than half of a segment.
            now = now.max(pacer.free_at()) + 70_000;
            while pacer.free_at() <= now {
                pacer.on_send(now, 1_000, RATE, 20);
                sent += 1;
            }
        }
        assert!((9_998..=10_002).contains(&sent), "{sent} segments");
    }

    #[test]
    fn what_is_later_than_a_millisecond_is_given_up() {
        let mut pacer = pacer();
        pacer.hold(true);
        let now = 1_500_000_000;
        let mut burst = 0;
        while pacer.free_at() <= now {
            pacer.on_send(now, 1_000, RATE, 20);
            burst += 1;
        }
        assert_eq!(burst, MOST_LATE / TAKES + 1);
    }

    #[test]
    fn a_pause_of_another_cause_earns_half_of_a_segment() {
        let mut pacer = pacer();
        pacer.hold(true);
        pacer.hold(false);
        pacer.on_send(1_500_000_000, 1_000, RATE, 20);
        assert_eq!(pacer.free_at(), 1_500_000_000 + TAKES / 2);
    }
}
