//! PCC Vivace: Dong et al., "PCC Vivace: Online-Learning Congestion Control", NSDI '18.

mod ascent;
mod interval;

use std::sync::Arc;

use fairwater_plane::{
    Algorithm, AlgorithmError, Control, Field, Flow, FlowInfo, Programs, Report, Var,
};

use crate::draws::Draws;
use crate::parameter::{Configuration, ParameterField, ParameterSpec};
use ascent::{Ascent, Trial};
use interval::{IntervalUtility, Measured, Sums, Utility};

/// How a [`Vivace`] behaves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VivaceConfig {
    /// b, what the growth of the RTT costs, from 0 to 10,000: 0 is the paper's Vivace-Loss.
    pub latency: f64,
    /// c, what losses cost, from 0 to 1,000.
    pub loss: f64,
    /// ε, how far from the rate the probes are, in parts of it, from 0.005 to 0.25.
    pub probe: f64,
    /// RTT gradients below this are taken for noise, from 0 to 0.5, without a unit.
    pub filter: f64,
}

impl Default for VivaceConfig {
    fn default() -> Self {
        Self {
            latency: 900.0,
            loss: 11.35,
            probe: 0.05,
            filter: 0.01,
        }
    }
}

impl Configuration for VivaceConfig {
    const NAME: &'static str = "vivace";
    const SUMMARY: &'static str =
        "PCC Vivace, which learns its rate by trial (Dong et al., NSDI '18)";
    const PARAMETERS: &'static [ParameterSpec<Self>] = &[
        ParameterSpec::new("latency", "b: cost of a growing RTT in the utility", |c| {
            ParameterField::Decimal(&mut c.latency, 0.0..=10_000.0, "a number")
        }),
        ParameterSpec::new("loss", "c: cost of losses in the utility", |c| {
            ParameterField::Decimal(&mut c.loss, 0.0..=1_000.0, "a number")
        }),
        ParameterSpec::new(
            "probe",
            "ε: distance of the probes from the rate, as a share of it",
            |c| ParameterField::Decimal(&mut c.probe, 0.005..=0.25, "a number"),
        ),
        ParameterSpec::new(
            "filter",
            "RTT gradient below which the gradient counts as noise",
            |c| ParameterField::Decimal(&mut c.filter, 0.0..=0.5, "a number"),
        ),
    ];

    fn build(self, programs: &mut Programs) -> Result<Box<dyn Algorithm>, AlgorithmError> {
        Ok(Box::new(Vivace::new(programs, self)?))
    }
}

/// Maximum intervals of a plan: as many rates as the program has.
const MAX_INTERVALS: usize = 4;

/// PCC Vivace. The program sends at the rates of a plan and measures; the plane computes the utility of
/// each rate and ascends.
#[derive(Debug)]
pub struct Vivace {
    config: VivaceConfig,
    handles: Arc<Handles>,
}

#[derive(Debug)]
struct Handles {
    plan: Field,
    index: Field,
    delivered: Field,
    lost: Field,
    acks: Field,
    idle: Field,
    held: Field,
    sum_x: Field,
    sum_y: Field,
    sum_xx: Field,
    sum_xy: Field,
    sum_yy: Field,
    held_x: Field,
    held_y: Field,
    timeout: Field,
    rtt_us: Field,
    mss: Var,
    fresh: Var,
    number: Var,
    length_us: Var,
    count: Var,
    rates: [Var; MAX_INTERVALS],
    rate_after: Var,
}

impl Vivace {
    /// Compiles the program.
    ///
    /// # Errors
    /// [`AlgorithmError::OutOfRange`] for a parameter out of its range.
    pub fn new(programs: &mut Programs, config: VivaceConfig) -> Result<Self, AlgorithmError> {
        config.check()?;
        let p = programs.add("vivace", include_str!("program.ccp"))?;
        let handles = Handles {
            plan: p.field("plan")?,
            index: p.field("index")?,
            delivered: p.field("delivered")?,
            lost: p.field("lost")?,
            acks: p.field("acks")?,
            idle: p.field("idle")?,
            held: p.field("held")?,
            sum_x: p.field("sum_x")?,
            sum_y: p.field("sum_y")?,
            sum_xx: p.field("sum_xx")?,
            sum_xy: p.field("sum_xy")?,
            sum_yy: p.field("sum_yy")?,
            held_x: p.field("held_x")?,
            held_y: p.field("held_y")?,
            timeout: p.field("timeout")?,
            rtt_us: p.field("rtt_us")?,
            mss: p.variable("mss")?,
            fresh: p.variable("fresh")?,
            number: p.variable("number")?,
            length_us: p.variable("length_us")?,
            count: p.variable("count")?,
            rates: [
                p.variable("rate_0")?,
                p.variable("rate_1")?,
                p.variable("rate_2")?,
                p.variable("rate_3")?,
            ],
            rate_after: p.variable("rate_after")?,
        };
        let handles = Arc::new(handles);
        Ok(Self { config, handles })
    }
}

