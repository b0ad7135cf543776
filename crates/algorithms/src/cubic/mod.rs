//! CUBIC (RFC 9438), with HyStart.
//!
//! The program reduces, recovers and runs slow start by itself. The plane computes the curve at
//! each report and sets the pace that brings cwnd onto it within the next round trip.

pub(crate) mod curve;

use std::sync::Arc;

use fairwater_plane::{Algorithm, AlgorithmError, Control, Flow, FlowInfo, Programs, Report};

use crate::parameter::{Configuration, ParameterField, ParameterSpec};
use crate::window::{
    Decrease, HyStart, Marks, Pace, Period, Shape, SlowStart, Window, WindowSample,
};
use curve::{BETA, Epoch, w_max_after};

/// How a [`Cubic`] behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CubicConfig {
    /// Who runs slow start.
    pub slow_start: SlowStart,
    /// What ends the initial slow start before a loss does; [`HyStart::Classic`], as in Linux.
    pub hystart: HyStart,
    /// Whether a flow whose window shrinks releases bandwidth sooner (RFC 9438 §4.7).
    pub fast_convergence: bool,
    /// Whether cwnd is at least what Reno's would be (RFC 9438 §4.3).
    pub reno_friendly: bool,
    /// Whether ECN marks count as congestion (RFC 3168 §6.1.2).
    pub ecn: bool,
    /// How often flows report.
    pub report: Period,
}

impl Default for CubicConfig {
    fn default() -> Self {
        Self {
            slow_start: SlowStart::default(),
            hystart: HyStart::Classic,
            fast_convergence: true,
            reno_friendly: true,
            ecn: true,
            report: Period::default(),
        }
    }
}

impl Configuration for CubicConfig {
    const NAME: &'static str = "cubic";
    const SUMMARY: &'static str = "CUBIC (RFC 9438), with HyStart";
    const PARAMETERS: &'static [ParameterSpec<Self>] = &[
        ParameterSpec::slow_start(|c| ParameterField::Word(&mut c.slow_start)),
        ParameterSpec::hystart(|c| ParameterField::Word(&mut c.hystart)),
        ParameterSpec::new(
            "fast_convergence",
            "whether a flow whose window shrinks releases bandwidth sooner (RFC 9438 §4.7)",
            |c| ParameterField::Boolean(&mut c.fast_convergence),
        ),
        ParameterSpec::new(
            "reno_friendly",
            "whether cwnd is at least what Reno's would be (RFC 9438 §4.3)",
            |c| ParameterField::Boolean(&mut c.reno_friendly),
        ),
        ParameterSpec::ecn(|c| ParameterField::Boolean(&mut c.ecn)),
        ParameterSpec::report(|c| ParameterField::Period(&mut c.report)),
    ];

    fn build(self, programs: &mut Programs) -> Result<Box<dyn Algorithm>, AlgorithmError> {
        Ok(Box::new(Cubic::new(programs, self)?))
    }
}

/// CUBIC.
#[derive(Debug)]
pub struct Cubic {
    window: Arc<Window>,
    config: CubicConfig,
}

impl Cubic {
    /// Compiles the program.
    ///
    /// # Errors
    /// [`AlgorithmError::OutOfRange`] for a report period out of its range.
    pub fn new(programs: &mut Programs, config: CubicConfig) -> Result<Self, AlgorithmError> {
        config.check()?;
        let shape = Shape {
            decrease: Decrease::To(BETA),
            slow_start: config.slow_start,
            hystart: config.hystart,
            marks: Marks::as_loss(config.ecn),
            period: config.report,
            ..Shape::RENO
        };
        Ok(Self {
            window: Arc::new(Window::load(programs, "cubic", shape)?),
            config,
        })
    }
}

impl Algorithm for Cubic {
    fn name(&self) -> &str {
        "cubic"
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
        self.window.begin(info, control);
        Box::new(CubicFlow {
            window: Arc::clone(&self.window),
            config: self.config,
            mss: f64::from(info.mss.max(1)),
            state: State::default(),
            before: State::default(),
            last_us: info.now_us,
            pace: Pace::NONE,
        })
    }
}

/// What a reduction changes and an undo restores.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// The window at which the last loss is expected again, segments.
    w_max: Option<f64>,
    /// cwnd before the last reduction, segments.
    cwnd_prior: Option<f64>,
    epoch: Option<Epoch>,
}

