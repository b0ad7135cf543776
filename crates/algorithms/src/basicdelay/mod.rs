//! BasicDelay: the delay control of Nimbus' paper (Goyal et al., "Elasticity detection: a building
//! block for delay-sensitive congestion control", §4) as an algorithm of its own.
//!
//! It holds the queueing delay at a target. Its gains are relative to the rate at which the flow's
//! own packets were received instead of μ, which it need not know: with z = μ·S/R − S the paper's
//! spare rate μ − S − z is μ·(1 − S/R), and R stands for μ. Then the gains of several flows at one
//! bottleneck add up to those of one, and stay right when the capacity falls.

use std::sync::Arc;

use fairwater_plane::{
    Algorithm, AlgorithmError, Control, Flow, FlowInfo, MAX_RATE, Programs, Report,
};

use crate::bundle::is_bundle;
use crate::parameter::{Configuration, ParameterField, ParameterSpec};
use crate::rate_control::basic_delay::Loop;
use crate::rate_control::drain::{Drain, Phase};
use crate::rate_control::history::Rates;
use crate::rate_control::{Counts, EMPTY_US, Handles, MEMORY_US, Meter};
use crate::windowed::WindowedMax;

/// How a [`BasicDelay`] behaves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BasicDelayConfig {
    /// d_t: the queueing delay that is aimed at, µs, from 500 µs to 1 s.
    pub target_us: u64,
    /// The same as a share of the minimum RTT, from 0 to 4; the greater of the two holds.
    pub target_share: f64,
    /// How often flows report, µs, from 1,000 to 100,000.
    pub report_us: u64,
}

impl Default for BasicDelayConfig {
    fn default() -> Self {
        Self {
            target_us: 2_500,
            target_share: 0.0,
            report_us: 10_000,
        }
    }
}

impl Configuration for BasicDelayConfig {
    const NAME: &'static str = "basicdelay";
    const SUMMARY: &'static str = "BasicDelay (Goyal et al.): holds the queueing delay at a target";
    const PARAMETERS: &'static [ParameterSpec<Self>] = &[
        ParameterSpec::new("target", "the queueing delay that is aimed at", |c| {
            ParameterField::Micros(&mut c.target_us, 500..=1_000_000)
        }),
        ParameterSpec::new(
            "target_share",
            "the same as a share of the minimum RTT; the greater of the two holds",
            |c| ParameterField::Decimal(&mut c.target_share, 0.0..=4.0, "a number"),
        ),
        ParameterSpec::report(|c| ParameterField::Micros(&mut c.report_us, 1_000..=100_000)),
    ];

    fn build(self, programs: &mut Programs) -> Result<Box<dyn Algorithm>, AlgorithmError> {
        Ok(Box::new(BasicDelay::new(programs, self)?))
    }
}

/// Least and greatest window of S and R, µs; a round trip between. Fewer packets would say little.
const LEAST_WINDOW_US: u64 = 20_000;
const GREATEST_WINDOW_US: u64 = 100_000;
/// Packets of its own that a flow adds to the target: one that sends less accepts a longer queue,
/// so that several flows approach equal rates.
const OWN_PACKETS: f64 = 2.0;
/// Growth of the rate in a loop while the queue is empty, as a share of the rate: twice as much in each
/// loop as in the one before, at most the latter.
const GROWTH: f64 = 0.01;
const MOST_GROWTH: f64 = 0.25;
/// Greatest rate, as a multiple of the rate received: an application that sends less than the rate
/// leaves the queue empty.
const MOST: f64 = 2.0;
/// Window of the greatest rate received, µs, which stands for that in a bundle: BBR's for the bottleneck's bandwidth
/// (Cardwell et al., ACM Queue 2016). A bundle's traffic pauses, and goes on at once.
const GREATEST_WINDOW_OF_BUNDLE_US: u64 = 10_000_000;
/// A queue that is longer than the target by this share of a loop, and by so many µs, is drained: the
/// capacity has fallen, and what waits tells nothing new until it has left.
const LONG_LOOPS: f64 = 0.1;
const LONG_US: f64 = 10_000.0;
/// Greatest share of the rate that is not sent while the queue drains.
const MOST_RELIEF: f64 = 0.75;
/// With more loss than this, the rate is at most what gets through: the buffer is shorter than the
/// target.
const LOSS_SHARE: f64 = 0.02;
/// Least queueing delay that ends slow start, µs (`MIN_RTT_THRESH` of RFC 9406 §4.2).
const SLOW_START_DELAY_US: u64 = 4_000;

