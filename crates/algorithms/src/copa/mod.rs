//! Copa (Arun and Balakrishnan, NSDI '18): as many packets in the queue as 1/δ, whatever the path.
//!
//! The program moves cwnd at each ACK. The plane decides what changes once a round trip: the
//! least RTT, the velocity, the mode and δ.

pub(crate) mod rules;

use std::sync::Arc;

use fairwater_plane::{
    Algorithm, AlgorithmError, Control, Field, Flow, FlowInfo, Programs, Report, Var,
};

use crate::bundle::is_bundle;
use crate::parameter::{Configuration, ParameterField, ParameterSpec};
pub use rules::CopaMode;
use rules::{MAX_VELOCITY, Reading, Rules, Setting};

/// How a [`Copa`] behaves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CopaConfig {
    /// δ of default mode, from 0.01 to 2: the flow keeps 1/δ packets in the queue.
    pub delta: f64,
    /// Whether it competes with flows that fill the buffer (NSDI '18 §2.2).
    pub mode: CopaMode,
}

impl Default for CopaConfig {
    /// NSDI '18 §2.1's δ.
    fn default() -> Self {
        Self {
            delta: 0.5,
            mode: CopaMode::Auto,
        }
    }
}

impl Configuration for CopaConfig {
    const NAME: &'static str = "copa";
    const SUMMARY: &'static str = "Copa (Arun and Balakrishnan, NSDI '18)";
    const PARAMETERS: &'static [ParameterSpec<Self>] = &[
        ParameterSpec::new(
            "delta",
            "the flow keeps 1/delta packets in the queue",
            |c| ParameterField::Decimal(&mut c.delta, 0.01..=2.0, "a number"),
        ),
        ParameterSpec::new(
            "mode",
            "whether to compete with flows that fill the buffer (`auto`; `paper`: by the paper's detector alone) or not (`default`)",
            |c| ParameterField::Word(&mut c.mode),
        ),
    ];

    fn build(self, programs: &mut Programs) -> Result<Box<dyn Algorithm>, AlgorithmError> {
        Ok(Box::new(Copa::new(programs, self)?))
    }
}

/// Copa.
#[derive(Debug)]
pub struct Copa {
    config: CopaConfig,
    handles: Arc<Handles>,
}

#[derive(Debug)]
struct Handles {
    lost: Field,
    least_us: Field,
    greatest_us: Field,
    srtt_us: Field,
    slow_start: Field,
    mss: Var,
    share: Var,
    velocity: Var,
    heading: Var,
    base_us: Var,
    ceiling: Var,
    restored: Var,
    last_cwnd: Var,
    unbounded: Var,
    begins: Var,
}

impl Copa {
    /// Compiles the program.
    ///
    /// # Errors
    /// [`AlgorithmError::OutOfRange`] for a δ out of its range.
    pub fn new(programs: &mut Programs, config: CopaConfig) -> Result<Self, AlgorithmError> {
        config.check()?;
        let constants = [("max_velocity", MAX_VELOCITY.into())];
        let p = programs.add_with("copa", include_str!("program.ccp"), &constants)?;
        Ok(Self {
            config,
            handles: Arc::new(Handles {
                lost: p.field("lost")?,
                least_us: p.field("least_us")?,
                greatest_us: p.field("greatest_us")?,
                srtt_us: p.field("srtt_us")?,
                slow_start: p.field("slow_start")?,
                mss: p.variable("mss")?,
                share: p.variable("share")?,
                velocity: p.variable("velocity")?,
                heading: p.variable("heading")?,
                base_us: p.variable("base_us")?,
                ceiling: p.variable("ceiling")?,
                restored: p.variable("restored")?,
                last_cwnd: p.variable("last_cwnd")?,
                unbounded: p.variable("unbounded")?,
                begins: p.variable("begins")?,
            }),
        })
    }
}

impl Algorithm for Copa {
    fn name(&self) -> &str {
        "copa"
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
        let mut rules = Rules::new(self.config.delta, self.config.mode);
        if is_bundle(info) {
            rules = rules.gentle();
        }
        let mss = f64::from(info.mss.max(1));
        let told = rules.setting();
        control.update(self.handles.mss, info.mss.max(1));
        control.update(self.handles.last_cwnd, info.cwnd);
        if is_bundle(info) {
            control.update(self.handles.unbounded, u64::MAX);
            // It takes over at the rate that was measured.
            control.update(self.handles.begins, false);
        }
        control.update(self.handles.share, bytes(told.share, mss));
        Box::new(CopaFlow {
            handles: Arc::clone(&self.handles),
            mss,
            rules,
            told,
            slow_start: true,
        })
    }
}

struct CopaFlow {
    handles: Arc<Handles>,
    mss: f64,
    rules: Rules,
    /// What the program has.
    told: Setting,
    slow_start: bool,
}

impl Flow for CopaFlow {
    fn on_report(&mut self, report: &Report, control: &mut Control) {
        let h = &self.handles;
        let least_us = report[h.least_us];
        let reading = Reading {
            time_us: report.time_us(),
            cwnd: report.cwnd(),
            cwnd_packets: report.cwnd() / self.mss as u64,
            rtt_us: (least_us < u64::MAX).then(|| (least_us, report[h.greatest_us])),
            srtt_us: report[h.srtt_us],
            lost: report[h.lost],
            slow_start: report.is_set(h.slow_start),
        };
        let setting = self.rules.observe(&reading);
        // What the program did by itself.
        self.told.base_us = self.told.base_us.min(least_us);
        if self.slow_start && !reading.slow_start {
            (self.told.heading, self.told.velocity) = (false, MAX_VELOCITY);
        }
        self.slow_start = reading.slow_start;
        if setting.base_us != self.told.base_us {
            control.update(h.base_us, setting.base_us);
        }
        if setting.share != self.told.share {
            control.update(h.share, bytes(setting.share, self.mss));
        }
        if setting.velocity != self.told.velocity {
            control.update(h.velocity, setting.velocity);
        }
        if setting.heading != self.told.heading {
            control.update(h.heading, setting.heading);
        }
        if setting.ceiling != self.told.ceiling {
            let least = 2 * self.mss as u64;
            control.update(h.ceiling, setting.ceiling.max(least));
        }
        if setting.restored > 0 {
            control.update(h.restored, setting.restored);
        }
        self.told = setting;
    }

    fn on_mss(&mut self, mss: u32, control: &mut Control) {
        let h = &self.handles;
        self.mss = f64::from(mss.max(1));
        control.update(h.mss, mss.max(1));
        control.update(h.share, bytes(self.told.share, self.mss));
    }
}

/// Converts packets to bytes, at least one byte.
fn bytes(packets: f64, mss: f64) -> u64 {
    ((packets * mss) as u64).max(1)
}
