//! A forecast like Sprout's: Winstein, Sivaraman & Balakrishnan, "Stochastic Forecasts Achieve High
//! Throughput and Low Delay over Cellular Networks", NSDI '13.
//!
//! Sprout infers at the receiver, tick by tick, and sends forecasts back. Here the sender infers
//! from ACKs, as TCP's receivers do not.

mod belief;
mod model;

use std::sync::{Arc, LazyLock};

use fairwater_plane::{
    Algorithm, AlgorithmError, Control, Field, Flow, FlowInfo, Programs, Report, Var,
};

use crate::parameter::{Configuration, ParameterField, ParameterSpec};
use belief::Belief;
use model::{Model, TICK_S, TICK_US};

/// How a [`Sprout`] behaves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SproutConfig {
    /// Of the forecast, percent, from 1 to 50: fewer are more cautious.
    pub percentile: f64,
    /// The queueing delay within which what is sent shall have left, µs, from 10,000 to 1,000,000.
    pub target_us: u64,
    /// σ, how far the rate wanders in a second, packets/s, from 10 to 1000.
    pub volatility: f64,
    /// λz, how often an outage ends, 1/s, from 0.1 to 20.
    pub escape: f64,
}

impl Default for SproutConfig {
    /// What NSDI '13 §3 froze before its measurements.
    fn default() -> Self {
        Self {
            percentile: 5.0,
            target_us: 100_000,
            volatility: 200.0,
            escape: 1.0,
        }
    }
}

impl Configuration for SproutConfig {
    const NAME: &'static str = "sprout";
    const SUMMARY: &'static str =
        "a forecast like Sprout's, for cellular links (Winstein et al., NSDI '13)";
    const PARAMETERS: &'static [ParameterSpec<Self>] = &[
        ParameterSpec::new(
            "percentile",
            "percentile of the forecast that is sent; lower is more cautious",
            |c| ParameterField::Decimal(&mut c.percentile, 1.0..=50.0, "a number"),
        ),
        ParameterSpec::new(
            "target",
            "queueing delay within which what is sent shall have left",
            |c| ParameterField::Micros(&mut c.target_us, 10_000..=1_000_000),
        ),
        ParameterSpec::new(
            "volatility",
            "σ: how far the rate wanders in a second",
            |c| ParameterField::Decimal(&mut c.volatility, 10.0..=1_000.0, "a number of packets/s"),
        ),
        ParameterSpec::new("escape", "λz: how often an outage ends, per second", |c| {
            ParameterField::Decimal(&mut c.escape, 0.1..=20.0, "a number")
        }),
    ];

    fn build(self, programs: &mut Programs) -> Result<Box<dyn Algorithm>, AlgorithmError> {
        Ok(Box::new(Sprout::new(programs, self)?))
    }
}

impl SproutConfig {
    /// The tables of the default model are made once in a process.
    fn model(self) -> Arc<Model> {
        static USUAL: LazyLock<Arc<Model>> = LazyLock::new(|| {
            let usual = SproutConfig::default();
            Arc::new(Model::new(usual.volatility as f32, usual.escape as f32))
        });
        let usual = Self::default();
        if (self.volatility, self.escape) == (usual.volatility, usual.escape) {
            Arc::clone(&USUAL)
        } else {
            Arc::new(Model::new(self.volatility as f32, self.escape as f32))
        }
    }
}

/// The forecast. The program counts deliveries; the plane infers the link's rate from them, each
/// tick, and lets out what will cautiously have left in time.
pub struct Sprout {
    config: SproutConfig,
    model: Arc<Model>,
    handles: Arc<Handles>,
}

impl std::fmt::Debug for Sprout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sprout")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Handles {
    delivered: Field,
    lost: Field,
    min_rtt_us: Field,
    idle: Field,
    timeout: Field,
    mss: Var,
    window: Var,
}

impl Sprout {
    /// Compiles the program, and computes the model's tables.
    ///
    /// # Errors
    /// [`AlgorithmError::OutOfRange`] for a parameter out of its range.
    pub fn new(programs: &mut Programs, config: SproutConfig) -> Result<Self, AlgorithmError> {
        config.check()?;
        let p = programs.add("sprout", include_str!("program.ccp"))?;
        let handles = Handles {
            delivered: p.field("delivered")?,
            lost: p.field("lost")?,
            min_rtt_us: p.field("min_rtt_us")?,
            idle: p.field("idle")?,
            timeout: p.field("timeout")?,
            mss: p.variable("mss")?,
            window: p.variable("window")?,
        };
        Ok(Self {
            config,
            model: config.model(),
            handles: Arc::new(handles),
        })
    }
}

impl Algorithm for Sprout {
    fn name(&self) -> &str {
        "sprout"
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
        let mss = u64::from(info.mss.max(1));
        let window = info.cwnd.max(mss);
        control.update(self.handles.mss, mss);
        control.update(self.handles.window, window);
        Box::new(SproutFlow {
            config: self.config,
            handles: Arc::clone(&self.handles),
            belief: Belief::new(Arc::clone(&self.model), mss),
            mss,
            window,
            last_us: info.now_us,
            carry_us: 0,
            base_us: u64::MAX,
            ceiling: u64::MAX,
            round: Round::default(),
        })
    }
}

