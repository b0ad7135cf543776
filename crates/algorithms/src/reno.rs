//! NewReno: slow start and congestion avoidance of RFC 5681, fast recovery of RFC 6582.

use std::sync::Arc;

use fairwater_plane::{Algorithm, AlgorithmError, Control, Flow, FlowInfo, Programs, Report};

use crate::parameter::{Configuration, Named, ParameterField, ParameterSpec};
use crate::window::{Avoidance, HyStart, Marks, Pace, Period, Shape, SlowStart, Window};

/// How a [`Reno`] behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenoConfig {
    /// Who runs slow start.
    pub slow_start: SlowStart,
    /// What ends the initial slow start before a loss does; nothing, as in Linux.
    pub hystart: HyStart,
    /// Whether ECN marks count as congestion (RFC 3168 §6.1.2).
    pub ecn: bool,
    /// Who says how fast cwnd grows in congestion avoidance.
    pub growth: Growth,
    /// Whether a reduction is spread over the round trip (RFC 6937), or made at once (RFC 6675 §5).
    pub prr: bool,
    /// How often flows report.
    pub report: Period,
}

/// Who says how fast cwnd grows in congestion avoidance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Growth {
    /// The plane, by reports: each window grows at the pace of the one that was reported last. In windows of a few
    /// segments that is faster than RFC 5681 §3.1.
    #[default]
    Plane,
    /// The program, at each ACK.
    Program,
}

impl Named for Growth {
    const NAMES: &'static [(&'static str, Self)] =
        &[("plane", Self::Plane), ("program", Self::Program)];
}

impl Default for RenoConfig {
    fn default() -> Self {
        Self {
            slow_start: SlowStart::default(),
            hystart: HyStart::Off,
            ecn: true,
            growth: Growth::default(),
            prr: true,
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
        ParameterSpec::<Self>::new(
            "growth",
            "who says how fast cwnd grows in congestion avoidance",
            |c| ParameterField::Word(&mut c.growth),
        ),
        ParameterSpec::<Self>::new(
            "prr",
            "whether a reduction is spread over the round trip (RFC 6937)",
            |c| ParameterField::Boolean(&mut c.prr),
        ),
        ParameterSpec::report(|c| ParameterField::Period(&mut c.report)),
    ];

    fn build(self, programs: &mut Programs) -> Result<Box<dyn Algorithm>, AlgorithmError> {
        Ok(Box::new(Reno::new(programs, self)?))
    }
}

/// NewReno. The program halves and recovers by itself; the plane, or the program too, sets how fast cwnd grows
/// in congestion avoidance: by one segment for each cwnd acknowledged.
#[derive(Debug)]
pub struct Reno {
    growth: Growth,
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
            avoidance: match config.growth {
                Growth::Plane => Avoidance::Plane,
                Growth::Program => Avoidance::Reno,
            },
            prr: config.prr,
            period: config.report,
            ..Shape::RENO
        };
        Ok(Self {
            growth: config.growth,
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
            growth: self.growth,
            pace: Pace::NONE,
        })
    }
}

struct RenoFlow {
    window: Arc<Window>,
    growth: Growth,
    pace: Pace,
}

impl Flow for RenoFlow {
    fn on_report(&mut self, report: &Report, control: &mut Control) {
        let sample = self.window.read(report);
        self.window.slow_start(&sample, control);
        if self.growth == Growth::Plane {
            // RFC 5681 §3.1 (3): one segment each time that cwnd bytes have been acknowledged.
            let pace = Pace::of(sample.cwnd_to_grow());
            self.window.pace(pace, &mut self.pace, control);
        }
    }

    fn on_mss(&mut self, mss: u32, control: &mut Control) {
        self.window.set_mss(mss, control);
    }
}
