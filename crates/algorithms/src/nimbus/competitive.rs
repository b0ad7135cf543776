//! What Nimbus does while cross traffic is elastic: what that does.

use crate::cubic::curve::{BETA, Epoch, w_max_after};

use super::Observed;

/// Which TCP it competes as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NimbusCompetitive {
    /// CUBIC (RFC 9438).
    #[default]
    Cubic,
    /// NewReno (RFC 5681).
    Reno,
}

/// A TCP's window, kept in the plane.
#[derive(Debug, Clone)]
pub(super) struct Competitor {
    kind: NimbusCompetitive,
    /// Segments.
    cwnd: f64,
    w_max: Option<f64>,
    epoch: Option<Epoch>,
    /// Losses before were of a window that is reduced already (RFC 6582 §3.2), µs.
    recovering_until_us: u64,
}

impl Competitor {
    pub(super) fn new(kind: NimbusCompetitive) -> Self {
        Self {
            kind,
            cwnd: 10.0,
            w_max: None,
            epoch: None,
            recovering_until_us: 0,
        }
    }

    /// It takes over at this rate, bytes/s.
    pub(super) fn begin(&mut self, rate: f64, seen: &Observed) {
        *self = Self::new(self.kind);
        self.cwnd = (rate * seen.rtt_us as f64 / 1e6 / seen.mss).max(2.0);
        self.w_max = Some(self.cwnd);
        self.recovering_until_us = seen.time_us.saturating_add(seen.rtt_us);
    }

    /// Counts in segments of another size, of which there are `factor` times as many.
    pub(super) fn scale(&mut self, factor: f64) {
        self.cwnd *= factor;
        self.w_max = self.w_max.map(|w_max| w_max * factor);
        self.epoch = None;
    }

    /// The rate, bytes/s, after a report.
    pub(super) fn rate(&mut self, seen: &Observed) -> f64 {
        if seen.lost > 0.0 && seen.time_us >= self.recovering_until_us {
            self.recovering_until_us = seen.time_us.saturating_add(seen.rtt_us);
            let factor = match self.kind {
                NimbusCompetitive::Cubic => BETA,
                NimbusCompetitive::Reno => 0.5,
            };
            self.w_max = Some(w_max_after(self.cwnd, self.w_max, true));
            self.epoch = None;
            self.cwnd = (self.cwnd * factor).max(2.0);
        } else if seen.time_us >= self.recovering_until_us {
            let acked = seen.acked / seen.mss;
            let count = match self.kind {
                NimbusCompetitive::Reno => self.cwnd,
                NimbusCompetitive::Cubic => self.count(seen, acked),
            };
            self.cwnd = (self.cwnd + acked / count).min(1e9);
        }
        self.cwnd * seen.mss * 1e6 / seen.rtt_us.max(1) as f64
    }

    /// Segments to be acknowledged for one more.
    fn count(&mut self, seen: &Observed, acked: f64) -> f64 {
        let (cwnd, w_max) = (self.cwnd, self.w_max);
        let epoch = self
            .epoch
            .get_or_insert_with(|| Epoch::new(seen.time_us, cwnd, w_max, w_max));
        epoch.acknowledge(acked, cwnd);
        epoch.count(seen.time_us, seen.base_us, cwnd, true, w_max.is_some())
    }
}

impl crate::parameter::Named for NimbusCompetitive {
    const NAMES: &'static [(&'static str, Self)] = &[("cubic", Self::Cubic), ("reno", Self::Reno)];
}
