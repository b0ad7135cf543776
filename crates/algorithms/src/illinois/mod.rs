//! Illinois (Liu, Başar and Srikant, Performance Evaluation 65(6), 2008): losses say when to slow
//! down, queueing delay by how much.
//!
//! The program reduces, recovers and runs slow start, and sums up RTT samples. The plane reckons
//! each round trip's mean queueing delay and sets the pace, α segments a round trip, and what a
//! loss leaves, 1 - β.

mod curves;

use std::sync::Arc;

use fairwater_plane::{Algorithm, AlgorithmError, Control, Flow, FlowInfo, Programs, Report};

use crate::parameter::{Configuration, Conflict, ParameterField, ParameterSpec};
use crate::window::{Decrease, Marks, Pace, Period, Shape, SlowStart, Window, WindowSample};
use curves::Curves;

/// How an [`Illinois`] behaves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IllinoisConfig {
    /// The least α, segments a round trip: from 0.01 to `alpha_max`.
    pub alpha_min: f64,
    /// The greatest α, segments a round trip: up to 1000.
    pub alpha_max: f64,
    /// The least β, the share of cwnd that a loss takes: from 0.01 to `beta_max`.
    pub beta_min: f64,
    /// The greatest β: up to 0.9.
    pub beta_max: f64,
    /// Who runs slow start.
    pub slow_start: SlowStart,
    /// Whether ECN marks count as congestion (RFC 3168 §6.1.2).
    pub ecn: bool,
    /// How often flows report.
    pub report: Period,
}

impl Default for IllinoisConfig {
    /// The paper's.
    fn default() -> Self {
        Self {
            alpha_min: 0.3,
            alpha_max: 10.0,
            beta_min: 0.125,
            beta_max: 0.5,
            slow_start: SlowStart::default(),
            ecn: true,
            report: Period::default(),
        }
    }
}

impl Configuration for IllinoisConfig {
    const NAME: &'static str = "illinois";
    const SUMMARY: &'static str =
        "Illinois (Liu, Başar and Srikant): growth and cuts by queueing delay";
    const PARAMETERS: &'static [ParameterSpec<Self>] = &[
        ParameterSpec::new(
            "alpha_min",
            "growth of cwnd at the greatest queueing delay; at most `alpha_max`",
            |c| {
                ParameterField::Decimal(
                    &mut c.alpha_min,
                    0.01..=1000.0,
                    "a number of segments a round trip",
                )
            },
        ),
        ParameterSpec::new("alpha_max", "growth of cwnd at low queueing delay", |c| {
            ParameterField::Decimal(
                &mut c.alpha_max,
                0.01..=1000.0,
                "a number of segments a round trip",
            )
        }),
        ParameterSpec::new(
            "beta_min",
            "share of cwnd that a loss takes at low queueing delay; at most `beta_max`",
            |c| ParameterField::Decimal(&mut c.beta_min, 0.01..=0.9, "a share"),
        ),
        ParameterSpec::new(
            "beta_max",
            "share of cwnd that a loss takes at high queueing delay, and always below 15 segments",
            |c| ParameterField::Decimal(&mut c.beta_max, 0.01..=0.9, "a share"),
        ),
        ParameterSpec::slow_start(|c| ParameterField::Word(&mut c.slow_start)),
        ParameterSpec::ecn(|c| ParameterField::Boolean(&mut c.ecn)),
        ParameterSpec::report(|c| ParameterField::Period(&mut c.report)),
    ];

    fn build(self, programs: &mut Programs) -> Result<Box<dyn Algorithm>, AlgorithmError> {
        Ok(Box::new(Illinois::new(programs, self)?))
    }

    fn settle(&mut self, given: &dyn Fn(&str) -> bool) {
        if given("alpha_min") && !given("alpha_max") {
            self.alpha_max = self.alpha_max.max(self.alpha_min);
        } else if !given("alpha_min") {
            self.alpha_min = self.alpha_min.min(self.alpha_max);
        }
        if given("beta_min") && !given("beta_max") {
            self.beta_max = self.beta_max.max(self.beta_min);
        } else if !given("beta_min") {
            self.beta_min = self.beta_min.min(self.beta_max);
        }
    }

    fn conflict(&self) -> Option<Conflict> {
        let alpha = (("alpha_min", self.alpha_min), ("alpha_max", self.alpha_max));
        let beta = (("beta_min", self.beta_min), ("beta_max", self.beta_max));
        Conflict::of_order(alpha.0, alpha.1).or_else(|| Conflict::of_order(beta.0, beta.1))
    }
}

/// Illinois.
#[derive(Debug)]
pub struct Illinois {
    window: Arc<Window>,
    curves: Curves,
}

