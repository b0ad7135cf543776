//! What Nimbus does while cross traffic is inelastic: it controls the delay.

use crate::copa::CopaMode;
use crate::copa::rules::{Reading, Rules};
use crate::windowed::WindowedMin;

use super::Observed;
use super::pulse::PERIOD_US;

/// d_t: the queueing delay that is aimed at, µs. Pulses drain 8 ms (Bundler §5.1), and z is unknown
/// while the queue is empty.
pub(super) const TARGET_US: u64 = 12_500;
/// BasicDelay's gains.
const ALPHA: f64 = 0.8;
const BETA: f64 = 0.3;

/// Which delay control runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NimbusDelay {
    /// Nimbus's own.
    #[default]
    Basic,
    /// Copa in default mode, its 1/δ so that the queue is as long as with the other.
    Copa,
}

/// Its state.
#[derive(Debug, Clone)]
pub(super) enum Delay {
    Basic,
    Copa(Box<CopaInside>),
}

#[derive(Debug, Clone)]
pub(super) struct CopaInside {
    rules: Rules,
    standing: WindowedMin,
    /// Packets.
    cwnd: f64,
}

impl Delay {
    pub(super) fn new(kind: NimbusDelay) -> Self {
        match kind {
            NimbusDelay::Basic => Self::Basic,
            NimbusDelay::Copa => Self::Copa(Box::new(CopaInside {
                rules: Rules::new(0.5, CopaMode::Default),
                standing: WindowedMin::default(),
                cwnd: 10.0,
            })),
        }
    }

    /// It takes over at this rate, bytes/s.
    pub(super) fn begin(&mut self, rate: f64, seen: &Observed) {
        if let Self::Copa(inside) = self {
            inside.cwnd = (rate * seen.rtt_us as f64 / 1e6 / seen.mss).max(2.0);
        }
    }

    /// Counts in packets of another size, of which there are `factor` times as many.
    pub(super) fn scale(&mut self, factor: f64) {
        if let Self::Copa(inside) = self {
            inside.cwnd *= factor;
        }
    }

    /// The rate, bytes/s, that follows `rate` after a report.
    pub(super) fn rate(&mut self, rate: f64, seen: &Observed) -> f64 {
        match self {
            Self::Basic => basic(rate, seen),
            Self::Copa(inside) => inside.rate(seen),
        }
    }
}

/// BasicDelay: S + α(μ − S − z) + β·(μ/x)(x_min + d_t − x). The paper takes S of a round trip ago,
/// and x is how long its loop is. This goes on from the rate that was set, the pulses left out;
/// S and z are of whole pulses, which makes the loop longer by one.
fn basic(rate: f64, seen: &Observed) -> f64 {
    let x = seen.rtt_us as f64;
    let spare = seen.capacity - seen.sent - seen.cross;
    let late_us = x - seen.base_us.saturating_add(TARGET_US) as f64;
    let loop_us = x + PERIOD_US as f64;
    let step = ALPHA * spare - BETA * seen.capacity * late_us / loop_us;
    rate + step * (seen.since_us as f64 / loop_us).min(1.0)
}

impl CopaInside {
    fn rate(&mut self, seen: &Observed) -> f64 {
        let queue_packets = seen.capacity * TARGET_US as f64 / 1e6 / seen.mss;
        self.rules.set_delta(1.0 / queue_packets.max(1.0));
        let setting = self.rules.observe(&Reading {
            time_us: seen.time_us,
            cwnd: (self.cwnd * seen.mss) as u64,
            cwnd_packets: self.cwnd as u64,
            rtt_us: Some((seen.rtt_us, seen.rtt_us)),
            srtt_us: seen.rtt_us,
            lost: u64::from(seen.lost > 0.0),
            slow_start: false,
        });
        let standing = self
            .standing
            .update(seen.time_us, seen.rtt_us, seen.rtt_us / 2);
        self.cwnd = setting
            .step(self.cwnd, standing, seen.acked / seen.mss)
            .min(1e9);
        self.cwnd * seen.mss * 1e6 / seen.rtt_us.max(1) as f64
    }
}

impl crate::parameter::Named for NimbusDelay {
    const NAMES: &'static [(&'static str, Self)] = &[("basic", Self::Basic), ("copa", Self::Copa)];
}
