//! Vegas (Brakmo and Peterson, IEEE JSAC 13(8), 1995): a few segments in the queue, no more.
//!
//! Once a round trip the program compares the window with what the path would take at the least
//! RTT; the difference waits in the queue. Below α cwnd grows by a segment, above β it shrinks by
//! one. All of it is in the program: it needs the least RTT sample of each round trip, and an
//! answer of the plane would come within the next.

use std::sync::Arc;

use fairwater_plane::{Algorithm, AlgorithmError, Control, Flow, FlowInfo, Programs};

use crate::parameter::{Configuration, Conflict, ParameterField, ParameterSpec};
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

impl Configuration for VegasConfig {
    const NAME: &'static str = "vegas";
    const SUMMARY: &'static str = "Vegas (Brakmo and Peterson): a few segments in the queue";
    const PARAMETERS: &'static [ParameterSpec<Self>] = &[
        ParameterSpec::new(
            "alpha",
            "cwnd grows when fewer segments than this wait in the queue; at most `beta`",
            |c| {
                ParameterField::Decimal(&mut c.alpha_segments, 0.5..=1000.0, "a number of segments")
            },
        ),
        ParameterSpec::new(
            "beta",
            "cwnd shrinks when more segments than this wait in the queue",
            |c| ParameterField::Decimal(&mut c.beta_segments, 0.5..=1000.0, "a number of segments"),
        ),
        ParameterSpec::new(
            "gamma",
            "slow start ends when more segments than this wait in the queue",
            |c| {
                ParameterField::Decimal(&mut c.gamma_segments, 0.5..=1000.0, "a number of segments")
            },
        ),
        ParameterSpec::ecn(|c| ParameterField::Boolean(&mut c.ecn)),
        ParameterSpec::report(|c| ParameterField::Period(&mut c.report)),
    ];

    fn build(self, programs: &mut Programs) -> Result<Box<dyn Algorithm>, AlgorithmError> {
        Ok(Box::new(Vegas::new(programs, self)?))
    }

    fn settle(&mut self, given: &dyn Fn(&str) -> bool) {
        if !given("beta") {
            self.beta_segments = self.beta_segments.max(self.alpha_segments);
        }
        if !given("alpha") {
            self.alpha_segments = self.alpha_segments.min(self.beta_segments);
        }
    }

    fn conflict(&self) -> Option<Conflict> {
        Conflict::of_order(("alpha", self.alpha_segments), ("beta", self.beta_segments))
    }
}

/// Vegas. To losses it is Reno.
#[derive(Debug)]
pub struct Vegas {
    window: Arc<Window>,
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
            window: Arc::new(Window::load(programs, "vegas", shape)?),
        })
    }
}

impl Algorithm for Vegas {
    fn name(&self) -> &str {
        "vegas"
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
        self.window.begin(info, control);
        Box::new(Autonomous(Arc::clone(&self.window)))
    }
}
