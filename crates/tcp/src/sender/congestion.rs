//! The congestion state, and what moves it: the state machine of RFC 5681, RFC 6582, RFC 6675 and
//! RFC 8985 in the shape that Linux gives it, and reductions that prove spurious.

use super::ack::Ack;
use super::{Sender, State};

/// Duplicate ACKs that show a loss where there is no SACK (RFC 5681 §3.2).
const DUP_ACKS: u64 = 3;

/// A tail loss probe (RFC 8985 §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Probe {
    #[default]
    None,
    /// Due now, whatever cwnd is.
    Due,
    /// Sent when `next` was the next offset: a retransmission (`again`) or new data.
    Sent { next: u64, again: bool },
}

/// One episode of congestion.
#[derive(Debug, Clone, Default)]
pub(super) struct Episode {
    pub(super) state: State,
    /// RecoveryPoint: the episode is over when this offset is acknowledged.
    pub(super) high: u64,
    pub(super) reductions: u64,
    /// cwnd when the reduction was requested, bytes.
    pub(super) reduced_from: u64,
    /// cwnd to restore if the reduction proves spurious, bytes; 0 where it cannot be spurious.
    prior_cwnd: u64,
    /// Slow-start threshold as the sender knows it, bytes; 0 until it is set.
    threshold: u64,
    prior_threshold: u64,
    /// What an undo of the reduction needs: SND.UNA when it was made, and how many retransmissions
    /// have yet to be reported as duplicates.
    undo: Option<Undo>,
    undone: bool,
    /// Time of the episode's first retransmission, ns; 0 before it.
    first_resend_at: u64,
    pub(super) probe: Probe,
    /// A probe of the closed receive window is due.
    pub(super) window_probe: bool,
    /// A retransmission of the first segment is due, whatever cwnd is.
    pub(super) resend_front: bool,
}

#[derive(Debug, Clone, Copy)]
struct Undo {
    marker: u64,
    retransmissions: u64,
}

impl Sender {
    /// Counts a retransmission.
    pub(super) fn note_resend(&mut self, now: u64) {
        if self.episode.first_resend_at == 0 {
            self.episode.first_resend_at = now.max(1);
        }
        if let Some(undo) = &mut self.episode.undo {
            undo.retransmissions += 1;
        }
    }

    /// Whether cwnd is below the threshold of slow start, for pacing.
    pub(super) fn slow_start(&self) -> bool {
        self.episode.threshold == 0 || self.cwnd < self.episode.threshold / 2
    }

    pub(super) fn take_undone(&mut self) -> bool {
        std::mem::take(&mut self.episode.undone)
    }

    fn begin_reduction(&mut self) {
        self.episode.reductions += 1;
        self.episode.reduced_from = self.cwnd;
        self.episode.prior_cwnd = self.cwnd;
        self.episode.prior_threshold = self.episode.threshold;
        self.episode.threshold = (self.cwnd / 2).max(2 * self.mss);
        self.episode.high = self.next;
        self.tell_reduced = true;
    }

    /// Begins fast recovery. During a reduction for an ECN mark, cwnd is not reduced a second time.
    pub(super) fn enter_recovery(&mut self) {
        if self.episode.state == State::Cwr {
            self.episode.high = self.next;
        } else {
            self.begin_reduction();
        }
        self.episode.undo = Some(Undo {
            marker: self.acked,
            retransmissions: self.scoreboard.resent(),
        });
        self.episode.state = State::Recovery;
        self.cancel_probe();
    }

    /// RFC 3168 §6.1.2: an echo reduces cwnd once in a window of data.
    fn enter_cwr(&mut self) {
        self.begin_reduction();
        self.episode.undo = None;
        self.episode.state = State::Cwr;
    }

