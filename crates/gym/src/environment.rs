//! One flow on one path, steered from outside.

use std::sync::Arc;
use std::time::Duration;

use fairwater_net::Time;
use fairwater_sim::{
    Controller, Edge, Experiment, FlowConfig, Measure, NodeId, PlaneConfig, Simulation, TcpConfig,
    Traffic,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use thiserror::Error;

use crate::collector::{self, Inbox};
use crate::{Observation, Path, Paths, PolicyAdapter, Reported, Reward, SettingsErrors};

/// What an environment is like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The paths that episodes are on.
    pub paths: Paths,
    /// What is wanted.
    pub reward: Reward,
    /// Steps of an episode, from 1 to 1,000,000.
    pub steps: u32,
    /// One way between the flow's datapath and the policy, µs, at most 1 s: an action comes into
    /// force twice that after the report that it answers.
    pub plane_delay_us: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            paths: Paths::default(),
            reward: Reward::default(),
            steps: 200,
            plane_delay_us: 50,
        }
    }
}

impl Settings {
    /// Finds everything that is wrong.
    ///
    /// # Errors
    /// Each value that is out of its range, with the range.
    pub fn check(&self) -> Result<(), SettingsErrors> {
        let mut errors = self.paths.errors();
        errors.extend(
            self.reward
                .check()
                .err()
                .map_or_else(Vec::new, |e| e.errors),
        );
        if !(1..=1_000_000).contains(&self.steps) {
            errors.push(format!(
                "an episode has {} steps: expected 1 to 1000000",
                self.steps
            ));
        }
        if self.plane_delay_us > 1_000_000 {
            errors.push(format!(
                "the way to the plane takes {} µs: expected at most 1000000",
                self.plane_delay_us
            ));
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(SettingsErrors { errors })
        }
    }
}

/// An action that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the action of environment {0} is not a number")]
pub struct ActionError(pub usize);

/// What a step led to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// What the policy observes now.
    pub observation: Observation,
    /// By [`Reward`].
    pub reward: f64,
    /// The flow reported nothing for 10 s of its time: the episode ends here.
    pub terminated: bool,
    /// The episode has had its steps.
    pub truncated: bool,
}

/// The last step in units, for people.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StepMetrics {
    /// Time since the episode began, µs.
    pub time_us: u64,
    /// Payload delivered in the step, bit/s.
    pub throughput_bps: f64,
    /// Mean RTT of the step, µs.
    pub rtt_us: f64,
    /// Share of packets lost in the step.
    pub loss: f64,
    /// cwnd at the end of the step, before the next action, bytes.
    pub cwnd: u64,
}

/// Time without a report after which a flow counts as lost.
const REPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// One environment. The same seed and actions give the same episode.
#[derive(Debug)]
pub struct Environment {
    settings: Settings,
    rng: ChaCha8Rng,
    episode: Option<Episode>,
}

#[derive(Debug)]
struct Episode {
    path: Path,
    simulation: Simulation<Arc<Experiment>>,
    inbox: Inbox,
    adapter: PolicyAdapter,
    observation: Observation,
    metrics: StepMetrics,
    steps: u32,
}

impl Environment {
    /// Before its first episode.
    ///
    /// # Errors
    /// Everything that is wrong with the settings.
    pub fn new(settings: Settings, seed: u64) -> Result<Self, SettingsErrors> {
        settings.check()?;
        Ok(Self {
            settings,
            rng: ChaCha8Rng::seed_from_u64(seed),
            episode: None,
        })
    }

    /// Begins an episode on a path drawn from the seed; without a seed, on the next path of the
    /// seed before. Returns the first observation: of the flow's first report, under its initial
    /// window.
    pub fn reset(&mut self, seed: Option<u64>) -> Observation {
        if let Some(seed) = seed {
            self.rng = ChaCha8Rng::seed_from_u64(seed);
        }
        let path = self.settings.paths.draw(&mut self.rng);
        let seed = self.rng.next_u64();
        self.episode = Episode::begin(&self.settings, path, seed);
        self.episode
            .as_ref()
            .map_or_else(Observation::default, |episode| episode.observation)
    }

    /// Sets cwnd by the action (see [`PolicyAdapter::apply`]), and goes on to the flow's next report.
    /// Before the first reset, and after the end of an episode, it resets first.
    ///
    /// # Errors
    /// [`ActionError`] for an action that is not a number; nothing happens then.
    pub fn step(&mut self, action: f32) -> Result<Step, ActionError> {
        if action.is_nan() {
            return Err(ActionError(0));
        }
        if self
            .episode
            .as_ref()
            .is_none_or(|e| e.steps >= self.settings.steps)
        {
            self.reset(None);
        }
        Ok(match &mut self.episode {
            Some(episode) => episode.step(action, &self.settings),
            None => Step {
                observation: Observation::default(),
                reward: 0.0,
                terminated: true,
                truncated: false,
            },
        })
    }

