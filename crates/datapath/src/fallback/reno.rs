//! Reno (RFC 5681), from the signals that programs see.

use super::Path;
use super::episode::{Episode, Response};

/// Reno's state besides cwnd. The rate is left at none: ACKs clock what is sent.
///
/// cwnd never goes below 1 MSS, the loss window (RFC 5681 §3.1), and not below 2 MSS but after a
/// retransmission timeout (eq. 4). Bytes are counted as RFC 3465 does, so that ACKs that
/// cover many segments, or few, make no difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reno {
    /// Slow start threshold, bytes.
    ssthresh: u64,
    /// Bytes acknowledged since congestion avoidance last grew cwnd.
    acked: u64,
    episode: Episode,
}

impl Default for Reno {
    fn default() -> Self {
        Self::new()
    }
}

impl Reno {
    /// For a connection that begins: slow start up to the first loss (RFC 5681 §3.1, an initial
    /// ssthresh that is arbitrarily high).
    #[must_use]
    pub const fn new() -> Self {
        Self::with_ssthresh(u64::MAX)
    }

    /// For a connection that has this slow start threshold, bytes.
    #[must_use]
    pub const fn with_ssthresh(ssthresh: u64) -> Self {
        Self {
            ssthresh,
            acked: 0,
            episode: Episode::NONE,
        }
    }

    /// Slow start threshold, bytes.
    #[must_use]
    pub const fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    /// The new cwnd after an ACK or a retransmission timeout, bytes.
    #[must_use]
    pub fn on_signals(&mut self, cwnd: u64, path: &Path<'_>) -> u64 {
        let cwnd = cwnd.max(path.mss);
        let response = self
            .episode
            .respond((cwnd, self.ssthresh), path, |flight| flight / 2);
        match response {
            Response::Timeout { ssthresh } => {
                self.ssthresh = ssthresh;
                self.acked = 0;
                path.mss
            }
            Response::Reduce { ssthresh } => {
                self.ssthresh = ssthresh;
                self.acked = 0;
                ssthresh.min(cwnd)
            }
            Response::Hold => cwnd,
            Response::Grow { acked } => self.grow(cwnd, acked, path.mss),
        }
    }

    fn grow(&mut self, cwnd: u64, acked: u64, mss: u64) -> u64 {
        if cwnd < self.ssthresh {
            // RFC 5681 §3.1 (eq. 2), with the limit of RFC 3465 §2.2: L = 2 × SMSS.
            return cwnd.saturating_add(acked.min(mss.saturating_mul(2)));
        }
        // RFC 3465 §2.1: one SMSS for each cwnd of bytes acknowledged.
        self.acked = self.acked.saturating_add(acked);
        if self.acked < cwnd {
            return cwnd;
        }
        self.acked = (self.acked - cwnd).min(cwnd);
        cwnd.saturating_add(mss)
    }
}