/// An RTT that is no more than this above the least shows an empty queue: what came was what was
/// sent, and not all that could have come.
const EMPTY_US: u64 = 5_000;
/// A window of no more segments than these may wait for a delayed ACK (RFC 1122 §4.2.3.2; Linux's
/// and others' 40 ms).
const FEW_SEGMENTS: u64 = 4;
const DELAYED_ACK_US: u64 = 40_000;
/// Ticks of silence after which the belief is as wide as it gets.
const MOST_TICKS: u64 = 100;
/// The least window, segments.
const LEAST_SEGMENTS: u64 = 2;
/// A round that loses more than this part of what was sent shows a buffer too short for the
/// forecast's window.
const TOLERATED: f64 = 0.05;
/// Segments in a round at least: of fewer, one lost by chance would be too many.
const LEAST_COUNTED: f64 = 40.0;

struct SproutFlow {
    config: SproutConfig,
    handles: Arc<Handles>,
    belief: Belief,
    mss: u64,
    /// Bytes, that the program has.
    window: u64,
    /// The time of the last report.
    last_us: u64,
    /// Of a tick that has begun.
    carry_us: u64,
    /// The least RTT of the flow, µs.
    base_us: u64,
    /// What losses leave of the window, bytes.
    ceiling: u64,
    round: Round,
}

/// What became of what was sent, since a round trip or more.
#[derive(Debug, Clone, Copy, Default)]
struct Round {
    since_us: u64,
    delivered: f64,
    lost: f64,
}

impl SproutFlow {
    /// Takes in what a report says of the link; whether the window held the flow back.
    fn learn(&mut self, report: &Report) -> bool {
        let elapsed_us = report.time_us().saturating_sub(self.last_us);
        self.last_us = report.time_us();
        let passed_us = elapsed_us.saturating_add(self.carry_us);
        let ticks = (passed_us / TICK_US).min(MOST_TICKS);
        self.carry_us = passed_us % TICK_US;
        let rtt_us = report[self.handles.min_rtt_us];
        self.base_us = self.base_us.min(rtt_us);
        let delayed = self.window <= FEW_SEGMENTS * self.mss;
        let empty_us = EMPTY_US + if delayed { DELAYED_ACK_US } else { 0 };
        let empty = rtt_us < u64::MAX && rtt_us <= self.base_us.saturating_add(empty_us);
        let idle = report.is_set(self.handles.idle);
        let heard = !report.is_set(self.handles.timeout);
        let bytes = report[self.handles.delivered] as f32;
        let seconds = (elapsed_us as f32 / 1e6).max(1e-3);
        if heard && (empty || idle) {
            (0..ticks).for_each(|_| self.belief.evolve());
            self.belief.observe_at_least(bytes, seconds);
        } else {
            // Ticks without a report had no ACK: what there is came in the last.
            for _ in 1..ticks {
                self.belief.evolve();
                self.belief.observe(0.0, TICK_S);
            }
            if ticks > 0 {
                self.belief.evolve();
            }
            let silent = ticks.saturating_sub(1) as f32 * TICK_S;
            let seconds = (seconds - silent).clamp(TICK_S / 2.0, 2.0 * TICK_S);
            self.belief.observe(bytes, seconds);
        }
        heard && empty && !idle
    }

    /// Sprout knows no losses, as the buffers of its links are deep. Where they are not, a window
    /// that overfills them is reduced until few are lost.
    fn heed_losses(&mut self, report: &Report) {
        self.round.delivered += report[self.handles.delivered] as f64;
        self.round.lost += report[self.handles.lost] as f64 * self.mss as f64;
        let now = report.time_us();
        let sent = self.round.delivered + self.round.lost;
        if now.saturating_sub(self.round.since_us) < self.base_us
            || sent < LEAST_COUNTED * self.mss as f64
        {
            return;
        }
        if self.round.lost > TOLERATED * sent {
            self.ceiling = (self.window / 8 * 7).max(LEAST_SEGMENTS * self.mss);
        } else if self.ceiling < u64::MAX {
            self.ceiling = self.ceiling.saturating_add(self.mss);
            if self.ceiling / 2 > self.window {
                self.ceiling = u64::MAX;
            }
        }
        self.round = Round {
            since_us: now,
            ..Round::default()
        };
    }
}

impl Flow for SproutFlow {
    /// What the belief counts as a packet stays as large as it was.
    fn on_mss(&mut self, mss: u32, control: &mut Control) {
        self.mss = u64::from(mss.max(1));
        control.update(self.handles.mss, self.mss);
    }

    fn on_report(&mut self, report: &Report, control: &mut Control) {
        let held_back = self.learn(report);
        self.heed_losses(report);
        // What is out is on the way or in the queue. Caution is for the queue.
        let base_us = if self.base_us == u64::MAX {
            0
        } else {
            self.base_us
        };
        let on_the_way = self.belief.mean_rate() * base_us as f32 / 1e6;
        let quantile = self.config.percentile as f32 / 100.0;
        let queued = self.belief.forecast(self.config.target_us, quantile);
        let forecast = (on_the_way + queued) as u64;
        let mut window = forecast;
        if held_back {
            // Half as much again each round trip, until a queue shows what the link does.
            let more = report[self.handles.delivered] / 2;
            window = window.max(self.window.saturating_add(more));
        }
        let window = window.min(self.ceiling).max(LEAST_SEGMENTS * self.mss);
        if window != self.window {
            control.update(self.handles.window, window);
            self.window = window;
        }
    }
}
