//! The window as CUBIC wants it over time (RFC 9438 §4), in segments and seconds.

/// RFC 9438 §4.6: multiplicative decrease.
pub(crate) const BETA: f64 = 0.7;
/// RFC 9438 §4.1: how fast the window grows in high-BDP networks, segments/s³.
const C: f64 = 0.4;
/// RFC 9438 §4.3: additive increase per round trip that, with `BETA`, matches Reno's share.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// One congestion avoidance stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Epoch {
    start_us: u64,
    /// The plateau of the curve: W_max, or cwnd at the start when that is higher.
    origin: f64,
    /// When the curve reaches it, s.
    k: f64,
    /// The window that Reno would have: W_est.
    w_est: f64,
    /// cwnd before the last reduction, above which W_est grows by one segment a round trip.
    cwnd_prior: Option<f64>,
}

impl Epoch {
    /// A stage that begins with this cwnd (RFC 9438 §4.2). Without a `w_max` the curve begins at
    /// its plateau (§4.8).
    pub(crate) fn new(
        start_us: u64,
        cwnd: f64,
        w_max: Option<f64>,
        cwnd_prior: Option<f64>,
    ) -> Self {
        let origin = w_max.map_or(cwnd, |w| w.max(cwnd));
        Self {
            start_us,
            origin,
            k: ((origin - cwnd) / C).cbrt(),
            w_est: cwnd,
            cwnd_prior,
        }
    }

    /// W_cubic, Figure 1 of RFC 9438 §4.2, `ahead_us` after `now_us`.
    pub(crate) fn w_cubic(&self, now_us: u64, ahead_us: u64) -> f64 {
        let t_us = now_us
            .saturating_sub(self.start_us)
            .saturating_add(ahead_us);
        let t = t_us as f64 / 1e6;
        C * (t - self.k).powi(3) + self.origin
    }

    /// The window that Reno would have.
    pub(crate) fn w_est(&self) -> f64 {
        self.w_est
    }

    /// Figure 4 of RFC 9438 §4.3: these segments were acknowledged under this cwnd.
    pub(crate) fn acknowledge(&mut self, segments: f64, cwnd: f64) {
        let alpha = match self.cwnd_prior {
            Some(prior) if self.w_est >= prior => 1.0,
            _ => ALPHA,
        };
        self.w_est += alpha * segments / cwnd;
    }

    /// Segments to be acknowledged for cwnd to grow by one (RFC 9438 §4.4 and §4.5), of this cwnd
    /// in segments: it meets the target within a round trip, grows by half at most, and hardly
    /// where the target is below. `explored` says that a loss has shown a W_max.
    pub(crate) fn count(
        &self,
        now_us: u64,
        rtt_us: u64,
        cwnd: f64,
        reno_friendly: bool,
        explored: bool,
    ) -> f64 {
        let target = self.w_cubic(now_us, rtt_us);
        let mut count = if target > cwnd {
            cwnd / (target - cwnd)
        } else {
            100.0 * cwnd
        };
        // RFC 9438 §4.3.
        if reno_friendly && self.w_est > cwnd {
            count = count.min(cwnd / (self.w_est - cwnd));
        }
        // Linux: where no loss has shown a W_max, the curve alone would take seconds to find the
        // path's capacity; cwnd grows by a twentieth each round trip.
        if !explored {
            count = count.min(20.0);
        }
        count.max(2.0)
    }

    /// Time in which the flow could not use its window does not count (RFC 9438 §5.8).
    pub(crate) fn skip(&mut self, us: u64) {
        self.start_us = self.start_us.saturating_add(us);
    }
}

/// W_max after a reduction from this cwnd (RFC 9438 §4.7): with fast convergence, a flow whose
/// window shrinks gives up some more of it.
pub(crate) fn w_max_after(cwnd: f64, former: Option<f64>, fast_convergence: bool) -> f64 {
    match former {
        Some(w_max) if fast_convergence && cwnd < w_max => cwnd * (1.0 + BETA) / 2.0,
        _ => cwnd,
    }
}
