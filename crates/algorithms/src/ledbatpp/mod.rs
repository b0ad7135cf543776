//! LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus) on the base of LEDBAT (RFC 6817): for traffic that
//! is to yield to all other.

mod base_delay;

use std::sync::Arc;

use fairwater_plane::{
    Algorithm, AlgorithmError, Control, Field, Flow, FlowInfo, Programs, Report, Var,
};

use crate::parameter::{Configuration, ParameterField, ParameterSpec};
use base_delay::BaseDelay;

/// How a [`LedbatPp`] behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedbatPpConfig {
    /// The queueing delay that it keeps to, µs, from 1,000 to 100,000 (RFC 6817 §2.4.2 has 100 ms
    /// as the most; LEDBAT++ has 60 ms).
    pub target_us: u64,
    /// Whether it slows down now and then to see the base delay; without, it is unfair to those
    /// who came earlier.
    pub slowdowns: bool,
    /// Whether ECN marks count as congestion (RFC 3168 §6.1.2).
    pub ecn: bool,
}

impl Default for LedbatPpConfig {
    fn default() -> Self {
        Self {
            target_us: 60_000,
            slowdowns: true,
            ecn: true,
        }
    }
}

impl Configuration for LedbatPpConfig {
    const NAME: &'static str = "ledbatpp";
    const SUMMARY: &'static str =
        "LEDBAT++, which yields to other traffic (RFC 6817 and its successor's draft)";
    const PARAMETERS: &'static [ParameterSpec<Self>] = &[
        ParameterSpec::new("target", "queueing delay that the flow keeps to", |c| {
            ParameterField::Micros(&mut c.target_us, 1_000..=100_000)
        }),
        ParameterSpec::new(
            "slowdowns",
            "whether the flow slows down periodically to measure the base delay",
            |c| ParameterField::Boolean(&mut c.slowdowns),
        ),
        ParameterSpec::ecn(|c| ParameterField::Boolean(&mut c.ecn)),
    ];

    fn build(self, programs: &mut Programs) -> Result<Box<dyn Algorithm>, AlgorithmError> {
        Ok(Box::new(LedbatPp::new(programs, self)?))
    }
}

/// LEDBAT++. The program grows and shrinks the window by the queueing delay; the plane remembers
/// the base delay for ten minutes, sets the gain by it, and says when to slow down.
#[derive(Debug)]
pub struct LedbatPp {
    config: LedbatPpConfig,
    handles: Arc<Handles>,
}

#[derive(Debug)]
struct Handles {
    min_rtt_us: Field,
    began: Field,
    slowed: Field,
    phase: Field,
    rtt_us: Field,
    mss: Var,
    target_us: Var,
    base_us: Var,
    divisor: Var,
    slow_down: Var,
}

impl LedbatPp {
    /// Compiles the program.
    ///
    /// # Errors
    /// [`AlgorithmError::OutOfRange`] for a target out of its range.
    pub fn new(programs: &mut Programs, config: LedbatPpConfig) -> Result<Self, AlgorithmError> {
        config.check()?;
        let constants = [("ecn", config.ecn.into())];
        let p = programs.add_with("ledbatpp", include_str!("program.ccp"), &constants)?;
        let handles = Handles {
            min_rtt_us: p.field("min_rtt_us")?,
            began: p.field("began")?,
            slowed: p.field("slowed")?,
            phase: p.field("phase")?,
            rtt_us: p.field("rtt_us")?,
            mss: p.variable("mss")?,
            target_us: p.variable("target_us")?,
            base_us: p.variable("base_us")?,
            divisor: p.variable("divisor")?,
            slow_down: p.variable("slow_down")?,
        };
        let handles = Arc::new(handles);
        Ok(Self { config, handles })
    }
}

impl Algorithm for LedbatPp {
    fn name(&self) -> &str {
        "ledbatpp"
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
        let mss = u64::from(info.mss.max(1));
        control.update(self.handles.mss, mss);
        control.update(self.handles.target_us, self.config.target_us);
        // The draft's modified slow start begins with two segments.
        control.set_cwnd(INITIAL_SEGMENTS * mss);
        Box::new(LedbatPpFlow {
            config: self.config,
            handles: Arc::clone(&self.handles),
            base: BaseDelay::default(),
            sent: (u64::MAX, MOST_DIVISOR),
            slowdowns: Slowdowns::Starting,
        })
    }
}

/// `Report.phase` of congestion avoidance.
const AVOIDANCE: u64 = 1;
const INITIAL_SEGMENTS: u64 = 2;
/// GAIN is at least a sixteenth.
const MOST_DIVISOR: u64 = 16;
/// Round trips between the first slow start and the first slowdown.
const FIRST_AFTER: u64 = 2;
/// A slowdown takes a tenth of the time, at most: the next is nine times its duration later.
const APART: u64 = 9;

/// When the flow slows down; times are the datapath's, µs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slowdowns {
    /// In the first slow start there are none.
    Starting,
    /// The next is due at this time.
    Due(u64),
    /// Base delay and divisor that the program has.
    Asked,
    /// Since this time.
    Under(u64),
}

struct LedbatPpFlow {
    config: LedbatPpConfig,
    handles: Arc<Handles>,
    base: BaseDelay,
    /// The base delay and the divisor that the program has.
    sent: (u64, u64),
    slowdowns: Slowdowns,
}

impl LedbatPpFlow {
    /// 1 / GAIN = min(16, ⌈2·TARGET / base⌉).
    fn divisor(&self, base_us: u64) -> u64 {
        (2 * self.config.target_us)
            .div_ceil(base_us.max(1))
            .clamp(1, MOST_DIVISOR)
    }

    fn schedule(&mut self, report: &Report, control: &mut Control) {
        let now = report.time_us();
        let h = &self.handles;
        if report.is_set(h.began) {
            self.slowdowns = Slowdowns::Under(now);
        }
        if report.is_set(h.slowed)
            && let Slowdowns::Under(since) = self.slowdowns
        {
            let took = now.saturating_sub(since);
            self.slowdowns = Slowdowns::Due(now.saturating_add(took.saturating_mul(APART)));
        }
        let avoiding = report[h.phase] == AVOIDANCE;
        match self.slowdowns {
            Slowdowns::Starting if avoiding && report[h.rtt_us] < u64::MAX => {
                let wait = report[h.rtt_us].saturating_mul(FIRST_AFTER);
                self.slowdowns = Slowdowns::Due(now.saturating_add(wait));
            }
            Slowdowns::Due(at) if avoiding && now >= at && self.config.slowdowns => {
                control.update(h.slow_down, true);
                self.slowdowns = Slowdowns::Asked;
            }
            _ => {}
        }
    }
}

impl Flow for LedbatPpFlow {
    fn on_mss(&mut self, mss: u32, control: &mut Control) {
        control.update(self.handles.mss, mss.max(1));
    }

    fn on_report(&mut self, report: &Report, control: &mut Control) {
        let base_us = self
            .base
            .observe(report.time_us(), report[self.handles.min_rtt_us]);
        if base_us < u64::MAX {
            let divisor = self.divisor(base_us);
            if base_us != self.sent.0 {
                control.update(self.handles.base_us, base_us);
            }
            if divisor != self.sent.1 {
                control.update(self.handles.divisor, divisor);
            }
            self.sent = (base_us, divisor);
        }
        self.schedule(report, control);
    }
}