    /// The path of the episode, once there is one.
    #[must_use]
    pub fn path(&self) -> Option<Path> {
        self.episode.as_ref().map(|episode| episode.path)
    }

    /// The last step in units.
    #[must_use]
    pub fn metrics(&self) -> StepMetrics {
        self.episode
            .as_ref()
            .map_or_else(StepMetrics::default, |episode| episode.metrics)
    }

    /// What it is like.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

impl Episode {
    /// There is one whenever the settings are right, as they were checked to be.
    fn begin(settings: &Settings, path: Path, seed: u64) -> Option<Self> {
        let inbox = Inbox::default();
        let plane = collector::plane(&inbox).ok()?;
        let config = Arc::new(config(settings, &path, seed));
        let mss = config.flows[0].tcp.mss;
        let mut episode = Self {
            path,
            simulation: Simulation::new(config, plane, ()).ok()?,
            inbox,
            adapter: PolicyAdapter::new(mss),
            observation: Observation::default(),
            metrics: StepMetrics::default(),
            steps: 0,
        };
        if let Some(report) = episode.next_report() {
            episode.take_in(&report);
        }
        Some(episode)
    }

    fn step(&mut self, action: f32, settings: &Settings) -> Step {
        let cwnd = self.adapter.apply(action);
        // A flow that has reported has a connection, which the plane controls until the end.
        let _ = self.simulation.command(0, Some(cwnd), None);
        self.steps += 1;
        let report = self.next_report();
        let reward = match &report {
            Some(report) => {
                self.take_in(report);
                self.reward(&settings.reward)
            }
            None => settings.reward.of(0.0, 0.0, 1.0),
        };
        if report.is_none() {
            self.steps = settings.steps;
        }
        Step {
            observation: self.observation,
            reward,
            terminated: report.is_none(),
            truncated: report.is_some() && self.steps >= settings.steps,
        }
    }

    /// Goes on to the flow's next report.
    fn next_report(&mut self) -> Option<Reported> {
        let limit = self.simulation.now() + REPORT_TIMEOUT;
        while !self.inbox.is_full() {
            // Nobody looks on who could stop it.
            if !self.simulation.step(limit).unwrap_or(false) {
                return None;
            }
        }
        self.inbox.take()
    }

    #[expect(clippy::cast_precision_loss, reason = "metrics are rough")]
    fn take_in(&mut self, report: &Reported) {
        self.observation = self.adapter.observe(report);
        let elapsed = report.elapsed.max(1) as f64;
        let delivered = report.delivered as f64;
        let lost = report.lost as f64 * MSS;
        self.metrics = StepMetrics {
            time_us: report.time_us,
            throughput_bps: delivered * 8e6 / elapsed,
            rtt_us: self.adapter.mean_rtt_us(),
            loss: if lost > 0.0 {
                lost / (lost + delivered)
            } else {
                0.0
            },
            cwnd: report.cwnd,
        };
    }

    #[expect(clippy::cast_precision_loss, reason = "a reward is rough")]
    fn reward(&self, reward: &Reward) -> f64 {
        let payload_bps = self.path.rate_bps as f64 * MSS / (MSS + HEADERS);
        let base = self.path.base_rtt_us();
        reward.of(
            self.metrics.throughput_bps / payload_bps,
            (self.metrics.rtt_us - base) / base,
            self.metrics.loss,
        )
    }
}

/// Bytes of a segment's payload, and of the headers before it.
const MSS: f64 = 1448.0;
const HEADERS: f64 = 52.0;

fn config(settings: &Settings, path: &Path, seed: u64) -> Experiment {
    let (there, back) = path.links();
    let edge = |name: &str, from, to, link| Edge {
        name: name.to_owned(),
        from: NodeId(from),
        to: NodeId(to),
        link,
    };
    Experiment {
        seed,
        // Longer than any episode.
        duration: Duration::from_secs(1 << 32),
        nodes: 2,
        edges: vec![edge("there", 0, 1, there), edge("back", 1, 0, back)],
        flows: vec![FlowConfig {
            name: "flow".to_owned(),
            from: NodeId(0),
            to: NodeId(1),
            path: fairwater_sim::Path::Shortest,
            controller: Controller::Plane(collector::NAME.to_owned()),
            traffic: Traffic::Bulk,
            start: Time::ZERO,
            start_jitter: Duration::ZERO,
            stop: None,
            priority: 0,
            tag: 0,
            bundle: None,
            edge: None,
            tcp: TcpConfig {
                // As Linux does for a flow that has a cwnd alone.
                pace: true,
                ..TcpConfig::default()
            },
        }],
        bundles: Vec::new(),
        plane: PlaneConfig {
            delay: Duration::from_micros(settings.plane_delay_us),
            ..PlaneConfig::default()
        },
        measure: Measure::default(),
    }
}
