//! A fixed cwnd, a fixed rate, or both: the simplest algorithm, and a tool to measure paths with.

use fairwater_plane::{
    Algorithm, AlgorithmError, Control, Flow, FlowInfo, MAX_RATE, Programs, Report,
};

use crate::registry::{Entry, builder};
use crate::spec::{Parameter, Settings, within};

/// What a [`Constant`] holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConstantConfig {
    /// cwnd in segments, from 1 to 1,000,000; `None` is twice what the rate needs at the flow's
    /// RTT, or the initial window when there is no rate either.
    pub cwnd_segments: Option<u64>,
    /// Pacing rate, bytes/s, from 1 to [`MAX_RATE`]; `None` is none.
    pub rate: Option<u64>,
}

impl Default for ConstantConfig {
    fn default() -> Self {
        Self {
            cwnd_segments: Some(Self::DEFAULT_SEGMENTS),
            rate: None,
        }
    }
}

/// How the algorithm is known by name.
pub(crate) const ENTRY: Entry = Entry {
    name: "constant",
    summary: "a fixed congestion window, a fixed rate, or both",
    parameters: PARAMETERS,
    parse: |settings| builder(ConstantConfig::from_settings(settings), Constant::new),
};

const PARAMETERS: &[Parameter] = &[
    Parameter {
        key: "cwnd",
        range: "a number of segments from 1 to 1000000",
        default: "100, or none when there is a rate",
        meaning: "the congestion window",
    },
    Parameter {
        key: "rate",
        range: "a rate from 8bit to 8796gbit, `24mbit` for instance",
        default: "none",
        meaning: "the pacing rate",
    },
];

impl ConstantConfig {
    const DEFAULT_SEGMENTS: u64 = 100;
    const MAX_SEGMENTS: u64 = 1_000_000;

    fn from_settings(settings: &mut Settings<'_>) -> Self {
        let cwnd = settings.number("cwnd", 1..=Self::MAX_SEGMENTS);
        let rate = settings.rate("rate", 1..=MAX_RATE);
        Self {
            cwnd_segments: cwnd.or_else(|| rate.is_none().then_some(Self::DEFAULT_SEGMENTS)),
            rate,
        }
    }

    fn check(self) -> Result<(), AlgorithmError> {
        if let Some(cwnd) = self.cwnd_segments {
            within(PARAMETERS, "cwnd", &(1..=Self::MAX_SEGMENTS), cwnd, "")?;
        }
        if let Some(rate) = self.rate {
            within(PARAMETERS, "rate", &(1..=MAX_RATE), rate, " bytes/s")?;
        }
        Ok(())
    }
}

/// Nothing is decided in the datapath. Reports once a second show that the flow lives.
const PROGRAM: &str = "
(def (Report (volatile acked 0) (volatile lost 0) (rtt_us 0)))
(when true
  (:= Report.acked (+ Report.acked Ack.bytes_acked))
  (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
  (:= Report.rtt_us Flow.rtt_sample_us)
  (fallthrough))
(when (|| Flow.was_timeout (> Micros 1000000))
  (report)
  (reset))
";

/// Holds cwnd, rate or both.
#[derive(Debug)]
pub struct Constant {
    config: ConstantConfig,
    rtt_us: fairwater_plane::Field,
}

impl Constant {
    /// Compiles the program.
    ///
    /// # Errors
    /// [`AlgorithmError::OutOfRange`] for a cwnd or rate out of its range.
    pub fn new(programs: &mut Programs, config: ConstantConfig) -> Result<Self, AlgorithmError> {
        config.check()?;
        let program = programs.add("constant", PROGRAM)?;
        Ok(Self {
            config,
            rtt_us: program.field("rtt_us")?,
        })
    }
}

impl Algorithm for Constant {
    fn name(&self) -> &str {
        "constant"
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
        let flow = ConstantFlow {
            config: self.config,
            mss: u64::from(info.mss),
            rtt_us: self.rtt_us,
        };
        if let Some(rate) = self.config.rate {
            control.set_rate(rate);
        }
        if let Some(cwnd) = flow.cwnd(info.srtt_us) {
            control.set_cwnd(cwnd);
        }
        Box::new(flow)
    }

    /// What is constant stays so.
    fn idle_restart(&self) -> bool {
        false
    }
}

struct ConstantFlow {
    config: ConstantConfig,
    mss: u64,
    rtt_us: fairwater_plane::Field,
}

impl ConstantFlow {
    /// cwnd in bytes, where something determines it.
    fn cwnd(&self, rtt_us: u64) -> Option<u64> {
        match (self.config.cwnd_segments, self.config.rate) {
            (Some(segments), _) => Some(segments.saturating_mul(self.mss).max(1)),
            (None, Some(rate)) if rtt_us > 0 && rtt_us < u64::MAX => {
                let bdp = u128::from(rate) * u128::from(rtt_us) / 1_000_000;
                Some(
                    u64::try_from(2 * bdp)
                        .unwrap_or(u64::MAX)
                        .max(10 * self.mss)
                        .max(1),
                )
            }
            _ => None,
        }
    }
}

impl Flow for ConstantFlow {
    /// Puts back what a timeout or an idle restart took, and follows the RTT where the rate
    /// governs.
    fn on_report(&mut self, report: &Report, control: &mut Control) {
        if let Some(cwnd) = self.cwnd(report[self.rtt_us])
            && cwnd != report.cwnd()
        {
            control.set_cwnd(cwnd);
        }
        if let Some(rate) = self.config.rate
            && rate != report.rate()
        {
            control.set_rate(rate);
        }
    }
}
