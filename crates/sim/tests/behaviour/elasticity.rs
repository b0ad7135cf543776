//! Buffer-filling cross traffic beside a bundle: how a sendbox detects it, and what the bundle gets (Bundler §5.1,
//! §7.3).

use std::sync::Arc;
use std::time::Duration;

use fairwater_net::{Limit, QueueConfig, SfqConfig, Time};
use fairwater_sim::{
    BundleConfig, BundleMode, Controller, EdgeId, Experiment, Native, Outcome, SizeCdf, Traffic,
    run,
};

use crate::support::{BOTTLENECK, Dumbbell, plane, rate};

/// Algorithms, and how the plane hosts them.
const SPECS: [&str; 4] = [
    "copa:mode=default",
    "basicdelay",
    "bbr:probe_rtt=false",
    "nimbus:headers=0",
];

/// Sizes of requests as of an Internet router (Bundler §7.1), up to a few MB.
fn sizes() -> Arc<SizeCdf> {
    Arc::new(SizeCdf {
        points: vec![
            (1.0, 0.000_001),
            (1e4, 0.976),
            (1e5, 0.995),
            (1e6, 0.999),
            (5e6, 1.0),
        ],
    })
}

fn requests(mbit: f64) -> Traffic {
    Traffic::Pool {
        sizes: sizes(),
        load: mbit * 1e6 / 8.0,
        connections: 200,
    }
}

/// A constant rate, Mbit/s.
fn constant(mbit: f64) -> Traffic {
    Traffic::ConstantRate {
        rate: (mbit * 1e6 / 8.0) as u64,
        packet_bytes: 1_500,
    }
}

/// A bundle beside cross traffic at a bottleneck.
#[derive(Debug, Clone)]
struct Case {
    mbit: u64,
    rtt_ms: u64,
    /// The buffer, bandwidth-delay products.
    buffer: f64,
    seconds: u64,
    seed: u64,
    /// `None` is the status quo: no boxes.
    algorithm: Option<&'static str>,
    detect: bool,
    /// What the bundle's flows send, how many of them, by bundle.
    bundles: Vec<(Traffic, u32)>,
    /// Cross traffic: what, how many, from when to when, s.
    cross: Vec<(Traffic, u32, u64, u64)>,
}

impl Case {
    fn new(seconds: u64) -> Self {
        Self {
            mbit: 96,
            rtt_ms: 50,
            buffer: 2.0,
            seconds,
            seed: 1,
            algorithm: Some("copa"),
            detect: true,
            bundles: vec![(Traffic::Bulk, 4)],
            cross: Vec::new(),
        }
    }

    fn cross(mut self, traffic: Traffic, count: u32, from: u64, until: u64) -> Self {
        self.cross.push((traffic, count, from, until));
        self
    }

    fn config(&self) -> Experiment {
        let mut network = Dumbbell::new(self.mbit, self.rtt_ms, self.seconds as f64);
        let bdp = rate(self.mbit).bytes_in(Duration::from_millis(self.rtt_ms));
        network.limit = Limit::Bytes((bdp as f64 * self.buffer) as u64);
        let controller = Controller::Native(Native::Cubic);
        let mut add = |traffic: &Traffic, count, bundle: Option<usize>, (from, until)| {
            for _ in 0..count {
                network = network.clone().flow(controller.clone(), traffic.clone());
                let Some(flow) = network.flows.last_mut() else {
                    continue;
                };
                flow.bundle = bundle.map(|index| format!("site {index}"));
                flow.start = Time::from_millis(1_000 * from);
                flow.start_jitter = Duration::from_millis(200);
                flow.stop = (until < self.seconds).then(|| Time::from_millis(1_000 * until));
            }
        };
        for (index, (traffic, count)) in self.bundles.iter().enumerate() {
            add(traffic, *count, Some(index), (0, self.seconds));
        }
        for (traffic, count, from, until) in &self.cross {
            add(traffic, *count, None, (*from, *until));
        }
        let mut config = network.config(self.seed);
        config.measure.interval = Some(Duration::from_millis(100));
        for index in 0..self.bundles.len() {
            config
                .bundles
                .extend(self.algorithm.map(|algorithm| BundleConfig {
                    name: format!("site {index}"),
                    at: EdgeId(BOTTLENECK as u32),
                    algorithm: algorithm.to_owned(),
                    queue: QueueConfig::Sfq(SfqConfig {
                        limit: Limit::Bytes(4 * bdp),
                        ..SfqConfig::default()
                    }),
                    queue_time: Duration::from_millis(250),
                    observe: false,
                    detect: self.detect,
                }));
        }
        config
    }

    fn run(&self) -> Outcome {
        run(&self.config(), plane(&SPECS), &mut ()).unwrap()
    }
}

