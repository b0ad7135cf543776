//! CUBIC (RFC 9438), with the bounds that Linux adds.

use super::cubic_curve::{Epoch, reduced, w_max};
use super::hystart::HyStart;
use super::reduction::{Credit, Reduction, Step, makes_use, slow_start};
use fairwater_tcp::{Cause, Invocation};

/// The pace is computed again when cwnd has changed, or after this, ns (Linux: HZ / 32).
const STALE: u64 = 31_250_000;

#[derive(Debug, Clone)]
pub(super) struct Cubic {
    reduction: Reduction,
    credit: Credit,
    hystart: HyStart,
    epoch: Option<Epoch>,
    w_max: u64,
    /// Delivered segments that let cwnd grow by one, and for which cwnd and when that was found.
    pace: u64,
    paced_cwnd: u64,
    paced_at: u64,
    /// Delivered segments since then.
    uncounted: u64,
    /// The least RTT since the last timeout, ns.
    min_rtt: u64,
    last_ack: u64,
}

impl Cubic {
    pub(super) fn new(prr: bool) -> Self {
        Self {
            reduction: Reduction::new(prr),
            credit: Credit::default(),
            hystart: HyStart::default(),
            epoch: None,
            w_max: 0,
            pace: 1,
            paced_cwnd: 0,
            paced_at: 0,
            uncounted: 0,
            min_rtt: u64::MAX,
            last_ack: 0,
        }
    }

    /// Segments.
    pub(super) fn ssthresh(&self) -> Option<u64> {
        self.reduction.finite_ssthresh()
    }

    /// cwnd, segments.
    pub(super) fn on_invocation(&mut self, invocation: &Invocation) -> u64 {
        let now = invocation.now_ns;
        let step = self.reduction.step(invocation, reduced);
        let mut cwnd = match step {
            Step::Hold { cwnd, reduced } => {
                if reduced {
                    self.epoch = None;
                    self.w_max = w_max(self.reduction.prior_cwnd(), self.w_max);
                }
                if invocation.cause == Cause::Timeout {
                    self.restart(now, invocation.next);
                }
                cwnd
            }
            Step::Grow(cwnd) | Step::Undone(cwnd) => cwnd,
        };
        if let Some(rtt) = invocation.rtt_ns
            && invocation.cause == Cause::Ack
        {
            self.min_rtt = self.min_rtt.min(rtt.max(1));
            if cwnd < self.reduction.ssthresh
                && self
                    .hystart
                    .on_ack(now, rtt, self.min_rtt, cwnd, invocation.paced, invocation)
            {
                self.reduction.ssthresh = cwnd;
            }
        }
        if matches!(step, Step::Hold { .. }) {
            return cwnd;
        }
        let pause = now.saturating_sub(self.last_ack);
        self.last_ack = now;
        if invocation.idle_restart.is_some()
            && let Some(epoch) = &mut self.epoch
        {
            epoch.skip(pause);
        }
        let ssthresh = self.reduction.ssthresh;
        if !makes_use(invocation, cwnd, ssthresh) {
            return cwnd;
        }
        let left;
        (cwnd, left) = slow_start(cwnd, ssthresh, invocation.delivered_packets);
        if left == 0 {
            return cwnd;
        }
        self.update(now, cwnd, left);
        self.credit.grow(cwnd, self.pace, left)
    }

    fn update(&mut self, now: u64, cwnd: u64, delivered: u64) {
        self.uncounted += delivered;
        if self.paced_cwnd == cwnd && now.saturating_sub(self.paced_at) <= STALE {
            return;
        }
        self.paced_cwnd = cwnd;
        self.paced_at = now;
        let delivered = std::mem::take(&mut self.uncounted);
        let epoch = self
            .epoch
            .get_or_insert_with(|| Epoch::new(now, cwnd, self.w_max));
        let rtt = if self.min_rtt == u64::MAX {
            0
        } else {
            self.min_rtt
        };
        self.pace = epoch.pace(now, rtt, cwnd, delivered, self.w_max == 0);
    }

    /// RFC 9438 §4.8: after a timeout, what was known of the path is forgotten.
    fn restart(&mut self, now: u64, next: u64) {
        self.epoch = None;
        self.w_max = 0;
        self.pace = 1;
        self.paced_cwnd = 0;
        self.paced_at = 0;
        self.uncounted = 0;
        self.min_rtt = u64::MAX;
        self.hystart.reset(now, next);
    }
}
