//! NewReno (RFC 5681, RFC 6582).

use super::reduction::{Credit, Reduction, Step, makes_use, slow_start};
use fairwater_tcp::Invocation;

#[derive(Debug, Clone)]
pub(super) struct Reno {
    reduction: Reduction,
    credit: Credit,
}

impl Reno {
    pub(super) fn new(prr: bool) -> Self {
        Self {
            reduction: Reduction::new(prr),
            credit: Credit::default(),
        }
    }

    /// Segments.
    pub(super) fn ssthresh(&self) -> Option<u64> {
        self.reduction.finite_ssthresh()
    }

    /// cwnd, segments.
    pub(super) fn on_invocation(&mut self, invocation: &Invocation) -> u64 {
        // RFC 5681 §3.1 (eq. 4), of cwnd rather than FlightSize, as Linux has it.
        let step = self.reduction.step(invocation, |cwnd| (cwnd / 2).max(2));
        let cwnd = match step {
            Step::Hold { cwnd, reduced } => {
                if reduced {
                    self.credit.reset();
                }
                return cwnd;
            }
            Step::Grow(cwnd) | Step::Undone(cwnd) => cwnd,
        };
        let ssthresh = self.reduction.ssthresh;
        if !makes_use(invocation, cwnd, ssthresh) {
            return cwnd;
        }
        let (cwnd, left) = slow_start(cwnd, ssthresh, invocation.delivered_packets);
        if left == 0 {
            return cwnd;
        }
        // RFC 5681 §3.1: one segment an RTT.
        self.credit.grow(cwnd, cwnd, left)
    }
}
