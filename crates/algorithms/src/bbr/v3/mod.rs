//! BBR v3: draft-ietf-ccwg-bbr (Cardwell, Swett, Beshay), as of August 2026.

mod bounds;
mod cycle;
mod datapath;
mod flow;

use std::sync::Arc;

use fairwater_plane::{Algorithm, AlgorithmError, Control, Flow, FlowInfo, Programs};

use super::cwnd_gain;
use super::datapath::{Datapath, Shape, Version};
use crate::parameter::{Configuration, ParameterField, ParameterSpec};
use crate::window::Period;
use datapath::Extension;
use flow::Bbr3Flow;

/// How a [`Bbr3`] behaves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bbr3Config {
    /// cwnd while cruising, in bandwidth-delay products of the model; from 1 to 10.
    pub cwnd_gain: f64,
    /// Whether the RTT is measured by ProbeRTT each five seconds.
    pub probe_rtt: bool,
    /// Seconds between probes for bandwidth, at least; up to one more is drawn. From 0.1 to 60.
    pub probe_wait_s: f64,
    /// Whether packets marked with ECN CE count as lost ones do.
    pub ecn: bool,
    /// How often flows report while they cruise; otherwise, and with [`Period::Rtt`], they report
    /// at the end of each round trip.
    pub report: Period,
}

impl Default for Bbr3Config {
    fn default() -> Self {
        Self {
            cwnd_gain: cwnd_gain::USUAL,
            probe_rtt: true,
            probe_wait_s: 2.0,
            ecn: true,
            report: Period::default(),
        }
    }
}

impl Configuration for Bbr3Config {
    const NAME: &'static str = "bbr3";
    const SUMMARY: &'static str =
        "BBR v3 (draft-ietf-ccwg-bbr): BBR that bounds what it has in flight by losses";
    const PARAMETERS: &'static [ParameterSpec<Self>] = &[
        ParameterSpec::new(
            "cwnd_gain",
            "cwnd while cruising, in bandwidth-delay products",
            |c| ParameterField::Decimal(&mut c.cwnd_gain, cwnd_gain::RANGE, "a number"),
        ),
        ParameterSpec::new(
            "probe_rtt",
            "whether the flow drains the queue periodically to measure the minimum RTT",
            |c| ParameterField::Boolean(&mut c.probe_rtt),
        ),
        ParameterSpec::new(
            "probe_wait",
            "least time between probes for bandwidth; up to a second more is drawn",
            |c| ParameterField::Seconds(&mut c.probe_wait_s, 0.1..=60.0),
        ),
        ParameterSpec::ecn(|c| ParameterField::Boolean(&mut c.ecn)),
        ParameterSpec::report(|c| ParameterField::Period(&mut c.report)),
    ];

    fn build(self, programs: &mut Programs) -> Result<Box<dyn Algorithm>, AlgorithmError> {
        Ok(Box::new(Bbr3::new(programs, self)?))
    }
}

/// BBR v3.
#[derive(Debug)]
pub struct Bbr3 {
    datapath: Arc<Datapath>,
    extension: Arc<Extension>,
    config: Bbr3Config,
}

impl Bbr3 {
    /// Compiles the program.
    ///
    /// # Errors
    /// [`AlgorithmError::OutOfRange`] for a number of the configuration out of its range.
    pub fn new(programs: &mut Programs, config: Bbr3Config) -> Result<Self, AlgorithmError> {
        config.check()?;
        let shape = Shape {
            version: Version::Three,
            ecn: config.ecn,
            period: config.report,
        };
        let (datapath, p) = Datapath::load(programs, "bbr3", shape)?;
        Ok(Self {
            datapath: Arc::new(datapath),
            extension: Arc::new(Extension::of(&p)?),
            config,
        })
    }
}

impl Algorithm for Bbr3 {
    fn name(&self) -> &str {
        "bbr3"
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
        self.datapath.begin(info, flow::STARTUP_GAIN, control);
        let flow = Bbr3Flow::new(
            Arc::clone(&self.datapath),
            Arc::clone(&self.extension),
            self.config,
            info,
        );
        flow.instruct(control);
        Box::new(flow)
    }

    /// It paces: what the path bears is known after a pause, too.
    fn idle_restart(&self) -> bool {
        false
    }
}
