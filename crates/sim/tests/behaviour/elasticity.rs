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

#[test]
#[ignore]
fn play() {
    let cases = [
        (
            "bulk, cubic 10-40",
            Case::new(60).cross(Traffic::Bulk, 1, 10, 40),
        ),
        (
            "bulk, 4 cubic 10-40",
            Case::new(60).cross(Traffic::Bulk, 4, 10, 40),
        ),
        ("bulk, cbr", Case::new(30).cross(constant(32.0), 1, 5, 30)),
        (
            "bulk, requests 42",
            Case::new(60).cross(requests(42.0), 1, 5, 60),
        ),
        (
            "req48, requests 42",
            Case {
                bundles: vec![(requests(48.0), 1)],
                ..Case::new(60)
            }
            .cross(requests(42.0), 1, 5, 60),
        ),
        (
            "req48, cubic",
            Case {
                bundles: vec![(requests(48.0), 1)],
                ..Case::new(60)
            }
            .cross(Traffic::Bulk, 1, 10, 40),
        ),
        (
            "req80, cubic",
            Case {
                bundles: vec![(requests(80.0), 1)],
                ..Case::new(60)
            }
            .cross(Traffic::Bulk, 1, 10, 40),
        ),
        (
            "20 bulk, 10 cubic",
            Case {
                bundles: vec![(Traffic::Bulk, 20)],
                ..Case::new(40)
            }
            .cross(Traffic::Bulk, 10, 0, 40),
        ),
        (
            "20 bulk, 50 cubic",
            Case {
                bundles: vec![(Traffic::Bulk, 20)],
                ..Case::new(40)
            }
            .cross(Traffic::Bulk, 50, 0, 40),
        ),
    ];
    let only = std::env::var("ONLY").unwrap_or_default();
    for (name, case) in cases {
        if !name.contains(&only) {
            continue;
        }
        let outcome = case.run();
        let quo = Case {
            algorithm: None,
            ..case.clone()
        }
        .run();
        let end = case.seconds;
        println!(
            "{name}: pass {:.2} {:.2} {:.2}; throughput {:.1} (quo {:.1})",
            passing(&outcome, 0, (1, 10)),
            passing(&outcome, 0, (10, 40)),
            passing(&outcome, 0, (40, end)),
            throughput(&outcome, 0, (10, end.min(40))),
            throughput(&quo, 0, (10, end.min(40)))
        );
        print!("{}", changes(&outcome));
    }
}

#[test]
#[ignore]
fn twelve() {
    let mut sum = 0.0;
    for cross in [10, 30, 50] {
        let (mut with, mut without, mut pass) = (0.0, 0.0, 0.0);
        for seed in 1..=2 {
            let case = Case {
                bundles: vec![(Traffic::Bulk, 20)],
                seed,
                ..Case::new(60)
            }
            .cross(Traffic::Bulk, cross, 0, 60);
            let outcome = case.run();
            with += throughput(&outcome, 0, (20, 60));
            pass += passing(&outcome, 0, (20, 60)) / 2.0;
            without += throughput(
                &Case {
                    algorithm: None,
                    ..case
                }
                .run(),
                0,
                (20, 60),
            );
        }
        sum += with / without / 3.0;
        println!("{cross}: {:.3} pass {pass:.2}", with / without);
    }
    println!("mean {sum:.3}");
}