/// Share of the samples from `from` to `until`, s, in which the bundle was in pass-through.
fn passing(outcome: &Outcome, bundle: usize, (from, until): (u64, u64)) -> f64 {
    let samples = &outcome.sendboxes[bundle].samples;
    let samples = samples.iter().filter(|sample| {
        let ms = sample.at.as_nanos() / 1_000_000;
        ms > 1_000 * from && ms <= 1_000 * until
    });
    let (all, passing) = samples.fold((0_u32, 0_u32), |(all, passing), sample| {
        let is_passing = sample.mode == BundleMode::PassThrough;
        (all + 1, passing + u32::from(is_passing))
    });
    f64::from(passing) / f64::from(all.max(1))
}

/// Mbit/s of the bundle at the bottleneck from `from` to `until`, s.
fn throughput(outcome: &Outcome, bundle: usize, (from, until): (u64, u64)) -> f64 {
    let samples = &outcome.edges[BOTTLENECK].bundles[bundle].samples;
    let samples = samples.iter().filter(|sample| {
        let ms = sample.at.as_nanos() / 1_000_000;
        ms > 1_000 * from && ms <= 1_000 * until
    });
    let bytes: u64 = samples.map(|sample| sample.bytes).sum();
    bytes as f64 * 8e-6 / (until - from) as f64
}

fn changes(outcome: &Outcome) -> String {
    let all = outcome.sendboxes.iter().flat_map(|b| &b.changes);
    all.map(|(at, text)| format!("  {:.2} s {text}\n", at.as_nanos() as f64 / 1e9))
        .collect()
}

/// Median, mean and 99th percentile of the completion time, ms, of the first flow's requests that began from `from` to
/// `until`, s.
fn completion_ms(outcome: &Outcome, (from, until): (u64, u64)) -> [f64; 3] {
    let requests = outcome.flows[0].requests.iter();
    let within = requests.filter(|request| {
        (1_000 * from..1_000 * until).contains(&(request.start.as_nanos() / 1_000_000))
    });
    let mut took: Vec<f64> = within.map(|r| r.took.as_secs_f64() * 1e3).collect();
    took.sort_by(f64::total_cmp);
    let at = |part: f64| {
        let index = took.len().saturating_sub(1) as f64 * part;
        took.get(index as usize).copied().unwrap_or(0.0)
    };
    let mean = took.iter().sum::<f64>() / took.len().max(1) as f64;
    [at(0.5), mean, at(0.99)]
}

/// Figures 9 to 12 in short, each as `FAIRWATER_FIGURE` (9, 10, 10c with a constant rate, 11, or 12 with as many flows
/// as it says: 12-30): completion times, throughput, and share of the time in pass-through of `FAIRWATER_SEEDS` seeds
/// from `FAIRWATER_FIRST_SEED` on. `FAIRWATER_ALGORITHM` is one of the plane's, `none` for the status quo, or `sfq` for
/// fair queueing in the network.
#[test]
#[ignore = "takes minutes"]
fn short_figures() {
    let told =
        |name: &str, otherwise: &str| std::env::var(name).unwrap_or_else(|_| otherwise.to_owned());
    let number = |name, otherwise| told(name, otherwise).parse::<u64>().unwrap();
    let figure = told("FAIRWATER_FIGURE", "11");
    let asked = told("FAIRWATER_ALGORITHM", "copa");
    let algorithm = SPECS
        .iter()
        .map(|spec| spec.split(':').next().unwrap())
        .find(|name| *name == asked);
    let first = number("FAIRWATER_FIRST_SEED", "1");
    for seed in first..first + number("FAIRWATER_SEEDS", "1") {
        let case = Case {
            bundles: vec![(requests(48.0), 1)],
            seed,
            algorithm,
            ..Case::new(60)
        };
        let (case, parts) = match figure.as_str() {
            "9" => {
                let case = Case {
                    bundles: vec![(requests(84.0), 1)],
                    buffer: 3.0,
                    ..case
                };
                (case, vec![(0, 50)])
            }
            "10" | "10c" => {
                let third = if figure == "10" {
                    requests(32.0)
                } else {
                    constant(32.0)
                };
                let case = case.cross(Traffic::Bulk, 1, 10, 30).cross(third, 1, 30, 60);
                (case, vec![(0, 10), (13, 30), (37, 58)])
            }
            "11" => (case.cross(requests(30.0), 1, 0, 60), vec![(0, 58)]),
            flows => {
                let case = Case {
                    bundles: vec![(Traffic::Bulk, 20)],
                    ..case
                };
                let count = flows.trim_start_matches("12-").parse().unwrap();
                (case.cross(Traffic::Bulk, count, 0, 60), vec![(20, 60)])
            }
        };
        let mut config = case.config();
        if asked == "sfq" {
            config.edges[BOTTLENECK].link.queue = QueueConfig::Sfq(SfqConfig {
                limit: Limit::Bytes((1.8e6) as u64),
                ..SfqConfig::default()
            });
        }
        let outcome = run(&config, plane(&SPECS), &mut ()).unwrap();
        print!("{}", changes(&outcome));
        for part in parts {
            let passing = algorithm.map_or(0.0, |_| passing(&outcome, 0, part));
            let [median, mean, tail] = completion_ms(&outcome, part);
            let mbit = throughput(&outcome, 0, part);
            println!(
                "figure {figure} {asked} seed {seed} {part:?}: median {median:.1} ms, mean {mean:.1}, p99 {tail:.0}; \
                 {mbit:.1} Mbit/s; passing {passing:.3}"
            );
        }
    }
}

