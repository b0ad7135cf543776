//! What Nimbus does while cross traffic is inelastic: it controls the delay.

use crate::copa::CopaMode;
use crate::copa::rules::{Reading, Rules};
use crate::rate_control::basic_delay::Loop;
use crate::windowed::WindowedMin;

use super::Observed;
use super::pulse::PERIOD_US;

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
pub(super) struct Delay {
    /// d_t: the queueing delay that is aimed at, µs. Pulses drain 8 ms (Bundler §5.1), and z is
    /// unknown while the queue is empty.
    target_us: u64,
    inside: Inside,
}

#[derive(Debug, Clone)]
enum Inside {
    Basic,
    Copa(Box<CopaInside>),
}

#[derive(Debug, Clone)]
struct CopaInside {
    rules: Rules,
    standing: WindowedMin,
    /// Packets.
    cwnd: f64,
}

impl Delay {
    pub(super) fn new(kind: NimbusDelay, target_us: u64) -> Self {
        let inside = match kind {
            NimbusDelay::Basic => Inside::Basic,
            NimbusDelay::Copa => Inside::Copa(Box::new(CopaInside {
                rules: Rules::new(0.5, CopaMode::Default),
                standing: WindowedMin::default(),
                cwnd: 10.0,
            })),
        };
        Self { target_us, inside }
    }

    /// It takes over at this rate, bytes/s.
    pub(super) fn begin(&mut self, rate: f64, seen: &Observed) {
        if let Inside::Copa(inside) = &mut self.inside {
            inside.cwnd = (rate * seen.rtt_us as f64 / 1e6 / seen.mss).max(2.0);
        }
    }

    /// Counts in packets of another size, of which there are `factor` times as many.
    pub(super) fn scale(&mut self, factor: f64) {
        if let Inside::Copa(inside) = &mut self.inside {
            inside.cwnd *= factor;
        }
    }

    /// The rate, bytes/s, that follows `rate` after a report.
    pub(super) fn rate(&mut self, rate: f64, seen: &Observed) -> f64 {
        match &mut self.inside {
            Inside::Basic => rate + basic_step(self.target_us, seen),
            Inside::Copa(inside) => inside.rate(self.target_us, seen),
        }
    }
}

/// BasicDelay's step. S and z are of whole pulses, which makes the loop longer by one.
fn basic_step(target_us: u64, seen: &Observed) -> f64 {
    let late_us = seen.rtt_us as f64 - seen.base_us.saturating_add(target_us) as f64;
    Loop {
        scale: seen.capacity,
        spare: seen.capacity - seen.sent - seen.cross,
        late_us,
        loop_us: seen.rtt_us as f64 + PERIOD_US as f64,
        since_us: seen.since_us as f64,
    }
    .step()
}

impl CopaInside {
    fn rate(&mut self, target_us: u64, seen: &Observed) -> f64 {
        let queue_packets = seen.capacity * target_us as f64 / 1e6 / seen.mss;
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