impl Illinois {
    /// Compiles the program.
    ///
    /// # Errors
    /// [`AlgorithmError::OutOfRange`] for a parameter out of its range.
    pub fn new(programs: &mut Programs, config: IllinoisConfig) -> Result<Self, AlgorithmError> {
        config.check()?;
        let shape = Shape {
            decrease: Decrease::AsPlaneSays,
            slow_start: config.slow_start,
            marks: Marks::as_loss(config.ecn),
            delays: true,
            period: config.report,
            ..Shape::RENO
        };
        Ok(Self {
            window: Arc::new(Window::load(programs, "illinois", shape)?),
            curves: Curves {
                alpha_min: config.alpha_min,
                alpha_max: config.alpha_max,
                beta_min: config.beta_min,
                beta_max: config.beta_max,
            },
        })
    }
}

impl Algorithm for Illinois {
    fn name(&self) -> &str {
        "illinois"
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
        self.window.begin(info, control);
        Box::new(IllinoisFlow {
            window: Arc::clone(&self.window),
            curves: self.curves,
            mss: u64::from(info.mss.max(1)),
            round: Round {
                began_us: info.now_us,
                ..Round::default()
            },
            least_us: f64::INFINITY,
            greatest_us: 0.0,
            low_rounds: None,
            alpha: 1.0,
            beta: self.curves.beta_max,
            pace: Pace::NONE,
            keep: 512,
        })
    }
}

/// Below this window, segments, delay says too little: growth is Reno's (the paper's W_thresh).
const THRESHOLD: u64 = 15;
/// A delay that was above d₁ must be below for so many round trips before α is at its greatest
/// again (the paper's θ).
const ROUNDS: u32 = 5;

/// The RTT samples of a round trip.
#[derive(Debug, Clone, Copy, Default)]
struct Round {
    began_us: u64,
    sum_us: u64,
    samples: u64,
}

struct IllinoisFlow {
    window: Arc<Window>,
    curves: Curves,
    mss: u64,
    round: Round,
    /// The least RTT, µs.
    least_us: f64,
    /// The greatest mean queueing delay of a round trip, µs.
    greatest_us: f64,
    /// Round trips of low delay in a row; `None` as long as the delay was never above d₁.
    low_rounds: Option<u32>,
    alpha: f64,
    beta: f64,
    pace: Pace,
    keep: u64,
}

impl Flow for IllinoisFlow {
    fn on_mss(&mut self, mss: u32, control: &mut Control) {
        self.mss = u64::from(mss.max(1));
        self.window.set_mss(mss, control);
    }

    fn on_report(&mut self, report: &Report, control: &mut Control) {
        let sample = self.window.read(report);
        self.window.slow_start(&sample, control);
        if sample.timeout {
            // The path may be another.
            self.low_rounds = None;
            self.greatest_us = 0.0;
        }
        self.observe(&sample);
        let cwnd = sample.cwnd_to_grow();
        let (alpha, beta) = if cwnd < THRESHOLD * self.mss {
            (1.0, self.curves.beta_max)
        } else {
            (self.alpha, self.beta)
        };
        let pace = Pace::of(((cwnd as f64 / alpha) as u64).max(1));
        self.window.pace(pace, &mut self.pace, control);
        let keep = (1024.0 * (1.0 - beta)).round() as u64;
        self.window.keep(keep, &mut self.keep, control);
    }
}

impl IllinoisFlow {
    /// Takes the samples of a report; a round trip of them decides.
    fn observe(&mut self, sample: &WindowSample) {
        let (sum_us, samples) = sample.delays;
        self.round.sum_us = self.round.sum_us.saturating_add(sum_us);
        self.round.samples = self.round.samples.saturating_add(samples);
        let lasted_us = sample.time_us.saturating_sub(self.round.began_us);
        if sample.min_rtt_us == u64::MAX || self.round.samples == 0 || lasted_us < sample.min_rtt_us
        {
            return;
        }
        let mean_us = self.round.sum_us as f64 / self.round.samples as f64;
        self.round = Round {
            began_us: sample.time_us,
            ..Round::default()
        };
        self.least_us = self.least_us.min(sample.min_rtt_us as f64);
        let delay_us = (mean_us - self.least_us).max(0.0);
        self.greatest_us = self.greatest_us.max(delay_us);
        self.beta = self.curves.beta(delay_us, self.greatest_us);
        if !Curves::is_low(delay_us, self.greatest_us) {
            self.low_rounds = Some(0);
            self.alpha = self.curves.alpha(delay_us, self.greatest_us);
        } else if let Some(rounds) = &mut self.low_rounds {
            *rounds += 1;
            if *rounds >= ROUNDS {
                self.low_rounds = None;
                self.alpha = self.curves.alpha_max;
            }
        } else {
            self.alpha = self.curves.alpha_max;
        }
    }
}
