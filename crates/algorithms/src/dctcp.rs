//! Data Center TCP (RFC 8257): cwnd is cut by the share of packets that queues have marked.
//!
//! All of it is in the program, since a round trip in a data center is shorter than the way to the
//! plane and back.

use std::sync::Arc;

use fairwater_plane::{Algorithm, AlgorithmError, Control, Ecn, Flow, FlowInfo, Programs};

use crate::parameter::{Configuration, ParameterField, ParameterSpec};
use crate::window::{Autonomous, Avoidance, Marks, Period, Shape, Window};

/// How a [`Dctcp`] behaves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DctcpConfig {
    /// g: the weight of a round trip in the moving average of the marked share, from 0.001 to 1
    /// (RFC 8257 §3.3).
    pub gain: f64,
    /// How often flows report.
    pub report: Period,
}

impl Default for DctcpConfig {
    /// RFC 8257 §4.2 recommends a gain of 1/16.
    fn default() -> Self {
        Self {
            gain: 0.0625,
            report: Period::default(),
        }
    }
}

impl Configuration for DctcpConfig {
    const NAME: &'static str = "dctcp";
    const SUMMARY: &'static str = "Data Center TCP (RFC 8257); its flows negotiate ECN";
    const PARAMETERS: &'static [ParameterSpec<Self>] = &[
        ParameterSpec::new(
            "g",
            "weight of a round trip in the moving average of the marked share (RFC 8257 §3.3)",
            |c| ParameterField::Decimal(&mut c.gain, 0.001..=1.0, "a number"),
        ),
        ParameterSpec::report(|c| ParameterField::Period(&mut c.report)),
    ];

    fn build(self, programs: &mut Programs) -> Result<Box<dyn Algorithm>, AlgorithmError> {
        Ok(Box::new(Dctcp::new(programs, self)?))
    }
}

/// DCTCP.
#[derive(Debug)]
pub struct Dctcp {
    window: Arc<Window>,
}

impl Dctcp {
    /// Compiles the program.
    ///
    /// # Errors
    /// [`AlgorithmError::OutOfRange`] for a gain or a report period out of its range.
    pub fn new(programs: &mut Programs, config: DctcpConfig) -> Result<Self, AlgorithmError> {
        config.check()?;
        let shape = Shape {
            marks: Marks::Share(config.gain),
            avoidance: Avoidance::Reno,
            period: config.report,
            // RFC 8257 §3.4: a loss is answered as by any TCP (RFC 5681).
            ..Shape::RENO
        };
        Ok(Self {
            window: Arc::new(Window::load(programs, "dctcp", shape)?),
        })
    }
}

impl Algorithm for Dctcp {
    fn name(&self) -> &str {
        "dctcp"
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
        self.window.begin(info, control);
        Box::new(Autonomous(Arc::clone(&self.window)))
    }

    /// RFC 8257 §3.1 and §3.2.
    fn ecn(&self) -> Ecn {
        Ecn::Required
    }
}
