//! CUBIC (RFC 9438), from the signals that programs see.

use fairwater_lang::Signal;

use super::Path;
use super::cubic_curve::Epoch;
use super::episode::{Episode, Response};

/// Shorter times without an invocation are not taken for a pause of the application, µs.
const SHORTEST_PAUSE_US: u64 = 100_000;

/// CUBIC's state besides cwnd. The rate is left at none: ACKs clock what is sent.
///
/// β = 0.7 and C = 0.4 segments/s³ (RFC 9438 §4.1, §4.6), with fast convergence (§4.7) and the
/// Reno-friendly region (§4.3). cwnd never goes below 1 MSS, the loss window, and not below 2 MSS
/// but after a retransmission timeout.
///
/// In slow start cwnd grows by what was acknowledged, up to ssthresh (RFC 9002 §7.3.1), at most
/// doubling in one invocation. In congestion avoidance it grows by whole segments: by half of what was
/// acknowledged at most, since the target is at most 1.5 × cwnd (RFC 9438 §4.2), and what was due before,
/// less than a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cubic {
    /// Slow start threshold, bytes.
    ssthresh: u64,
    episode: Episode,
    /// The window before the last reduction, less by fast convergence, bytes; 0 when no loss has
    /// shown one.
    w_max: u64,
    /// cwnd before the last reduction, bytes; 0 when there was none. Above it W_est grows as Reno does.
    cwnd_prior: u64,
    epoch: Option<Epoch>,
    /// W_est: the window that Reno would have, bytes.
    w_est: u64,
    /// Bytes acknowledged since W_est last grew.
    est_acked: u64,
    /// Growth due, below one segment: bytes × 2¹⁶.
    credit: u64,
    /// The last invocation, µs.
    last_us: u64,
}

impl Default for Cubic {
    fn default() -> Self {
        Self::new()
    }
}

impl Cubic {
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
            episode: Episode::NONE,
            w_max: 0,
            cwnd_prior: 0,
            epoch: None,
            w_est: 0,
            est_acked: 0,
            credit: 0,
            last_us: 0,
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
        self.pass_time(cwnd, path);
        if path.signal(Signal::Undo) != 0 {
            // RFC 9438 §4.9: the reduction was in vain, and cwnd is what it was before.
            self.epoch = None;
            self.ssthresh = self.ssthresh.max(cwnd);
            self.w_max = self.w_max.max(cwnd);
        }
        let response = self.episode.respond((cwnd, self.ssthresh), path, |flight| {
            fraction(flight, 7, 10)
        });
        match response {
            Response::Timeout { ssthresh } => {
                // RFC 9438 §4.8: the first stage after it has its plateau where it begins.
                self.ssthresh = ssthresh;
                self.epoch = None;
                self.w_max = 0;
                if cwnd > path.mss {
                    self.cwnd_prior = cwnd;
                }
                path.mss
            }
            Response::Reduce { ssthresh } => {
                self.ssthresh = ssthresh;
                self.epoch = None;
                // RFC 9438 §4.7: a flow whose window shrinks gives up some more of it.
                self.w_max = if cwnd < self.w_max {
                    fraction(cwnd, 17, 20)
                } else {
                    cwnd
                };
                self.cwnd_prior = cwnd;
                ssthresh.min(cwnd)
            }
            Response::Hold => cwnd,
            // No more than was in flight can be acknowledged.
            Response::Grow { acked } => self.grow(cwnd, acked.min(cwnd), path),
        }
    }

    /// Time in which the flow did not use its window, or had nothing to send, does not count (RFC 9438
    /// §5.8).
    fn pass_time(&mut self, cwnd: u64, path: &Path<'_>) {
        let now_us = path.signal(Signal::Now);
        let pause = now_us.saturating_sub(self.last_us);
        self.last_us = self.last_us.max(now_us);
        let Some(epoch) = &mut self.epoch else {
            return;
        };
        if path.is_limited_by_application(cwnd) {
            epoch.skip(pause);
        } else if pause > path.srtt_us.saturating_mul(2).max(SHORTEST_PAUSE_US) {
            epoch.skip(pause - path.srtt_us);
        }
    }

    fn grow(&mut self, cwnd: u64, acked: u64, path: &Path<'_>) -> u64 {
        if cwnd < self.ssthresh {
            return cwnd.saturating_add(acked).min(self.ssthresh);
        }
        let (now_us, mss) = (path.signal(Signal::Now), path.mss);
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => self.begin_epoch(now_us, cwnd, mss),
        };
        self.estimate_reno(cwnd, acked, mss);
        let most = cwnd.saturating_add(acked / 2).saturating_add(mss);
        if epoch.window(now_us, mss) < self.w_est {
            // RFC 9438 §4.3: the Reno-friendly region.
            return self.w_est.clamp(cwnd, most);
        }
        // RFC 9438 §4.4, §4.5: (target - cwnd) / cwnd for each segment that is acknowledged.
        let target = epoch.window(now_us.saturating_add(path.srtt_us), mss);
        let above = target.clamp(cwnd, cwnd.saturating_add(cwnd / 2)) - cwnd;
        let due = (u128::from(acked) << 16).saturating_mul(u128::from(above)) / u128::from(cwnd);
        let due = due + u128::from(self.credit);
        let segment = u128::from(mss) << 16;
        self.credit = u64::try_from(due % segment).unwrap_or(0);
        let grown = u64::try_from(due / segment).unwrap_or(u64::MAX);
        cwnd.saturating_add(grown.saturating_mul(mss)).min(most)
    }

    fn begin_epoch(&mut self, now_us: u64, cwnd: u64, mss: u64) -> Epoch {
        let epoch = Epoch::new(now_us, cwnd, self.w_max, mss);
        self.epoch = Some(epoch);
        self.w_est = cwnd;
        self.est_acked = 0;
        self.credit = 0;
        epoch
    }

    /// RFC 9438 §4.3 (Figure 4): W_est grows by α segments for each cwnd acknowledged, α = 3 × (1 - β) /
    /// (1 + β) = 9/17, and 1 above the window of the last reduction.
    fn estimate_reno(&mut self, cwnd: u64, acked: u64, mss: u64) {
        self.est_acked = self.est_acked.saturating_add(acked);
        let needed = if self.w_est >= self.cwnd_prior {
            cwnd
        } else {
            fraction(cwnd, 17, 9)
        };
        if self.est_acked >= needed {
            self.est_acked = (self.est_acked - needed).min(needed);
            self.w_est = self.w_est.saturating_add(mss);
        }
    }
}

fn fraction(bytes: u64, numerator: u32, denominator: u32) -> u64 {
    let part = u128::from(bytes) * u128::from(numerator) / u128::from(denominator);
    u64::try_from(part).unwrap_or(u64::MAX)
}
