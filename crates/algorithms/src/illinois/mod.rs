//! Illinois (Liu, Başar and Srikant, Performance Evaluation 65(6), 2008): losses say when to slow
//! down, queueing delay by how much.
//!
//! The program reduces, recovers and runs slow start, and sums up RTT samples. The plane reckons
//! each round trip's mean queueing delay and sets the pace, α segments a round trip, and what a
//! loss leaves, 1 - β.

mod curves;

use fairwater_plane::{Algorithm, AlgorithmError, Control, Flow, FlowInfo, Programs, Report};

use crate::registry::{Entry, builder};
use crate::spec::{Parameter, Settings};
use crate::window::{Decrease, Marks, Pace, Period, Reading, Shape, SlowStart, Window};
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

/// How the algorithm is known by name.
pub(crate) const ENTRY: Entry = Entry {
    name: "illinois",
    summary: "Illinois (Liu, Başar and Srikant): growth and cuts by queueing delay",
    parameters: PARAMETERS,
    parse: |settings| builder(IllinoisConfig::from_settings(settings), Illinois::new),
};

const ALPHA: &str = "a number of segments a round trip from 0.01 to 1000";
const BETA: &str = "a share from 0.01 to 0.9";

const PARAMETERS: &[Parameter] = &[
    Parameter {
        key: "alpha_min",
        range: ALPHA,
        default: "0.3",
        meaning: "the growth at the greatest queueing delay; at most alpha_max",
    },
    Parameter {
        key: "alpha_max",
        range: ALPHA,
        default: "10",
        meaning: "the growth when hardly anything queues",
    },
    Parameter {
        key: "beta_min",
        range: BETA,
        default: "0.125",
        meaning: "what a loss takes when little queues; at most beta_max",
    },
    Parameter {
        key: "beta_max",
        range: BETA,
        default: "0.5",
        meaning: "what a loss takes when much queues, and always below 15 segments",
    },
    Parameter::SLOW_START,
    Parameter::ECN,
    Parameter::REPORT,
];

impl IllinoisConfig {
    const ALPHAS: std::ops::RangeInclusive<f64> = 0.01..=1000.0;
    const BETAS: std::ops::RangeInclusive<f64> = 0.01..=0.9;

    fn from_settings(settings: &mut Settings<'_>) -> Self {
        let default = Self::default();
        let mut decimal = |key, range, default| settings.decimal(key, range).unwrap_or(default);
        let alpha_max = decimal("alpha_max", Self::ALPHAS, default.alpha_max);
        let alpha_min = decimal("alpha_min", Self::ALPHAS, default.alpha_min.min(alpha_max));
        let beta_max = decimal("beta_max", Self::BETAS, default.beta_max);
        let beta_min = decimal("beta_min", Self::BETAS, default.beta_min.min(beta_max));
        for (name, least, most) in [
            ("alpha", alpha_min, alpha_max),
            ("beta", beta_min, beta_max),
        ] {
            if least > most {
                settings.refuse(format!(
                    "`{name}_min={least}`: {name}_min must be at most {name}_max, which is {most}"
                ));
            }
        }
        Self {
            alpha_min,
            alpha_max,
            beta_min,
            beta_max,
            slow_start: settings.slow_start().unwrap_or(default.slow_start),
            ecn: settings.boolean("ecn").unwrap_or(default.ecn),
            report: settings.period().unwrap_or(default.report),
        }
    }

    fn check(&self) -> Result<(), AlgorithmError> {
        let found = [
            ("alpha_max", self.alpha_max, Self::ALPHAS),
            (
                "alpha_min",
                self.alpha_min,
                *Self::ALPHAS.start()..=self.alpha_max,
            ),
            ("beta_max", self.beta_max, Self::BETAS),
            (
                "beta_min",
                self.beta_min,
                *Self::BETAS.start()..=self.beta_max,
            ),
        ]
        .into_iter()
        .find(|(_, value, range)| !range.contains(value));
        match found {
            Some((parameter, value, range)) => Err(AlgorithmError::out_of_range(
                parameter,
                value,
                format!("from {} to {}", range.start(), range.end()),
            )),
            None => Ok(()),
        }
    }
}

/// Illinois.
#[derive(Debug)]
pub struct Illinois {
    window: Window,
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
            window: Window::load(programs, "illinois", shape)?,
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
            window: self.window,
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
    window: Window,
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
    fn on_report(&mut self, report: &Report, control: &mut Control) {
        let reading = self.window.read(report);
        self.window.slow_start(&reading, control);
        if reading.timeout {
            // The path may be another.
            self.low_rounds = None;
            self.greatest_us = 0.0;
        }
        self.observe(&reading);
        let cwnd = reading.cwnd_to_grow();
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
    fn observe(&mut self, reading: &Reading) {
        let (sum_us, samples) = reading.delays;
        self.round.sum_us = self.round.sum_us.saturating_add(sum_us);
        self.round.samples = self.round.samples.saturating_add(samples);
        let lasted_us = reading.time_us.saturating_sub(self.round.began_us);
        if reading.min_rtt_us == u64::MAX
            || self.round.samples == 0
            || lasted_us < reading.min_rtt_us
        {
            return;
        }
        let mean_us = self.round.sum_us as f64 / self.round.samples as f64;
        self.round = Round {
            began_us: reading.time_us,
            ..Round::default()
        };
        self.least_us = self.least_us.min(reading.min_rtt_us as f64);
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