    /// RFC 6298 §5.4 and RFC 8985 §6.3: a retransmission timeout. cwnd becomes what is in flight
    /// and one segment, until the controller says otherwise.
    pub(super) fn enter_loss(&mut self, now: u64) {
        let state = self.episode.state;
        if state <= State::Disorder
            || self.episode.high <= self.acked
            || (state == State::Loss && self.timers.backoff <= 1)
        {
            self.begin_reduction();
            self.episode.undo = Some(Undo {
                marker: self.acked,
                retransmissions: self.scoreboard.resent(),
            });
        } else if self.episode.state < State::Loss {
            self.episode.prior_cwnd = self.cwnd;
        }
        self.mark_all_lost(now);
        self.forget_duplicates();
        self.episode.state = State::Loss;
        self.episode.high = self.next;
        self.episode.probe = Probe::None;
        self.episode.resend_front = true;
        self.tell_reduced = true;
        self.cwnd = (self.scoreboard.in_flight() + 1) * self.mss;
    }

    /// Declares lost all but the segments sent less than a round trip ago.
    fn mark_all_lost(&mut self, now: u64) {
        let Some(front) = self.scoreboard.front() else {
            return;
        };
        for number in front..front + self.scoreboard.out() {
            let overdue = number == front
                || !self.sack
                || self
                    .scoreboard
                    .get(number)
                    .is_some_and(|sent| self.rack.is_overdue(now, sent));
            if overdue {
                self.scoreboard.mark_lost(number);
            }
        }
    }

    /// RFC 8985 §6.2, or without SACK RFC 6582's rules.
    pub(super) fn detect_losses(&mut self, now: u64) {
        if self.sack {
            self.timers.reorder = self.rack.detect(
                now,
                &mut self.scoreboard,
                self.episode.state >= State::Recovery,
                self.rtt.min(),
                self.rtt.smoothed(),
            );
        }
    }

    fn identify_losses(&mut self, ack: &Ack) {
        self.detect_losses(ack.now);
        if self.sack {
            return;
        }
        let third = self.episode.state < State::Recovery && self.scoreboard.sacked() >= DUP_ACKS;
        // RFC 6582 §3.2, step 3: a partial ACK shows the next hole.
        let partial = self.episode.state == State::Recovery && ack.advanced;
        if let Some(front) = self.scoreboard.front()
            && (third || partial)
            && self.scoreboard.get(front).is_some_and(|s| !s.lost)
        {
            self.scoreboard.mark_lost(front);
        }
    }

    /// Moves the congestion state by an ACK that the scoreboard has taken.
    pub(super) fn respond(&mut self, ack: &Ack) {
        if ack.echo {
            // A mark is congestion, whatever a retransmission was.
            self.episode.prior_cwnd = 0;
        }
        match self.episode.state {
            State::Open => self.episode.first_resend_at = 0,
            State::Cwr if self.acked > self.episode.high => self.episode.state = State::Open,
            State::Recovery if self.acked >= self.episode.high => {
                self.forget_duplicates();
                if !self.end_episode(ack) {
                    return;
                }
            }
            _ => {}
        }
        match self.episode.state {
            State::Recovery => self.respond_in_recovery(ack),
            State::Loss => self.respond_in_loss(ack),
            State::Open | State::Disorder | State::Cwr => self.respond_in_order(ack),
        }
    }

    fn respond_in_order(&mut self, ack: &Ack) {
        if !self.sack {
            if ack.advanced {
                self.forget_duplicates();
            } else if ack.duplicate {
                self.scoreboard.count_duplicate();
            }
        }
        if self.episode.state <= State::Disorder {
            self.undo_by_duplicates();
        }
        self.identify_losses(ack);
        if self.scoreboard.lost() > 0 {
            self.enter_recovery();
            return;
        }
        self.open(ack.echo);
    }

    /// Linux's `tcp_try_to_open`.
    fn open(&mut self, echo: bool) {
        if self.scoreboard.resent() == 0 {
            self.episode.first_resend_at = 0;
        }
        if echo && self.episode.state != State::Cwr {
            self.enter_cwr();
        }
        if self.episode.state != State::Cwr {
            self.keep_open();
        }
    }

    fn keep_open(&mut self) {
        let doubtful =
            self.scoreboard.sacked() + self.scoreboard.lost() + self.scoreboard.resent() > 0;
        self.episode.state = if doubtful {
            State::Disorder
        } else {
            State::Open
        };
    }

    fn respond_in_recovery(&mut self, ack: &Ack) {
        if ack.advanced {
            if self.undo_by_timestamp(ack) {
                if self.scoreboard.resent() == 0 {
                    self.take_back(true);
                    self.keep_open();
                }
                return;
            }
        } else if !self.sack && ack.duplicate {
            self.scoreboard.count_duplicate();
        }
        if self.undo_by_duplicates() {
            self.keep_open();
            return;
        }
        self.identify_losses(ack);
    }

