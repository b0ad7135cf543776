//! NewReno: slow start and congestion avoidance of RFC 5681, fast recovery of RFC 6582.

use std::sync::Arc;

use fairwater_plane::{Algorithm, AlgorithmError, Control, Flow, FlowInfo, Programs, Report};

use crate::parameter::{Configuration, ParameterField, ParameterSpec};
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

impl Configuration for RenoConfig {
    const NAME: &'static str = "reno";
    const SUMMARY: &'static str = "NewReno (RFC 5681, RFC 6582)";
    const PARAMETERS: &'static [ParameterSpec<Self>] = &[
        ParameterSpec::slow_start(|c| ParameterField::Word(&mut c.slow_start)),
        ParameterSpec::hystart(|c| ParameterField::Word(&mut c.hystart)),
        ParameterSpec::ecn(|c| ParameterField::Boolean(&mut c.ecn)),
        ParameterSpec::report(|c| ParameterField::Period(&mut c.report)),
    ];

    fn build(self, programs: &mut Programs) -> Result<Box<dyn Algorithm>, AlgorithmError> {
        Ok(Box::new(Reno::new(programs, self)?))
    }
}

/// NewReno. The program halves and recovers by itself; the plane sets how fast cwnd grows in
/// congestion avoidance: by one segment for each cwnd acknowledged.
#[derive(Debug)]
pub struct Reno {
    window: Arc<Window>,
}

impl Reno {
    /// Compiles the program.
    ///
    /// # Errors
    /// [`AlgorithmError::OutOfRange`] for a report period out of its range.
    pub fn new(programs: &mut Programs, config: RenoConfig) -> Result<Self, AlgorithmError> {
        config.check()?;
        let shape = Shape {
            slow_start: config.slow_start,
            hystart: config.hystart,
            marks: Marks::as_loss(config.ecn),
            period: config.report,
            ..Shape::RENO
        };
        Ok(Self {
            window: Arc::new(Window::load(programs, "reno", shape)?),
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
            window: Arc::clone(&self.window),
            pace: Pace::NONE,
        })
    }
}

struct RenoFlow {
    window: Arc<Window>,
    pace: Pace,
}

impl Flow for RenoFlow {
    fn on_report(&mut self, report: &Report, control: &mut Control) {
        let sample = self.window.read(report);
        self.window.slow_start(&sample, control);
        // RFC 5681 §3.1 (3): one segment each time that cwnd bytes have been acknowledged.
        let pace = Pace::of(sample.cwnd_to_grow());
        self.window.pace(pace, &mut self.pace, control);
    }

    fn on_mss(&mut self, mss: u32, control: &mut Control) {
        self.window.set_mss(mss, control);
    }
}
