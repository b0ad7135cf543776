//! What window-based congestion controls share: when to reduce, how to get there, when to grow.

use fairwater_tcp::{Cause, Invocation, State};

/// RFC 5681 §3.1: no threshold, before the first reduction.
const INFINITE: u64 = u64::MAX;

/// The response to congestion, in segments: ssthresh, and proportional rate reduction (RFC 6937).
#[derive(Debug, Clone)]
pub(super) struct Reduction {
    prr: bool,
    pub(super) ssthresh: u64,
    prior_ssthresh: u64,
    /// RecoverFS in RFC 6937 §3; Linux takes cwnd.
    prior_cwnd: u64,
    /// prr_delivered.
    delivered: u64,
    /// What was sent when the reduction began: prr_out counts from here.
    sent: u64,
    /// [`Invocation::reductions`] that were answered.
    answered: u64,
    reducing: bool,
}

/// What an invocation means for the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// cwnd is this, and does not grow now. `reduced`: a reduction began.
    Hold { cwnd: u64, reduced: bool },
    /// cwnd may grow from this.
    Grow(u64),
    /// A reduction was taken back, and cwnd may grow from this.
    Undone(u64),
}

impl Reduction {
    pub(super) fn new(prr: bool) -> Self {
        Self {
            prr,
            ssthresh: INFINITE,
            prior_ssthresh: INFINITE,
            prior_cwnd: 0,
            delivered: 0,
            sent: 0,
            answered: 0,
            reducing: false,
        }
    }

    /// ssthresh, once there is one.
    pub(super) fn finite_ssthresh(&self) -> Option<u64> {
        (self.ssthresh != INFINITE).then_some(self.ssthresh)
    }

    /// cwnd before the last reduction.
    pub(super) fn prior_cwnd(&self) -> u64 {
        self.prior_cwnd
    }

    /// Decides on an invocation. `threshold` computes ssthresh from the cwnd before a reduction.
    pub(super) fn step(
        &mut self,
        invocation: &Invocation,
        threshold: impl FnOnce(u64) -> u64,
    ) -> Step {
        let mss = u64::from(invocation.mss.max(1));
        let mut cwnd = (invocation.cwnd / mss).max(1);
        if let Some(before) = invocation.idle_restart {
            // Linux's tcp_current_ssthresh: what was reached before the pause is not forgotten.
            self.ssthresh = match self.ssthresh {
                INFINITE => INFINITE,
                ssthresh => ssthresh.max(before / mss * 3 / 4),
            };
        }
        if invocation.undone {
            self.ssthresh = self.ssthresh.max(self.prior_ssthresh);
            self.reducing = false;
            self.answered = invocation.reductions;
            return Step::Undone(cwnd);
        }
        let reduced = invocation.reductions != self.answered;
        if reduced {
            self.answered = invocation.reductions;
            self.prior_cwnd = (invocation.reduced_from / mss).max(1);
            self.prior_ssthresh = self.ssthresh;
            self.ssthresh = threshold(self.prior_cwnd);
            self.delivered = 0;
            self.sent = invocation.sent_packets;
            self.reducing = true;
        }
        if invocation.cause == Cause::Timeout {
            // RFC 5681 §3.1: the loss window.
            self.reducing = false;
            return Step::Hold { cwnd: 1, reduced };
        }
        match invocation.state {
            State::Recovery | State::Cwr if self.reducing => {
                cwnd = self.reduce(invocation, cwnd);
                Step::Hold { cwnd, reduced }
            }
            State::Recovery | State::Cwr => Step::Hold { cwnd, reduced },
            State::Open | State::Disorder | State::Loss => {
                if std::mem::take(&mut self.reducing) && invocation.state != State::Loss {
                    cwnd = self.ssthresh;
                }
                if reduced || !invocation.advanced {
                    Step::Hold { cwnd, reduced }
                } else {
                    Step::Grow(cwnd)
                }
            }
        }
    }

    /// RFC 6937 §3, with the reduction bound of slow start (PRR-SSRB) where ACKs show that losses
    /// have ended, and of packet conservation (PRR-CRB) where they do not. Without PRR, cwnd is
    /// ssthresh at once (RFC 6675 §5).
    fn reduce(&mut self, invocation: &Invocation, cwnd: u64) -> u64 {
        if !self.prr {
            return self.ssthresh.min(cwnd);
        }
        let newly = match invocation.cause {
            // Linux lets one segment go when the timer found the loss.
            Cause::LossTimer => 1,
            _ => invocation.delivered_packets,
        };
        if newly == 0 {
            return cwnd;
        }
        self.delivered += newly;
        let out = invocation.sent_packets - self.sent;
        let pipe = invocation.in_flight_packets;
        let mut send = if pipe > self.ssthresh {
            (self.ssthresh * self.delivered)
                .div_ceil(self.prior_cwnd)
                .saturating_sub(out)
        } else {
            let mut limit = self.delivered.saturating_sub(out).max(newly);
            if invocation.advanced && invocation.lost_packets == 0 {
                limit += 1;
            }
            limit.min(self.ssthresh - pipe)
        };
        if out == 0 {
            // The fast retransmission goes out whatever else holds.
            send = send.max(1);
        }
        pipe + send
    }
}

/// Whether the flow makes use of its window, or doubles it before it will (RFC 7661 §4.2, Linux's
/// `tcp_is_cwnd_limited`).
pub(super) fn makes_use(invocation: &Invocation, cwnd: u64, ssthresh: u64) -> bool {
    invocation.cwnd_limited || (cwnd < ssthresh && cwnd < 2 * invocation.max_packets_out)
}

/// RFC 5681 §3.1 in slow start: as many segments as were delivered, up to ssthresh. The window,
/// and the segments that are left over for congestion avoidance.
pub(super) fn slow_start(cwnd: u64, ssthresh: u64, delivered: u64) -> (u64, u64) {
    let grown = (cwnd + delivered).min(ssthresh.max(cwnd));
    (grown, delivered - (grown - cwnd))
}

/// Growth by one segment for each `per` segments delivered.
#[derive(Debug, Clone, Default)]
pub(super) struct Credit(u64);

impl Credit {
    /// The window after so many segments were delivered. What was earned under a slower pace
    /// counts for one segment at most.
    pub(super) fn grow(&mut self, mut cwnd: u64, per: u64, delivered: u64) -> u64 {
        let per = per.max(1);
        if self.0 >= per {
            self.0 = 0;
            cwnd += 1;
        }
        self.0 += delivered;
        cwnd += self.0 / per;
        self.0 %= per;
        cwnd
    }

    pub(super) fn reset(&mut self) {
        self.0 = 0;
    }
}