/// Boxes of two sites probe together: each alone would take the other's end hosts for elastic for ever.
#[test]
fn bundles_of_two_boxes_return_together() {
    let case = Case {
        bundles: vec![(Traffic::Bulk, 4), (Traffic::Bulk, 4)],
        seed: 101,
        ..Case::new(36)
    };
    let outcome = case.cross(Traffic::Bulk, 4, 4, 18).run();
    let changes = changes(&outcome);
    println!("{changes}");
    for bundle in 0..2 {
        assert!(passing(&outcome, bundle, (10, 18)) > 0.5, "{changes}");
        assert_eq!(passing(&outcome, bundle, (26, 36)), 0.0, "{changes}");
    }
}

/// Boundaries that are lost are no sign of a path that changes packets.
#[test]
fn losses_of_half_of_the_packets_release_no_bundle() {
    let case = Case {
        mbit: 12,
        bundles: vec![(Traffic::Bulk, 20)],
        seed: 101,
        ..Case::new(10)
    };
    let outcome = case.run();
    let changes = changes(&outcome);
    assert!(!changes.contains("released"), "{changes}");
}

/// The figures 5 and 6 of Bundler: how far the estimates of rate and RTT are from the truth at the bottleneck, over
/// three round trips, three rates and `FAIRWATER_SEEDS` seeds (ten: 90 traces).
///
/// What an estimate tells left the bottleneck a round trip ago, so it is compared with the interval before.
#[test]
#[ignore = "takes minutes"]
fn estimates() {
    let seeds = std::env::var("FAIRWATER_SEEDS").map_or(10, |n| n.parse().unwrap());
    let mut all: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    for (mbit, rtt_ms) in [24, 48, 96]
        .into_iter()
        .flat_map(|mbit| [20, 50, 100].map(|rtt| (mbit, rtt)))
    {
        let mut off: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
        for seed in 1..=seeds {
            let case = Case {
                mbit,
                rtt_ms,
                bundles: vec![(requests(0.875 * mbit as f64), 1)],
                seed,
                ..Case::new(20)
            };
            let mut config = case.config();
            config.measure.interval = Some(Duration::from_millis(rtt_ms));
            let outcome = run(&config, plane(&SPECS), &mut ()).unwrap();
            let truth = &outcome.edges[BOTTLENECK].bundles[0].samples;
            let seconds = rtt_ms as f64 / 1e3;
            let transmission = 12e3 / (mbit as f64 * 1e6);
            for (told, truth) in outcome.sendboxes[0].samples.iter().skip(1).zip(truth) {
                let (Some(rate), Some(rtt), Some(queueing_us)) =
                    (told.receive_rate, told.rtt, truth.queueing_us)
                else {
                    continue;
                };
                let rate_off = rate * 8e-6 - truth.bytes as f64 * 8e-6 / seconds;
                let true_rtt = seconds + transmission + queueing_us / 1e6;
                off[0].push(rate_off.abs());
                off[1].push((rtt.as_secs_f64() - true_rtt).abs() * 1e3);
            }
        }
        for (all, off) in all.iter_mut().zip(&off) {
            all.extend(off);
        }
        println!("{mbit} Mbit/s, {rtt_ms} ms: {}", within(&mut off));
    }
    println!("all: {}", within(&mut all));
}

/// Of how far rates, Mbit/s, and RTTs, ms, are off.
fn within(off: &mut [Vec<f64>; 2]) -> String {
    let [rate, rtt] = off;
    for values in [&mut *rate, &mut *rtt] {
        values.sort_by(f64::total_cmp);
    }
    let share = |of: &[f64], most: f64| {
        100.0 * of.partition_point(|v| *v <= most) as f64 / of.len().max(1) as f64
    };
    let at = |of: &[f64], part: f64| of[((of.len() - 1) as f64 * part) as usize];
    format!(
        "rate within 2 Mbit/s {:.1} %, within 4 {:.1} %, 80 % within {:.2}; RTT within 1 ms {:.1} %, within 1.2 {:.1} %, \
         80 % within {:.2}; {} samples",
        share(rate, 2.0),
        share(rate, 4.0),
        at(rate, 0.8),
        share(rtt, 1.0),
        share(rtt, 1.2),
        at(rtt, 0.8),
        rate.len()
    )
}

