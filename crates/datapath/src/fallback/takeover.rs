//! How a flow comes from its program to the fallback.

use super::Path;

/// Windows up to this many segments are small: below it a flow that has lost nothing goes on with
/// slow start, as in the fallback of Linux TCP.
const SMALL_WINDOW: u64 = 100;

/// RFC 6928 §2, segments.
const INITIAL_WINDOW: u64 = 10;

/// What a program leaves to the fallback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Takeover {
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Pacing rate, bytes/s; 0 is none.
    pub rate: u64,
    /// Whether nothing was lost, and no timeout happened, since the flow began.
    pub is_lossless: bool,
    /// Slow start threshold, bytes, of a retransmission timeout after which the window has not come
    /// back yet; 0 for none.
    pub timeout_ssthresh: u64,
}

impl Takeover {
    /// Window and slow start threshold to go on with, bytes; [`u64::MAX`] is no threshold.
    ///
    /// **Window:** the program's, as far as the flow made use of it. A program that paces may leave a
    /// window that the path never bore: it gets what it used. Another's window is bounded by twice
    /// that, which is more than it can lack (RFC 7661 §4.2). Neither bound is below the initial window.
    ///
    /// **Threshold:** the window, so that growth goes on by congestion avoidance, with two exceptions.
    /// After a timeout slow start is due up to the threshold of that loss (RFC 5681 §3.1); and a flow
    /// that has lost nothing and whose window is small goes on with its first slow start.
    pub(super) fn controls(&self, path: &Path<'_>) -> (u64, u64) {
        let used = path.used();
        let used = if self.rate > 0 {
            used
        } else {
            used.saturating_mul(2)
        };
        let cwnd = if used > 0 {
            let least = path.mss.saturating_mul(INITIAL_WINDOW);
            self.cwnd.min(used.max(least))
        } else {
            self.cwnd
        };
        let cwnd = cwnd.max(path.mss);
        let ssthresh = Self { cwnd, ..*self }.ssthresh(path.mss);
        (cwnd, ssthresh.unwrap_or(u64::MAX))
    }

    /// The slow start threshold of whatever comes after the program, bytes; `None` for a flow in its
    /// first slow start.
    pub(crate) fn ssthresh(&self, mss: u64) -> Option<u64> {
        let is_small = self.cwnd <= mss.saturating_mul(SMALL_WINDOW);
        let is_in_first_slow_start = self.is_lossless && is_small;
        (!is_in_first_slow_start).then_some(self.cwnd.max(self.timeout_ssthresh))
    }
}
