//! Timers: retransmission (RFC 6298), tail loss probe and reordering (RFC 8985), the persist
//! timer (RFC 9293 §3.8.6.1), pacing, and the handshake's.

use fairwater_net::Time;

use super::congestion::Probe;
use super::{Sender, State};
use crate::Cause;

/// Most doublings of the timeout (RFC 6298 §5.5); the greatest timeout is reached before.
const MAX_BACKOFF: u32 = 16;

/// Deadlines, ns.
#[derive(Debug, Clone, Default)]
pub(super) struct Timers {
    /// Retransmission, or the SYN's, or the persist timer: never two of them at once.
    retransmit: Option<u64>,
    probe: Option<u64>,
    pub(super) reorder: Option<u64>,
    /// When the pacer releases the next segment.
    pub(super) pace: Option<u64>,
    pub(super) backoff: u32,
}

impl Sender {
    /// When [`Self::on_timer`] is to be called next; `None` when nothing is waited for but
    /// segments and the application. Setting controls or transmitting may change it.
    #[must_use]
    pub fn next_timer(&self) -> Option<Time> {
        let timers = &self.timers;
        [timers.retransmit, timers.probe, timers.reorder, timers.pace]
            .into_iter()
            .flatten()
            .min()
            .map(Time::from_nanos)
    }

    /// Does all that is due by `now`.
    pub fn on_timer(&mut self, now: Time) {
        let now = now.as_nanos();
        let due = |at: Option<u64>| at.is_some_and(|at| at <= now);
        if due(self.timers.pace) {
            self.timers.pace = None;
        }
        if due(self.timers.reorder) {
            self.timers.reorder = None;
            self.on_reorder_timer(now);
        }
        if due(self.timers.probe) {
            self.timers.probe = None;
            self.start_retransmit_timer(now);
            self.episode.probe = Probe::Due;
        }
        if due(self.timers.retransmit) {
            self.timers.retransmit = None;
            self.on_retransmit_timer(now);
        }
    }

    fn on_reorder_timer(&mut self, now: u64) {
        let before = self.scoreboard.losses();
        self.detect_losses(now);
        if self.scoreboard.losses() == before {
            return;
        }
        if self.episode.state < State::Recovery {
            self.enter_recovery();
        }
        self.tell(Cause::LossTimer, now);
    }

    fn on_retransmit_timer(&mut self, now: u64) {
        self.timers.backoff = (self.timers.backoff + 1).min(MAX_BACKOFF);
        if !self.established {
            self.handshake.due = true;
            return;
        }
        if self.scoreboard.out() == 0 {
            self.episode.window_probe = true;
            return;
        }
        self.counters.timeouts += 1;
        self.timers.probe = None;
        self.timers.reorder = None;
        self.enter_loss(now);
        self.start_retransmit_timer(now);
        self.tell(Cause::Timeout, now);
    }

    /// The retransmission timeout, backed off, ns.
    pub(super) fn timeout(&self) -> u64 {
        self.rtt.timeout(self.timers.backoff)
    }

    pub(super) fn start_retransmit_timer(&mut self, now: u64) {
        self.timers.retransmit = Some(now.saturating_add(self.timeout()));
    }

    pub(super) fn has_retransmit_timer(&self) -> bool {
        self.timers.retransmit.is_some()
    }

    pub(super) fn cancel_probe(&mut self) {
        self.timers.probe = None;
    }

    /// RFC 6298 §5.2 and §5.3, and RFC 8985 §7.2: after an ACK of new data, or new data.
    pub(super) fn restart_timers(&mut self, now: u64) {
        self.timers.probe = None;
        if self.scoreboard.out() == 0 {
            self.timers.retransmit = None;
            self.timers.reorder = None;
            return;
        }
        self.start_retransmit_timer(now);
        self.schedule_probe(now);
    }

    /// RFC 8985 §7.2: two round trips after the last ACK or new segment, and time for a delayed
    /// ACK when there is only one segment to acknowledge; never after the RTO.
    pub(super) fn schedule_probe(&mut self, now: u64) {
        let may = self.sack
            && matches!(self.episode.state, State::Open | State::Cwr)
            && self.episode.probe == Probe::None
            && self.scoreboard.sacked() == 0;
        if !may {
            return;
        }
        let srtt = self.rtt.smoothed();
        let mut timeout = if srtt == 0 {
            1_000_000_000
        } else {
            srtt.saturating_mul(2)
        };
        if self.scoreboard.out() == 1 {
            timeout = timeout.saturating_add(self.rtt.min_rto());
        }
        let at = now.saturating_add(timeout);
        self.timers.probe = Some(self.timers.retransmit.map_or(at, |rto| at.min(rto)));
    }
}