/// Figure 10 in short: nothing, a backlogged flow, and a constant rate beside requests.
#[test]
fn a_bundle_lets_its_traffic_pass_while_a_backlogged_flow_competes() {
    for seed in 1..=2 {
        let case = Case {
            bundles: vec![(requests(48.0), 1)],
            seed,
            ..Case::new(36)
        };
        let case = case
            .cross(Traffic::Bulk, 1, 6, 20)
            .cross(constant(32.0), 1, 20, 36);
        let outcome = case.run();
        let changes = changes(&outcome);
        println!("seed {seed}:\n{changes}");
        assert_eq!(passing(&outcome, 0, (1, 6)), 0.0, "{changes}");
        assert!(passing(&outcome, 0, (13, 20)) >= 0.9, "{changes}");
        // Each change is a sentence with numbers.
        assert!(
            changes.contains("competes: the network's queue"),
            "{changes}"
        );
        assert_eq!(passing(&outcome, 0, (27, 36)), 0.0, "{changes}");
        assert!(
            changes.contains("any more: the network's queue was empty"),
            "{changes}"
        );
    }
}

/// Figure 11 in short: requests beside requests are no reason to let the traffic pass.
#[test]
fn requests_are_not_taken_for_elastic() {
    for seed in 1..=2 {
        let case = Case {
            bundles: vec![(requests(48.0), 1)],
            seed,
            ..Case::new(20)
        };
        let outcome = case.cross(requests(30.0), 1, 0, 20).run();
        let share = passing(&outcome, 0, (0, 20));
        println!("seed {seed}: {share:.3}\n{}", changes(&outcome));
        assert!(share <= 0.05, "{share}");
    }
}

/// Figure 12 in short: beside as many backlogged flows the bundle keeps its share. Without the detector it starves.
#[test]
fn a_bundle_keeps_its_share_beside_backlogged_flows() {
    let case = Case {
        bundles: vec![(Traffic::Bulk, 20)],
        ..Case::new(30)
    };
    let case = case.cross(Traffic::Bulk, 20, 0, 30);
    let share_of = |case: &Case| {
        let outcome = case.run();
        (throughput(&outcome, 0, (8, 30)), outcome)
    };
    let (with, outcome) = share_of(&case);
    let (without, _) = share_of(&Case {
        algorithm: None,
        ..case.clone()
    });
    let (deaf, _) = share_of(&Case {
        detect: false,
        ..case
    });
    println!("{with:.1} Mbit/s, status quo {without:.1}, without the detector {deaf:.1}");
    assert!(
        passing(&outcome, 0, (8, 30)) >= 0.95,
        "{}",
        changes(&outcome)
    );
    assert!(with >= 0.8 * without);
    assert!(deaf < 0.5 * without);
}

/// Shares of the time from 10 s to 40 s in which the detector is right, over a grid: the table of
/// `docs/bundle-detection.md`.
#[test]
#[ignore = "takes minutes"]
fn grid() {
    let algorithm = std::env::var("FAIRWATER_ALGORITHM").unwrap_or_else(|_| "copa".to_owned());
    let algorithm = SPECS
        .iter()
        .map(|spec| spec.split(':').next().unwrap())
        .find(|name| *name == algorithm)
        .unwrap();
    for (name, is_elastic, count, traffic) in [
        ("one Cubic", true, 1, None),
        ("four Cubic", true, 4, None),
        ("constant, 25 %", false, 1, Some((0.25, 0))),
        ("constant, 50 %", false, 1, Some((0.5, 0))),
        ("pool, 25 %", false, 1, Some((0.25, 1))),
        ("pool, 50 %", false, 1, Some((0.5, 1))),
        ("handshakes, 50 %", false, 1, Some((0.5, 2))),
    ] {
        let mut row = format!("| {algorithm}: {name} |");
        for (mbit, rtt_ms) in [(24, 20), (24, 50), (24, 100), (96, 20), (96, 50), (96, 100)] {
            let traffic = match traffic {
                None => Traffic::Bulk,
                Some((share, 0)) => constant(share * mbit as f64),
                Some((share, 1)) => requests(share * mbit as f64),
                Some((share, _)) => Traffic::Requests {
                    sizes: sizes(),
                    load: share * mbit as f64 * 1e6 / 8.0,
                },
            };
            let case = Case {
                mbit,
                rtt_ms,
                algorithm: Some(algorithm),
                ..Case::new(40)
            };
            let outcome = case.cross(traffic, count, 5, 40).run();
            let passing = passing(&outcome, 0, (10, 40));
            let right = if is_elastic { passing } else { 1.0 - passing };
            row += &format!(" {:.0} |", right * 100.0);
        }
        println!("{row}");
    }
}