impl State {
    /// Counts in segments of another size, of which there are `factor` times as many.
    fn scale(&mut self, factor: f64) {
        let scaled = |segments: f64| segments * factor;
        self.w_max = self.w_max.map(scaled);
        self.cwnd_prior = self.cwnd_prior.map(scaled);
        self.epoch = None;
    }
}

struct CubicFlow {
    window: Arc<Window>,
    config: CubicConfig,
    mss: f64,
    state: State,
    before: State,
    last_us: u64,
    pace: Pace,
}

impl Flow for CubicFlow {
    fn on_report(&mut self, report: &Report, control: &mut Control) {
        let sample = self.window.read(report);
        self.window.slow_start(&sample, control);
        self.respond(&sample);
        if sample.recovering || sample.in_slow_start() {
            self.state.epoch = None;
        } else {
            let pace = self.avoid(&sample);
            self.window.pace(pace, &mut self.pace, control);
        }
        self.last_us = sample.time_us;
    }

    /// The windows of the last losses stay as many bytes; the curve begins anew.
    fn on_mss(&mut self, mss: u32, control: &mut Control) {
        self.window.set_mss(mss, control);
        let new = f64::from(mss.max(1));
        for state in [&mut self.state, &mut self.before] {
            state.scale(self.mss / new);
        }
        self.mss = new;
    }
}

impl CubicFlow {
    /// What the reductions since the last report mean for the curve.
    fn respond(&mut self, sample: &WindowSample) {
        // RFC 9438 §4.9: a spurious reduction leaves no trace.
        if sample.undone {
            self.state = self.before;
        }
        if sample.congested {
            self.before = self.state;
            let cwnd = (sample.before as f64 / self.mss).floor();
            self.state = State {
                w_max: Some(w_max_after(
                    cwnd,
                    self.state.w_max,
                    self.config.fast_convergence,
                )),
                cwnd_prior: Some(cwnd),
                epoch: None,
            };
        }
        // RFC 9438 §4.8: the next stage begins at its plateau.
        if sample.timeout {
            self.before = self.state;
            self.state = State::default();
        }
    }

    /// The pace of congestion avoidance.
    fn avoid(&mut self, sample: &WindowSample) -> Pace {
        let cwnd = (sample.cwnd as f64 / self.mss).max(1.0);
        let since_us = sample.time_us.saturating_sub(self.last_us);
        let rtt_us = if sample.min_rtt_us == u64::MAX {
            0
        } else {
            sample.min_rtt_us
        };
        let State {
            w_max, cwnd_prior, ..
        } = self.state;
        let epoch = match &mut self.state.epoch {
            Some(epoch) => {
                epoch.skip(idle_us(sample, since_us, self.config.report));
                epoch.acknowledge(sample.acked as f64 / self.mss, cwnd);
                epoch
            }
            none => none.insert(Epoch::new(sample.time_us, cwnd, w_max, cwnd_prior)),
        };

        let count = epoch.count(
            sample.time_us,
            rtt_us,
            cwnd,
            self.config.reno_friendly,
            w_max.is_some(),
        );
        let ahead_us = rtt_us.max(self.config.report.micros());
        let mut ceiling = epoch.w_cubic(sample.time_us, ahead_us).max(cwnd + 1.0);
        // RFC 9438 §4.3.
        if self.config.reno_friendly {
            ceiling = ceiling.max(epoch.w_est());
        }
        if w_max.is_none() {
            ceiling = f64::INFINITY;
        }
        Pace {
            per_mss: (count * self.mss) as u64,
            ceiling: (ceiling * self.mss) as u64,
        }
    }
}

/// How much of the time since the last report the flow did not use its window (RFC 9438 §5.8):
/// all of it when nothing was acknowledged under a full window, and what a pause adds to a round
/// trip.
fn idle_us(sample: &WindowSample, since_us: u64, period: Period) -> u64 {
    let pause_us = sample
        .rtt_us
        .saturating_mul(4)
        .max(2 * period.micros())
        .max(100_000);
    match sample.acked {
        0 => since_us,
        _ if since_us > pause_us => since_us - sample.rtt_us.min(since_us),
        _ => 0,
    }
}