impl Algorithm for Vivace {
    fn name(&self) -> &str {
        "vivace"
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
        let mss = u64::from(info.mss.max(1));
        control.update(self.handles.mss, mss);
        Box::new(VivaceFlow {
            utility: Utility {
                latency: self.config.latency,
                loss: self.config.loss,
                filter: self.config.filter,
            },
            probe: self.config.probe,
            handles: Arc::clone(&self.handles),
            mss,
            draws: Draws::of(info),
            ascent: None,
            trial: Trial::default(),
            number: 0,
            length_us: 1,
            utilities: Vec::new(),
            limited: false,
        })
    }

    /// A rate that was learnt holds after a pause.
    fn idle_restart(&self) -> bool {
        false
    }

    /// It tries rates that differ by a few per cent, each for one round trip. A window puts a rate
    /// into effect a round trip late, as ACKs clock it: each interval would be charged with the
    /// rate of the one before.
    fn needs_rate(&self) -> bool {
        true
    }
}

struct VivaceFlow {
    utility: Utility,
    probe: f64,
    handles: Arc<Handles>,
    mss: u64,
    /// Of the order of the probes.
    draws: Draws,
    /// From the first RTT sample on.
    ascent: Option<Ascent>,
    trial: Trial,
    /// Of the trial's plan.
    number: u64,
    length_us: u64,
    /// Of the trial's intervals, as far as they are known.
    utilities: Vec<IntervalUtility>,
    /// Something other than the rate held back an interval of the trial.
    limited: bool,
}

/// Least segments of a monitor interval, which otherwise lasts one RTT: fewer tell nothing about the
/// RTT's gradient or about losses.
const LEAST_SEGMENTS: f64 = 30.0;
const LONGEST_US: f64 = 10e6;

impl VivaceFlow {
    fn measured(&self, report: &Report) -> Measured {
        let h = &self.handles;
        let sums = Sums {
            n: report[h.acks],
            x: report[h.sum_x],
            y: report[h.sum_y],
            xx: report[h.sum_xx],
            xy: report[h.sum_xy],
            yy: report[h.sum_yy],
            held: report[h.held],
            held_x: report[h.held_x],
            held_y: report[h.held_y],
        };
        Measured {
            delivered: report[h.delivered] as f64,
            lost: report[h.lost] as f64 * self.mss as f64,
            mss: self.mss as f64,
            acks: report[h.acks],
            idle: report[h.idle],
            rtt_slope: sums.slope(),
        }
    }

    /// Takes in an interval; whether the trial is over.
    fn take(&mut self, report: &Report) -> bool {
        let index = report[self.handles.index];
        if report[self.handles.plan] != self.number || index != self.utilities.len() as u64 {
            // Results are missing: the trial is to be done again.
            self.limited = true;
            return index >= self.trial.rates.len() as u64;
        }
        let Some(&rate) = self.trial.rates.get(self.utilities.len()) else {
            self.limited = true;
            return true;
        };
        let measured = self.measured(report);
        self.limited |= measured.is_limited(rate, self.length_us);
        self.utilities.push(self.utility.of(rate, &measured));
        self.utilities.len() == self.trial.rates.len()
    }

    /// Has the program try the next rates.
    fn plan(&mut self, rtt_us: u64, control: &mut Control) {
        let Some(ascent) = &mut self.ascent else {
            return;
        };
        self.trial = ascent.trial(self.draws.up_to(1) == 1);
        self.utilities.clear();
        self.limited = false;
        self.number = self.number.wrapping_add(1);
        let segments_us = LEAST_SEGMENTS * self.mss as f64 * 8.0 / ascent.rate();
        self.length_us = segments_us.max(rtt_us as f64).clamp(1.0, LONGEST_US) as u64;
        let h = &self.handles;
        control.update(h.number, self.number);
        control.update(h.length_us, self.length_us);
        control.update(h.count, self.trial.rates.len() as u64);
        for (var, rate) in h.rates.iter().zip(&self.trial.rates) {
            control.update(*var, bytes_per_s(*rate));
        }
        control.update(h.rate_after, bytes_per_s(self.trial.after));
        control.update(h.fresh, true);
    }
}

fn bytes_per_s(mbit: f64) -> u64 {
    (mbit * 125_000.0) as u64
}

impl Flow for VivaceFlow {
    fn on_mss(&mut self, mss: u32, control: &mut Control) {
        self.mss = u64::from(mss.max(1));
        control.update(self.handles.mss, self.mss);
    }

    fn on_report(&mut self, report: &Report, control: &mut Control) {
        let rtt_us = report[self.handles.rtt_us];
        if rtt_us == u64::MAX {
            return;
        }
        let Some(ascent) = &mut self.ascent else {
            // bits/µs are Mbit/s.
            let rate = report.cwnd() as f64 * 8.0 / rtt_us.max(1) as f64;
            self.ascent = Some(Ascent::new(rate, self.probe));
            self.plan(rtt_us, control);
            return;
        };
        if report.is_set(self.handles.timeout) {
            ascent.time_out();
            self.plan(rtt_us, control);
            return;
        }
        if self.take(report) {
            if !self.limited
                && let Some(ascent) = &mut self.ascent
            {
                ascent.learn(&self.trial, &self.utilities);
            }
            self.plan(rtt_us, control);
        }
    }
}
