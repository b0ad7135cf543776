//! NewReno: slow start and congestion avoidance of RFC 5681, fast recovery of RFC 6582.

use fairwater_plane::{Algorithm, AlgorithmError, Control, Flow, FlowInfo, Programs, Report};

use crate::registry::{Entry, builder};
use crate::spec::{Parameter, Settings};
use crate::window::{HyStart, Marks, Pace, Period, Shape, SlowStart, Window};

/// How a [`Reno`] behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenoConfig {
    /// Who runs slow start.
    pub slow_start: SlowStart,
    /// What ends the initial slow start before a loss does; nothing, as in Linux.
    pub hystart: HyStart,
    /// Whether ECN marks count as congestion (RFC 3168 §6.1.2).
    pub ecn: bool,
    /// How often flows report.
    pub report: Period,
}

impl Default for RenoConfig {
    fn default() -> Self {
        Self {
            slow_start: SlowStart::default(),
            hystart: HyStart::Off,
            ecn: true,
            report: Period::default(),
        }
    }
}

/// How the algorithm is known by name.
pub(crate) const ENTRY: Entry = Entry {
    name: "reno",
    summary: "NewReno (RFC 5681, RFC 6582)",
    parameters: PARAMETERS,
    parse: |settings| builder(RenoConfig::from_settings(settings), Reno::new),
};

const PARAMETERS: &[Parameter] = &[
    Parameter::SLOW_START,
    Parameter::hystart("off"),
    Parameter::ECN,
    Parameter::REPORT,
];

impl RenoConfig {
    fn from_settings(settings: &mut Settings<'_>) -> Self {
        let default = Self::default();
        Self {
            slow_start: settings.slow_start().unwrap_or(default.slow_start),
            hystart: settings.hystart().unwrap_or(default.hystart),
            ecn: settings.boolean("ecn").unwrap_or(default.ecn),
            report: settings.period().unwrap_or(default.report),
        }
    }
}

/// NewReno. The program halves and recovers by itself; the plane sets how fast cwnd grows in
/// congestion avoidance: by one segment for each cwnd acknowledged.
#[derive(Debug)]
pub struct Reno {
    window: Window,
}

impl Reno {
    /// Compiles the program.
    ///
    /// # Errors
    /// [`AlgorithmError::OutOfRange`] for a report period out of its range.
    pub fn new(programs: &mut Programs, config: RenoConfig) -> Result<Self, AlgorithmError> {
        let shape = Shape {
            slow_start: config.slow_start,
            hystart: config.hystart,
            marks: Marks::as_loss(config.ecn),
            period: config.report,
            ..Shape::RENO
        };
        Ok(Self {
            window: Window::load(programs, "reno", shape)?,
        })
    }
}

impl Algorithm for Reno {
    fn name(&self) -> &str {
        "reno"
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
        self.window.begin(info, control);
        Box::new(RenoFlow {
            window: self.window,
            pace: Pace::NONE,
        })
    }
}

struct RenoFlow {
    window: Window,
    pace: Pace,
}

impl Flow for RenoFlow {
    fn on_report(&mut self, report: &Report, control: &mut Control) {
        let reading = self.window.read(report);
        self.window.slow_start(&reading, control);
        // RFC 5681 §3.1 (3): one segment each time that cwnd bytes have been acknowledged.
        let pace = Pace::of(reading.cwnd_to_grow());
        self.window.pace(pace, &mut self.pace, control);
    }
}
