//! CUBIC (RFC 9438), with HyStart++ (RFC 9406).
//!
//! The program reduces, recovers and runs slow start by itself. The plane computes the curve at
//! each report and sets the pace that brings cwnd onto it within the next round trip.

mod curve;

use fairwater_plane::{Algorithm, AlgorithmError, Control, Flow, FlowInfo, Programs, Report};

use crate::spec::{Parameter, Settings};
use crate::window::{Period, Reading, Shape, SlowStart, Window};
use curve::{Epoch, w_max_after};

/// How a [`Cubic`] behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CubicConfig {
    /// Who runs slow start.
    pub slow_start: SlowStart,
    /// Whether HyStart++ (RFC 9406) ends the initial slow start; on, as Linux's Cubic also
    /// leaves slow start before the first loss.
    pub hystart: bool,
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
            hystart: true,
            fast_convergence: true,
            reno_friendly: true,
            ecn: true,
            report: Period::default(),
        }
    }
}

/// The parameters in text.
pub(crate) const PARAMETERS: &[Parameter] = &[
    Parameter::SLOW_START,
    Parameter::hystart("true"),
    Parameter {
        key: "fast_convergence",
        range: "`true` or `false`",
        default: "true",
        meaning: "whether a flow whose window shrinks gives up bandwidth sooner",
    },
    Parameter {
        key: "reno_friendly",
        range: "`true` or `false`",
        default: "true",
        meaning: "whether cwnd is at least what Reno's would be",
    },
    Parameter::ECN,
    Parameter::REPORT,
];

impl CubicConfig {
    pub(crate) fn from_settings(settings: &mut Settings<'_>) -> Self {
        let default = Self::default();
        Self {
            slow_start: settings.slow_start().unwrap_or(default.slow_start),
            hystart: settings.boolean("hystart").unwrap_or(default.hystart),
            fast_convergence: settings
                .boolean("fast_convergence")
                .unwrap_or(default.fast_convergence),
            reno_friendly: settings
                .boolean("reno_friendly")
                .unwrap_or(default.reno_friendly),
            ecn: settings.boolean("ecn").unwrap_or(default.ecn),
            report: settings.period().unwrap_or(default.report),
        }
    }
}

/// CUBIC.
#[derive(Debug)]
pub struct Cubic {
    window: Window,
    config: CubicConfig,
}

impl Cubic {
    /// Compiles the program.
    ///
    /// # Errors
    /// [`AlgorithmError::OutOfRange`] for a report period out of its range.
    pub fn new(programs: &mut Programs, config: CubicConfig) -> Result<Self, AlgorithmError> {
        let shape = Shape {
            beta: "0.7",
            slow_start: config.slow_start,
            hystart: config.hystart,
            ecn: config.ecn,
            period: config.report,
        };
        Ok(Self {
            window: Window::load(programs, "cubic", shape)?,
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
            window: self.window,
            config: self.config,
            mss: f64::from(info.mss.max(1)),
            state: State::default(),
            before: State::default(),
            last_us: info.now_us,
            per_mss: u64::MAX,
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

struct CubicFlow {
    window: Window,
    config: CubicConfig,
    mss: f64,
    state: State,
    before: State,
    last_us: u64,
    per_mss: u64,
}

impl Flow for CubicFlow {
    fn on_report(&mut self, report: &Report, control: &mut Control) {
        let reading = self.window.read(report);
        self.window.slow_start(&reading, control);
        self.respond(&reading);
        if reading.recovering || reading.in_slow_start() {
            self.state.epoch = None;
        } else {
            let per_mss = self.avoid(&reading);
            self.window.pace(per_mss, &mut self.per_mss, control);
        }
        self.last_us = reading.time_us;
    }
}

impl CubicFlow {
    /// What the reductions since the last report mean for the curve.
    fn respond(&mut self, reading: &Reading) {
        // RFC 9438 §4.9: a spurious reduction leaves no trace.
        if reading.undone {
            self.state = self.before;
        }
        if reading.congested {
            self.before = self.state;
            let cwnd = (reading.before as f64 / self.mss).floor();
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
        if reading.timeout {
            self.before = self.state;
            self.state = State::default();
        }
    }

    /// The pace of congestion avoidance: bytes to be acknowledged for one more segment.
    fn avoid(&mut self, reading: &Reading) -> u64 {
        let cwnd = (reading.cwnd as f64 / self.mss).max(1.0);
        let since_us = reading.time_us.saturating_sub(self.last_us);
        let rtt_us = if reading.min_rtt_us == u64::MAX {
            0
        } else {
            reading.min_rtt_us
        };
        let w_est = match &mut self.state.epoch {
            None => {
                let State {
                    w_max, cwnd_prior, ..
                } = self.state;
                self.state.epoch = Some(Epoch::new(reading.time_us, cwnd, w_max, cwnd_prior));
                cwnd
            }
            Some(epoch) => {
                epoch.skip(idle_us(reading, since_us, self.config.report));
                epoch.acknowledge(reading.acked as f64 / self.mss, cwnd)
            }
        };
        let target = self
            .state
            .epoch
            .map_or(cwnd, |epoch| epoch.w_cubic(reading.time_us, rtt_us));

        // Segments to be acknowledged for one more (RFC 9438 §4.4 and §4.5): cwnd meets the
        // target within a round trip, grows by half at most, and hardly where the target is below.
        let mut count = if target > cwnd {
            cwnd / (target - cwnd)
        } else {
            100.0 * cwnd
        };
        // Linux: where no loss has shown a W_max, the curve alone would take seconds to find the
        // path's capacity; it grows by a twentieth each round trip.
        if self.state.w_max.is_none() {
            count = count.min(20.0);
        }
        if self.config.reno_friendly && w_est > cwnd {
            count = count.min(cwnd / (w_est - cwnd));
        }
        (count.max(2.0) * self.mss) as u64
    }
}

/// How much of the time since the last report the flow did not use its window (RFC 9438 §5.8):
/// all of it when nothing was acknowledged under a full window, and what a pause adds to a round
/// trip.
fn idle_us(reading: &Reading, since_us: u64, period: Period) -> u64 {
    let period_us = match period {
        Period::Micros(us) => us,
        Period::Ack | Period::Rtt => 0,
    };
    let pause_us = reading
        .rtt_us
        .saturating_mul(4)
        .max(2 * period_us)
        .max(100_000);
    match reading.acked {
        0 => since_us,
        _ if since_us > pause_us => since_us - reading.rtt_us.min(since_us),
        _ => 0,
    }
}
