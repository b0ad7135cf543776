//! BBR v3: draft-ietf-ccwg-bbr (Cardwell, Swett, Beshay), as of August 2026.

mod bounds;
mod cycle;
mod datapath;
mod flow;

use fairwater_plane::{Algorithm, AlgorithmError, Control, Flow, FlowInfo, Programs};

use super::cwnd_gain;
use super::datapath::Datapath;
use super::program::{Shape, Version};
use crate::registry::{Entry, builder};
use crate::spec::{Parameter, Settings, within};
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

/// How the algorithm is known by name.
pub(crate) const ENTRY: Entry = Entry {
    name: "bbr3",
    summary: "BBR v3 (draft-ietf-ccwg-bbr): BBR that bounds what it has in flight by losses",
    parameters: PARAMETERS,
    parse: |settings| builder(Bbr3Config::from_settings(settings), Bbr3::new),
};

const PARAMETERS: &[Parameter] = &[
    cwnd_gain::PARAMETER,
    Parameter::PROBE_RTT,
    Parameter {
        key: "probe_wait",
        range: "a duration from 100ms to 60s",
        default: "2s",
        meaning: "between probes for bandwidth, at least; up to a second more is drawn",
    },
    Parameter::ECN,
    Parameter::REPORT,
];

const PROBE_WAIT_S: std::ops::RangeInclusive<f64> = 0.1..=60.0;

impl Bbr3Config {
    fn from_settings(settings: &mut Settings<'_>) -> Self {
        let default = Self::default();
        let wait = settings.duration_us("probe_wait", 100_000..=60_000_000);
        Self {
            cwnd_gain: cwnd_gain::from_settings(settings),
            probe_rtt: settings.boolean("probe_rtt").unwrap_or(default.probe_rtt),
            probe_wait_s: wait.map_or(default.probe_wait_s, |us| us as f64 / 1e6),
            ecn: settings.boolean("ecn").unwrap_or(default.ecn),
            report: settings.period().unwrap_or(default.report),
        }
    }

    fn check(&self) -> Result<(), AlgorithmError> {
        cwnd_gain::check(self.cwnd_gain)?;
        within(
            PARAMETERS,
            "probe_wait",
            &PROBE_WAIT_S,
            self.probe_wait_s,
            " s",
        )
    }
}

/// BBR v3.
#[derive(Debug)]
pub struct Bbr3 {
    datapath: Datapath,
    extension: Extension,
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
            datapath,
            extension: Extension::of(&p)?,
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
        let flow = Bbr3Flow::new(self.datapath, self.extension, self.config, info);
        flow.instruct(control);
        Box::new(flow)
    }

    /// It paces: what the path bears is known after a pause, too.
    fn idle_restart(&self) -> bool {
        false
    }
}