    fn respond_in_loss(&mut self, ack: &Ack) {
        if ack.advanced && (self.undo_by_timestamp(ack) || self.is_shown_vain()) {
            // RFC 3522 §3.2: the ACK is for the original transmission.
            self.take_back(true);
            self.keep_open();
            return;
        }
        if self.acked >= self.episode.high {
            self.forget_duplicates();
            if self.end_episode(ack) {
                self.keep_open();
            }
            return;
        }
        if !self.sack {
            if ack.advanced {
                self.forget_duplicates();
            } else if ack.duplicate {
                self.scoreboard.count_duplicate();
            }
        }
        let resent = self.scoreboard.resent();
        self.identify_losses(ack);
        if self.scoreboard.resent() < resent {
            // A retransmission is lost too: congestion of its own.
            self.enter_recovery();
        }
    }

    /// All that was out is acknowledged. Without SACK a recovery goes on until something more
    /// is, lest duplicate ACKs of what was sent again begin another (RFC 6582 §4). Whether it is
    /// over.
    fn end_episode(&mut self, ack: &Ack) -> bool {
        if self.undo_by_timestamp(ack) || self.is_shown_vain() {
            self.take_back(false);
        } else {
            self.rack.on_recovered();
        }
        if !self.sack && self.acked == self.episode.high {
            return false;
        }
        self.episode.undo = None;
        self.episode.state = State::Open;
        true
    }

    fn forget_duplicates(&mut self) {
        if !self.sack {
            self.scoreboard.forget_duplicates();
        }
    }

    /// RFC 3522 §3.2 (Eifel): the echoed timestamp is older than the first retransmission.
    fn undo_by_timestamp(&self, ack: &Ack) -> bool {
        self.timestamps
            && self.episode.undo.is_some()
            && self.episode.first_resend_at > 0
            && ack.advanced
            && ack.timestamp < self.episode.first_resend_at
    }

    /// RFC 3708: each retransmission of the episode was reported as a duplicate.
    fn is_shown_vain(&self) -> bool {
        self.episode.first_resend_at > 0
            && self
                .episode
                .undo
                .is_some_and(|undo| undo.retransmissions == 0)
    }

    fn undo_by_duplicates(&mut self) -> bool {
        let vain = self.is_shown_vain();
        if vain {
            self.take_back(false);
        }
        vain
    }

    /// Counts a duplicate that the receiver reported (RFC 2883): a retransmission was not needed.
    pub(super) fn note_duplicate(&mut self, end: u64, segments: u64) {
        if let Some(undo) = &mut self.episode.undo
            && end > undo.marker
        {
            undo.retransmissions = undo.retransmissions.saturating_sub(segments);
        }
    }

    /// Takes back a reduction that proved spurious.
    fn take_back(&mut self, all_in_flight: bool) {
        if all_in_flight {
            self.scoreboard.unmark_lost();
        }
        self.episode.undo = None;
        self.episode.resend_front = false;
        if self.episode.state == State::Recovery {
            self.rack.on_reordering();
        }
        if self.episode.prior_cwnd == 0 {
            return;
        }
        self.cwnd = self.cwnd.max(self.episode.prior_cwnd);
        self.episode.threshold = self.episode.prior_threshold;
        self.episode.undone = true;
        self.tell_reduced = false;
        self.counters.undos += 1;
    }

    /// Ends the tail loss probe's episode (RFC 8985 §7.4). A probe that repaired a loss shows
    /// congestion.
    pub(super) fn respond_to_probe(&mut self, ack: &Ack, duplicate: bool) {
        let Probe::Sent { next, again } = self.episode.probe else {
            return;
        };
        let original_arrived = duplicate || (ack.duplicate && !ack.sacked && self.acked == next);
        if self.acked < next {
            return;
        }
        if !again || original_arrived {
            self.episode.probe = Probe::None;
        } else if self.acked > next {
            self.episode.probe = Probe::None;
            self.enter_cwr();
            self.keep_open();
        }
    }
}
