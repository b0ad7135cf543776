//! Nimbus: Goyal et al., "Elasticity detection"; CCP §6.1; Bundler §4.3.

mod detection;
mod found;

use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::{env, thread};

use fairwater_algorithms::{
    Nimbus, NimbusCompetitive, NimbusConfig, NimbusConfirm, NimbusDelay, NimbusFlow,
};
use fairwater_net::{Limit, Time};
use fairwater_plane::{Algorithm, Control, Flow, FlowInfo, Plane, Report};
use fairwater_sim::{Controller, Experiment, Native, Outcome, SizeCdf, Traffic, run};

use crate::support::figure::{Figure, Panel};
use crate::support::{BOTTLENECK, Dumbbell, INTERVAL, series};

/// What a flow of Nimbus's held to be true, and when.
#[derive(Debug, Clone, Copy)]
struct Belief {
    at_s: f64,
    competitive: bool,
    elasticity: Option<f64>,
}

type Beliefs = Arc<Mutex<Vec<Belief>>>;

/// Nimbus, with somebody who writes down what it believes.
struct Watched {
    nimbus: Nimbus,
    beliefs: Beliefs,
}

struct WatchedFlow {
    flow: NimbusFlow,
    beliefs: Beliefs,
}

impl Algorithm for Watched {
    fn name(&self) -> &str {
        "nimbus"
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
        Box::new(WatchedFlow {
            flow: self.nimbus.flow(info, control),
            beliefs: Arc::clone(&self.beliefs),
        })
    }

    fn idle_restart(&self) -> bool {
        self.nimbus.idle_restart()
    }

    fn needs_rate(&self) -> bool {
        self.nimbus.needs_rate()
    }
}

impl Flow for WatchedFlow {
    fn on_report(&mut self, report: &Report, control: &mut Control) {
        self.flow.on_report(report, control);
        self.beliefs.lock().unwrap().push(Belief {
            at_s: report.time_us() as f64 / 1e6,
            competitive: self.flow.is_competitive(),
            elasticity: self.flow.elasticity(),
        });
    }
}

/// Runs with Nimbus so configured in the plane.
fn watched(config: &Experiment, nimbus: NimbusConfig) -> (Outcome, Vec<Belief>) {
    let beliefs = Beliefs::default();
    let mut plane = Plane::new();
    plane
        .add(|programs| {
            Ok(Watched {
                nimbus: Nimbus::new(programs, nimbus)?,
                beliefs: Arc::clone(&beliefs),
            })
        })
        .unwrap();
    let outcome = run(config, plane, &mut ()).unwrap();
    let beliefs = beliefs.lock().unwrap().clone();
    (outcome, beliefs)
}

/// What shares the link with one flow of Nimbus's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cross {
    CubicBulk,
    RenoBulk,
    /// A bulk flow beside as much again at a constant rate.
    Mixed,
    ConstantRate,
    PoissonRequests,
    /// Requests whose handshakes pass the bottleneck.
    Handshakes,
    LimitedByApplication,
}

impl Cross {
    const ALL: [Self; 6] = [
        Self::CubicBulk,
        Self::RenoBulk,
        Self::Mixed,
        Self::ConstantRate,
        Self::PoissonRequests,
        Self::LimitedByApplication,
    ];

    fn is_elastic(self) -> bool {
        matches!(self, Self::CubicBulk | Self::RenoBulk | Self::Mixed)
    }

    /// The shares of the link that it is to have, in percent. Bulk flows have what is fair beside
    /// Nimbus: one a half, two two thirds, three three quarters.
    fn shares(self) -> &'static [u64] {
        match self {
            Self::CubicBulk | Self::RenoBulk => &[50, 66, 75],
            Self::Mixed => &[50],
            _ => &[25, 50, 75],
        }
    }

    fn join(self, mut network: Dumbbell, mbit: u64, percent: u64) -> Dumbbell {
        let rate = |percent: u64| mbit * 1_000_000 / 8 * percent / 100;
        let constant = |network: Dumbbell, percent| {
            network.flow(
                Controller::Native(Native::Constant(1 << 24)),
                Traffic::Limited {
                    rate: rate(percent),
                },
            )
        };
        match self {
            Self::CubicBulk | Self::RenoBulk => {
                let native = match self {
                    Self::CubicBulk => Native::Cubic,
                    _ => Native::Reno,
                };
                for _ in 1..(100.0 / (100 - percent) as f64).round() as u64 {
                    network = network.native(native);
                }
                network
            }
            Self::Mixed => constant(network.native(Native::Cubic), percent / 2),
            Self::ConstantRate => constant(network, percent),
            Self::PoissonRequests | Self::Handshakes => {
                // All within the initial window.
                let points = vec![(3_000.0, 0.0), (14_000.0, 1.0)];
                let mut network = network.flow(
                    Controller::Native(Native::Cubic),
                    Traffic::Requests {
                        sizes: Arc::new(SizeCdf { points }),
                        load: rate(percent) as f64,
                    },
                );
                // A handshake through the queue makes the data answer to the pulses.
                if self == Self::PoissonRequests
                    && let Some(requests) = network.flows.last_mut()
                {
                    requests.tcp.handshake = false;
                }
                network
            }
            Self::LimitedByApplication => network.flow(
                Controller::Native(Native::Cubic),
                Traffic::Limited {
                    rate: rate(percent),
                },
            ),
        }
    }
}

