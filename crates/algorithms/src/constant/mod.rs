//! A fixed cwnd, a fixed rate, or both: the simplest algorithm, and a tool to measure paths with.

use fairwater_plane::{
    Algorithm, AlgorithmError, Control, Flow, FlowInfo, MAX_RATE, Programs, Report,
};

use crate::parameter::{Configuration, ParameterField, ParameterSpec};

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
            cwnd_segments: Some(100),
            rate: None,
        }
    }
}

impl Configuration for ConstantConfig {
    const NAME: &'static str = "constant";
    const SUMMARY: &'static str = "a fixed congestion window, a fixed rate, or both";
    const PARAMETERS: &'static [ParameterSpec<Self>] = &[
        ParameterSpec::<Self>::new("cwnd", "congestion window", |c| {
            ParameterField::OptionalNumber(
                &mut c.cwnd_segments,
                1..=1_000_000,
                "a number of segments",
            )
        })
        .by_default("100, or none if `rate` is set"),
        ParameterSpec::<Self>::new("rate", "pacing rate", |c| {
            ParameterField::OptionalRate(&mut c.rate, 1..=MAX_RATE)
        })
        .by_default("none"),
    ];

    fn build(self, programs: &mut Programs) -> Result<Box<dyn Algorithm>, AlgorithmError> {
        Ok(Box::new(Constant::new(programs, self)?))
    }

    fn settle(&mut self, given: &dyn Fn(&str) -> bool) {
        if given("rate") && !given("cwnd") {
            self.cwnd_segments = None;
        }
    }
}

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
        let program = programs.add("constant", include_str!("program.ccp"))?;
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

    fn resumes_carefully(&self) -> bool {
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
    fn on_mss(&mut self, mss: u32, control: &mut Control) {
        self.mss = u64::from(mss);
        if self.config.cwnd_segments.is_some()
            && let Some(cwnd) = self.cwnd(0)
        {
            control.set_cwnd(cwnd);
        }
    }

    /// Puts back what a timeout or an idle restart took, and follows the RTT where the rate
    /// limits the flow.
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