/// BasicDelay.
#[derive(Debug)]
pub struct BasicDelay {
    config: BasicDelayConfig,
    handles: Arc<Handles>,
}

impl BasicDelay {
    /// Compiles the program.
    ///
    /// # Errors
    /// [`AlgorithmError::OutOfRange`] for a parameter out of its range.
    pub fn new(programs: &mut Programs, config: BasicDelayConfig) -> Result<Self, AlgorithmError> {
        config.check()?;
        let target_us = config.target_us.max(SLOW_START_DELAY_US);
        let handles = Handles::load(programs, "basicdelay", config.report_us, target_us)?;
        Ok(Self {
            config,
            handles: Arc::new(handles),
        })
    }
}

impl Algorithm for BasicDelay {
    fn name(&self) -> &str {
        "basicdelay"
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
        self.handles.begin(info, control);
        // A flow that another control had goes on at its rate.
        let known = info.ssthresh.is_some() && !matches!(info.srtt_us, 0 | u64::MAX);
        let rate = known.then(|| info.cwnd as f64 * 1e6 / info.srtt_us as f64);
        Box::new(BasicDelayFlow {
            config: self.config,
            handles: Arc::clone(&self.handles),
            meter: Meter::new(info, self.config.report_us),
            drain: Drain::new(info.now_us),
            busy_us: info.now_us,
            relief: 0.0,
            held_until_us: 0,
            greatest: is_bundle(info).then(WindowedMax::default),
            rate,
        })
    }