/// One point of the grid.
#[derive(Debug, Clone, Copy)]
struct Case {
    cross: Cross,
    percent: u64,
    mbit: u64,
    rtt_ms: u64,
    seed: u64,
    /// Whether Nimbus is told the capacity.
    told: bool,
}

const SECONDS: f64 = 40.0;
/// 5 s for the spectrum, after slow start.
const WARM_S: f64 = 10.0;

impl Case {
    /// The share of the time, from 10 s to 40 s, in which Nimbus was right.
    fn accuracy(&self) -> f64 {
        let mut network = Dumbbell::new(self.mbit, self.rtt_ms, SECONDS).plane("nimbus");
        network = self.cross.join(network, self.mbit, self.percent);
        network.limit = Limit::Bytes(self.mbit * 1_000_000 / 8 / 10);
        let mut config = network.config(self.seed);
        for (index, flow) in config.flows.iter_mut().enumerate() {
            let phase = self.seed * 7_919 + index as u64 * 104_729;
            flow.start = Time::from_millis(phase % 1_000);
        }
        let nimbus = NimbusConfig {
            capacity: self.told.then_some(self.mbit * 1_000_000 / 8),
            confirm: NimbusConfirm::Always,
            ..NimbusConfig::default()
        };
        let (outcome, beliefs) = watched(&config, nimbus);
        assert_eq!(outcome.fallbacks, 0);
        let late: Vec<_> = beliefs.iter().filter(|b| b.at_s >= WARM_S).collect();
        let right = late
            .iter()
            .filter(|b| b.competitive == self.cross.is_elastic());
        right.count() as f64 / late.len() as f64
    }
}

/// What comes of the cases, as many at a time as there are processors.
fn at_once<C: Sync, R: Send>(cases: &[C], of: impl Fn(&C) -> R + Sync) -> Vec<R> {
    let next = Mutex::new(0..cases.len());
    let found = Mutex::new(Vec::new());
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let Some(index) = next.lock().unwrap().next() else {
                        break;
                    };
                    let result = of(&cases[index]);
                    found.lock().unwrap().push((index, result));
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap();
    found.sort_by_key(|(index, _)| *index);
    found.into_iter().map(|(_, result)| result).collect()
}

fn grid(links: &[(u64, u64)], seeds: std::ops::RangeInclusive<u64>) -> Vec<Case> {
    let mut cases = Vec::new();
    for cross in Cross::ALL {
        for &percent in cross.shares() {
            for &(mbit, rtt_ms) in links {
                for seed in seeds.clone() {
                    cases.push(Case {
                        cross,
                        percent,
                        mbit,
                        rtt_ms,
                        seed,
                        told: true,
                    });
                }
            }
        }
    }
    cases
}

fn mean(of: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = of.fold((0.0, 0.0), |(s, n), x| (s + x, n + 1.0));
    sum / count
}

/// Elastic and inelastic cross traffic are told apart at least 95 % of the time. Mixed traffic is
/// measured as well, of which nothing is claimed. The whole grid, whose table is in
/// docs/algorithms/nimbus.md, with `FAIRWATER_WHOLE_GRID=1`.
#[test]
fn elastic_and_inelastic_cross_traffic_are_told_apart() {
    let whole = env::var_os("FAIRWATER_WHOLE_GRID").is_some_and(|v| v == "1");
    let links: Vec<_> = if whole {
        let rates = [24, 48, 96].into_iter();
        rates
            .flat_map(|mbit| [20, 50, 100].map(|rtt_ms| (mbit, rtt_ms)))
            .collect()
    } else {
        vec![(24, 40)]
    };
    let cases = grid(&links, if whole { 1..=3 } else { 1..=1 });
    let accuracies = at_once(&cases, Case::accuracy);
    let of = |choose: &dyn Fn(&Case) -> bool| {
        let chosen = cases.iter().zip(&accuracies);
        100.0 * mean(chosen.filter(|(c, _)| choose(c)).map(|(_, a)| *a))
    };
    let mut table = String::from("| cross traffic |");
    for (mbit, rtt_ms) in &links {
        write!(table, " {mbit} Mbit/s, {rtt_ms} ms |").unwrap();
    }
    table.push('\n');
    for cross in Cross::ALL {
        for &percent in cross.shares() {
            write!(table, "| {cross:?}, {percent} % |").unwrap();
            for &link in &links {
                let accuracy =
                    of(&|c| (c.cross, c.percent) == (cross, percent) && (c.mbit, c.rtt_ms) == link);
                write!(table, " {accuracy:.1} |").unwrap();
            }
            table.push('\n');
        }
    }
    let elastic = of(&|c| c.cross.is_elastic() && c.cross != Cross::Mixed);
    let inelastic = of(&|c| !c.cross.is_elastic());
    writeln!(table, "elastic {elastic:.1} %, inelastic {inelastic:.1} %").unwrap();
    println!("{table}");
    assert!(elastic >= 95.0 && inelastic >= 95.0, "{table}");
}

