//! Vegas (Brakmo and Peterson, IEEE JSAC 13(8), 1995): a few segments in the queue, no more.
//!
//! Once a round trip the program compares the window with what the path would take at the least
//! RTT; the difference waits in the queue. Below α cwnd grows by a segment, above β it shrinks by
//! one. All of it is in the program: it needs the least RTT sample of each round trip, and an
//! answer of the plane would come within the next.

use fairwater_plane::{Algorithm, AlgorithmError, Control, Flow, FlowInfo, Programs};

use crate::registry::{Entry, builder};
use crate::spec::{Parameter, Settings};
use crate::window::{Autonomous, Avoidance, Doubling, Marks, Period, Shape, Window};

/// How a [`Vegas`] behaves. α, β and γ are from 0.5 to 1000 segments, α at most β.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VegasConfig {
    /// α: with fewer segments in the queue, cwnd grows.
    pub alpha_segments: f64,
    /// β: with more, it shrinks.
    pub beta_segments: f64,
    /// γ: with more, slow start is over.
    pub gamma_segments: f64,
    /// Whether ECN marks count as congestion (RFC 3168 §6.1.2).
    pub ecn: bool,
    /// How often flows report.
    pub report: Period,
}

impl Default for VegasConfig {
    /// As in Linux.
    fn default() -> Self {
        Self {
            alpha_segments: 2.0,
            beta_segments: 4.0,
            gamma_segments: 1.0,
            ecn: true,
            report: Period::default(),
        }
    }
}

/// How the algorithm is known by name.
pub(crate) const ENTRY: Entry = Entry {
    name: "vegas",
    summary: "Vegas (Brakmo and Peterson): a few segments in the queue",
    parameters: PARAMETERS,
    parse: |settings| builder(VegasConfig::from_settings(settings), Vegas::new),
};

const RANGE: &str = "a number of segments from 0.5 to 1000";

const PARAMETERS: &[Parameter] = &[
    Parameter {
        key: "alpha",
        range: RANGE,
        default: "2",
        meaning: "with fewer segments in the queue the window grows; at most beta",
    },
    Parameter {
        key: "beta",
        range: RANGE,
        default: "4",
        meaning: "with more segments in the queue the window shrinks",
    },
    Parameter {
        key: "gamma",
        range: RANGE,
        default: "1",
        meaning: "more segments than this in the queue end slow start",
    },
    Parameter::ECN,
    Parameter::REPORT,
];

impl VegasConfig {
    const SEGMENTS: std::ops::RangeInclusive<f64> = 0.5..=1000.0;

    fn from_settings(settings: &mut Settings<'_>) -> Self {
        let default = Self::default();
        let mut segments = |key, default| {
            let said = settings.decimal(key, Self::SEGMENTS);
            said.unwrap_or(default)
        };
        let alpha_segments = segments("alpha", default.alpha_segments);
        let beta_segments = segments("beta", default.beta_segments.max(alpha_segments));
        let gamma_segments = segments("gamma", default.gamma_segments);
        if alpha_segments > beta_segments {
            settings.refuse(format!(
                "`beta={beta_segments}`: beta must be at least alpha, which is {alpha_segments}"
            ));
        }
        Self {
            alpha_segments,
            beta_segments,
            gamma_segments,
            ecn: settings.boolean("ecn").unwrap_or(default.ecn),
            report: settings.period().unwrap_or(default.report),
        }
    }

    fn check(&self) -> Result<(), AlgorithmError> {
        let found = [
            ("alpha", self.alpha_segments, Self::SEGMENTS),
            (
                "beta",
                self.beta_segments,
                self.alpha_segments..=*Self::SEGMENTS.end(),
            ),
            ("gamma", self.gamma_segments, Self::SEGMENTS),
        ]
        .into_iter()
        .find(|(_, value, range)| !range.contains(value));
        match found {
            Some((parameter, value, range)) => Err(AlgorithmError::out_of_range(
                parameter,
                value,
                format!("from {} to {} segments", range.start(), range.end()),
            )),
            None => Ok(()),
        }
    }
}

/// Vegas. To losses it is Reno.
#[derive(Debug)]
pub struct Vegas {
    window: Window,
}

impl Vegas {
    /// Compiles the program.
    ///
    /// # Errors
    /// [`AlgorithmError::OutOfRange`] for a parameter out of its range.
    pub fn new(programs: &mut Programs, config: VegasConfig) -> Result<Self, AlgorithmError> {
        config.check()?;
        let shape = Shape {
            doubling: Doubling::EveryOther,
            marks: Marks::as_loss(config.ecn),
            avoidance: Avoidance::Vegas {
                alpha: config.alpha_segments,
                beta: config.beta_segments,
                gamma: config.gamma_segments,
            },
            period: config.report,
            ..Shape::RENO
        };
        Ok(Self {
            window: Window::load(programs, "vegas", shape)?,
        })
    }
}

impl Algorithm for Vegas {
    fn name(&self) -> &str {
        "vegas"
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
        self.window.begin(info, control);
        Box::new(Autonomous)
    }
}