    /// It paces.
    fn idle_restart(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct BasicDelayFlow {
    config: BasicDelayConfig,
    handles: Arc<Handles>,
    meter: Meter,
    drain: Drain,
    /// When the queue was last not empty, µs.
    busy_us: u64,
    /// Share of the rate that is not sent, so that a long queue drains.
    relief: f64,
    /// Until then S and R are of packets from before the queue was drained, µs.
    held_until_us: u64,
    /// Of a bundle, the greatest rate received lately, bytes/s.
    greatest: Option<WindowedMax>,
    /// Bytes/s; `None` in slow start.
    rate: Option<f64>,
}

impl BasicDelayFlow {
    fn rates(&self, window_us: u64) -> Option<Rates> {
        self.meter.rates(window_us)
    }

    /// The rate that follows `rate`, bytes/s.
    fn control(&mut self, rate: f64, seen: &Counts, rates: Rates, window_us: u64) -> f64 {
        let delays_us = window_us + 2 * self.config.report_us;
        let loop_us = seen.base_us.saturating_add(delays_us) as f64;
        let base_us = seen.base_us as f64;
        let own_us = OWN_PACKETS * self.meter.mss * 1e6 / rates.received;
        let target_us = self.config.target_us as f64;
        let target_us = target_us.max(self.config.target_share * base_us) + own_us;
        let empty = seen.rtt_us as f64 <= base_us + (target_us / 2.0).min(EMPTY_US as f64);
        if !empty {
            self.busy_us = seen.time_us;
        }
        let late_us = seen.rtt_us as f64 - base_us - target_us;
        let mut rate = rate;
        self.relief = 0.0;
        if late_us > (loop_us * LONG_LOOPS).max(LONG_US) {
            // Over a short window, so that the rate falls soon.
            let rates = self.rates(LEAST_WINDOW_US).unwrap_or(rates);
            if rates.sent > rates.received {
                rate = rate.min(rates.received);
            }
            self.relief = (late_us / loop_us).min(MOST_RELIEF);
            self.held_until_us = seen.time_us.saturating_add(seen.rtt_us + window_us);
        }
        let phase = self
            .drain
            .report(empty, (seen.time_us, seen.rtt_us), loop_us as u64);
        let since_us = seen.since_us as f64;
        let idle_loops = seen.time_us.saturating_sub(self.busy_us) as f64 / loop_us;
        let next = match phase {
            Phase::Halve | Phase::Hold => rate,
            Phase::Control if seen.time_us < self.held_until_us => rate,
            // Below the target the rate would grow by β·d_t/x in a loop, which is next to nothing
            // for a short target.
            Phase::Control if idle_loops >= 1.0 => {
                let growth = (GROWTH * libm::exp2(idle_loops)).min(MOST_GROWTH);
                rate * (1.0 + growth * (since_us / loop_us).min(1.0))
            }
            Phase::Control => {
                // What a bundle sends below its rate comes in bursts, whose spacing says little of the path.
                let told = match self.greatest {
                    Some(_) => rate.min(rates.sent),
                    None => rate,
                };
                let step = Loop {
                    scale: rate,
                    spare: told * (1.0 - rates.sent / rates.received),
                    late_us,
                    loop_us,
                    since_us,
                };
                (rate + step.step()).max(rate.min(rates.received / 2.0))
            }
        };
        let received = match &mut self.greatest {
            Some(greatest) => {
                let now = rates.received as u64;
                greatest.update(seen.time_us, now, GREATEST_WINDOW_OF_BUNDLE_US) as f64
            }
            None => rates.received,
        };
        let most = if rates.lost > LOSS_SHARE {
            rates.received
        } else {
            MOST * received
        };
        next.min(most)
    }

    fn send(&self, rate: f64, srtt_us: u64, acked: u64, control: &mut Control) {
        let sending = match self.drain.phase() {
            Phase::Halve => rate / 2.0,
            Phase::Control | Phase::Hold => rate * (1.0 - self.relief),
        };
        control.set_rate(sending.max(1.0) as u64);
        // The rate limits the flow, except after an RTO: its single segment stays until an ACK.
        if acked > 0 {
            let srtt_us = srtt_us.min(MEMORY_US) as f64;
            let window = 2.0 * rate * srtt_us / 1e6 + 10.0 * self.meter.mss;
            control.set_cwnd((window as u64).max(1));
        }
    }
}

impl Flow for BasicDelayFlow {
    fn on_mss(&mut self, mss: u32, control: &mut Control) {
        self.meter.mss = f64::from(mss.max(1));
        self.handles.set_mss(mss, control);
    }

    fn on_report(&mut self, report: &Report, control: &mut Control) {
        let Some(seen) = self.meter.report(&self.handles, report) else {
            return;
        };
        if seen.slow_start {
            return;
        }
        let window_us = seen.rtt_us.clamp(LEAST_WINDOW_US, GREATEST_WINDOW_US);
        let rates = self.rates(window_us);
        let mut rate = self.rate.unwrap_or_else(|| {
            let by_window = report.cwnd() as f64 * 1e6 / seen.rtt_us as f64;
            rates.map_or(by_window / 2.0, |r| r.received)
        });
        if let Some(rates) = rates {
            rate = self.control(rate, &seen, rates, window_us);
        }
        if report.is_set(self.handles.timeout) {
            rate /= 2.0;
        }
        // A packet in each round trip at least, so that there is something to measure.
        let least = 2.0 * self.meter.mss * 1e6 / seen.rtt_us as f64;
        let most = MAX_RATE as f64;
        rate = if rate.is_finite() { rate } else { least };
        rate = rate.clamp(least.min(most), most);
        self.rate = Some(rate);
        self.send(rate, report[self.handles.srtt_us], seen.acked, control);
    }
}