/// Nimbus for 90 s, CUBIC from 20 s to 60 s.
fn visited(mbit: u64, rtt_ms: u64, nimbus: NimbusConfig) -> (Outcome, Vec<Belief>) {
    let mut network = Dumbbell::new(mbit, rtt_ms, 90.0)
        .plane("nimbus")
        .native(Native::Cubic);
    network.limit = Limit::Bytes(mbit * 1_000_000 / 8 / 10);
    let mut config = network.config(1);
    config.flows[1].start = Time::from_millis(20_000);
    config.flows[1].stop = Some(Time::from_millis(60_000));
    config.measure.interval = Some(INTERVAL);
    watched(&config, nimbus)
}

/// Delay control alone, a TCP beside CUBIC, and delay control again, whichever rules are inside
/// and whether μ is known or found.
#[test]
fn the_control_switches_with_the_cross_traffic() {
    for (mbit, rtt_ms, delay, competitive, known) in [
        (48, 40, NimbusDelay::Basic, NimbusCompetitive::Cubic, true),
        (24, 30, NimbusDelay::Basic, NimbusCompetitive::Reno, true),
        (48, 50, NimbusDelay::Copa, NimbusCompetitive::Cubic, true),
        (48, 40, NimbusDelay::Basic, NimbusCompetitive::Cubic, false),
    ] {
        let nimbus = NimbusConfig {
            capacity: known.then_some(mbit * 1_000_000 / 8),
            delay,
            competitive,
            ..NimbusConfig::default()
        };
        let (outcome, beliefs) = visited(mbit, rtt_ms, nimbus);
        let what = format!("{mbit} Mbit/s, {rtt_ms} ms, {nimbus:?}");
        let competes = |from: f64, to: f64| {
            let within = beliefs.iter().filter(|b| (from..to).contains(&b.at_s));
            mean(within.map(|b| f64::from(u8::from(b.competitive))))
        };
        let waits = series::queueing(&outcome.edges[BOTTLENECK]);
        let waited = |from, to| series::mean(&series::between(&waits, from, to));
        let rates = series::throughput(&outcome.flows[0], 0.5);
        let had = |from, to| series::mean(&series::between(&rates, from, to)) / mbit as f64;
        let all = |of: &dyn Fn(f64, f64) -> f64| {
            [(8.0, 20.0), (28.0, 60.0), (75.0, 90.0)].map(|(from, to)| of(from, to))
        };
        println!(
            "{what}: competes {:.2?}, waits {:.1?} ms, has {:.2?}",
            all(&competes),
            all(&waited),
            all(&had)
        );
        assert!(competes(8.0, 20.0) < 0.05, "{what}");
        assert!(competes(28.0, 60.0) > 0.8, "{what}");
        assert!(competes(75.0, 90.0) < 0.05, "{what}");
        assert!(
            waited(8.0, 20.0) < 25.0 && waited(75.0, 90.0) < 25.0,
            "{what}"
        );
        assert!(had(8.0, 20.0) > 0.9 && had(75.0, 90.0) > 0.9, "{what}");
        assert!((0.15..0.75).contains(&had(28.0, 60.0)), "{what}");
    }
}

#[test]
fn the_figure_of_the_switch() {
    let nimbus = NimbusConfig {
        capacity: Some(6_000_000),
        ..NimbusConfig::default()
    };
    let (outcome, beliefs) = visited(48, 40, nimbus);
    let eta = beliefs.iter();
    let eta = eta.filter_map(|b| Some((b.at_s, b.elasticity?)));
    Figure::new(
        "nimbus",
        "Nimbus on 48 Mbit/s, 40 ms, a buffer of 100 ms; CUBIC from 20 s to 60 s",
    )
    .panel(
        Panel::new("throughput", "Mbit/s")
            .line("nimbus", series::throughput(&outcome.flows[0], 0.5))
            .line("CUBIC", series::throughput(&outcome.flows[1], 0.5)),
    )
    .panel(
        Panel::new("queueing delay", "ms")
            .line("the queue", series::queueing(&outcome.edges[BOTTLENECK])),
    )
    .panel(
        Panel::new("elasticity", "η")
            .line("η", eta.collect())
            .level("the threshold", 2.0)
            .up_to(12.0),
    )
    .check();
}
