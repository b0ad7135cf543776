//! Several flows of one algorithm at one bottleneck: how they share it, how long they make its queue,
//! and how much they lose. docs/algorithms/README.md has the table ("In company").

use std::time::Duration;

use fairwater_net::{Limit, Time};

use crate::support::{BOTTLENECK, Dumbbell, each_seed, jain, plane};

/// Flows at the bottleneck.
const SIZES: [u64; 5] = [1, 2, 3, 5, 12];
/// Mbit/s, RTT without queues in ms, and buffer in bandwidth-delay products.
const PATHS: [(u64, u64, u64); 2] = [(16, 40, 1), (12, 60, 2)];
/// Flows start this far apart, and up to half of it later.
const APART_MS: u64 = 500;

/// Which seconds count.
#[derive(Debug, Clone, Copy)]
struct Window {
    /// From the last flow's start.
    settling_s: u64,
    counted_s: u64,
}

/// What the test holds to bounds.
const EARLY: Window = Window {
    settling_s: 8,
    counted_s: 10,
};
/// What algorithms come to that are slow to share.
const LATE: Window = Window {
    settling_s: 40,
    counted_s: 60,
};

/// The worst of several runs with as many flows.
#[derive(Debug, Clone, Copy)]
struct Worst {
    jain: f64,
    /// The flow that has least, as a part of an even share.
    least: f64,
    /// The median queueing delay, as a part of what the buffer holds.
    queue: f64,
    /// Packets that the queue drops, of those that came to it.
    loss: f64,
    utilisation: f64,
}

impl Worst {
    fn of(self, other: Self) -> Self {
        Self {
            jain: self.jain.min(other.jain),
            least: self.least.min(other.least),
            queue: self.queue.max(other.queue),
            loss: self.loss.max(other.loss),
            utilisation: self.utilisation.min(other.utilisation),
        }
    }
}

fn measure(algorithm: &str, path: (u64, u64, u64), flows: u64, window: Window, seed: u64) -> Worst {
    let (mbit, rtt_ms, buffer) = path;
    let from = Time::from_millis((flows - 1) * APART_MS + window.settling_s * 1_000);
    let seconds = from.as_secs_f64() + window.counted_s as f64;
    let mut network = Dumbbell::new(mbit, rtt_ms, seconds);
    if let Limit::Bytes(bdp) = network.limit {
        network.limit = Limit::Bytes(buffer * bdp);
    }
    for _ in 0..flows {
        network = network.plane(algorithm);
    }
    let mut config = network.config(seed);
    config.measure.from = from;
    for (flow, index) in config.flows.iter_mut().zip(0..) {
        flow.start = Time::from_millis(APART_MS * index);
        flow.start_jitter = Duration::from_millis(APART_MS / 2);
    }
    let outcome = fairwater_sim::run(&config, plane(&[algorithm]), &mut ()).unwrap();
    let edge = &outcome.edges[BOTTLENECK];
    let bytes = outcome.flows.iter().map(|f| f.delivered_bytes as f64);
    let even = bytes.clone().sum::<f64>() / flows as f64;
    let buffer_us = (buffer * rtt_ms * 1_000) as f64;
    Worst {
        jain: jain(&outcome),
        least: bytes.fold(f64::MAX, f64::min) / even,
        queue: edge.queueing_us.unwrap_or_default().p50 / buffer_us,
        loss: edge.dropped as f64 / edge.offered.max(1) as f64,
        utilisation: edge.utilisation,
    }
}

/// For each of [`SIZES`], the worst of all paths and seeds. One flow has nobody to be out of step
/// with: one seed will do.
fn company(algorithm: &str, window: Window) -> [Worst; 5] {
    SIZES.map(|flows| {
        let seeds = if flows == 1 { 1..=1 } else { 1..=2 };
        let runs = each_seed(seeds, |seed| {
            PATHS.map(|path| measure(algorithm, path, flows, window, seed))
        });
        runs.into_iter().flatten().reduce(Worst::of).unwrap()
    })
}

/// A line of docs/algorithms/README.md's table.
fn line(algorithm: &str, company: &[Worst; 5]) -> String {
    let [one, two, three, five, twelve] = company;
    let least = company.iter().map(|w| w.least).fold(1.0, f64::min);
    let [queue_of_one, queue, loss_of_few, loss] =
        [one.queue, twelve.queue, one.loss.max(two.loss), twelve.loss].map(|part| part * 100.0);
    format!(
        "| {algorithm} | {:.2} | {:.2} | {:.2} | {:.2} | {least:.2} | {queue_of_one:.0} | \
         {queue:.0} | {loss_of_few:.1} | {loss:.1} |",
        two.jain, three.jain, five.jain, twelve.jain
    )
}

/// What an algorithm is held to: a little worse than what was measured.
struct Bounds {
    algorithm: &'static str,
    /// Jain's index of 2, 3, 5 and 12 flows, at least.
    jain: [f64; 4],
    /// The least share of any of them, at least.
    least: f64,
    /// The queue of one flow and of any number of flows, at most.
    queue: [f64; 2],
    /// The loss of one flow, and of any number of flows, at most.
    loss: [f64; 2],
}

const fn bounds(
    algorithm: &'static str,
    jain: [f64; 4],
    least: f64,
    queue: [f64; 2],
    loss: [f64; 2],
) -> Bounds {
    Bounds {
        algorithm,
        jain,
        least,
        queue,
        loss,
    }
}

#[rustfmt::skip]
const BOUNDS: [Bounds; 15] = [
    bounds("basicdelay", [0.93, 0.93, 0.93, 0.93], 0.70, [0.14, 0.60], [0.001, 0.005]),
    bounds("bbr", [0.92, 0.53, 0.36, 0.19], 0.00, [0.03, 1.00], [0.001, 0.390]),
    bounds("bbr3", [0.85, 0.87, 0.80, 0.86], 0.38, [0.03, 1.00], [0.001, 0.201]),
    bounds("congestion_manager", [0.66, 0.83, 0.88, 0.87], 0.27, [0.87, 0.98], [0.003, 0.022]),
    bounds("copa", [0.95, 0.95, 0.95, 0.92], 0.57, [0.08, 0.99], [0.001, 0.091]),
    bounds("cubic", [0.84, 0.80, 0.88, 0.89], 0.43, [0.87, 0.99], [0.003, 0.027]),
    bounds("dctcp", [0.88, 0.90, 0.89, 0.90], 0.44, [0.80, 0.90], [0.001, 0.031]),
    bounds("hybla", [0.77, 0.81, 0.71, 0.85], 0.17, [0.73, 1.00], [0.005, 0.316]),
    bounds("illinois", [0.77, 0.85, 0.86, 0.87], 0.40, [0.84, 0.94], [0.001, 0.034]),
    bounds("ledbatpp", [0.81, 0.71, 0.53, 0.37], 0.10, [0.53, 0.86], [0.001, 0.012]),
    bounds("nimbus", [0.82, 0.88, 0.88, 0.70], 0.18, [0.36, 0.90], [0.001, 0.052]),
    bounds("reno", [0.88, 0.86, 0.90, 0.89], 0.48, [0.80, 0.92], [0.001, 0.034]),
    bounds("sprout", [0.62, 0.53, 0.30, 0.24], 0.04, [0.91, 1.00], [0.017, 0.058]),
    bounds("vegas", [0.94, 0.64, 0.58, 0.64], 0.29, [0.12, 0.99], [0.001, 0.005]),
    bounds("vivace", [0.57, 0.62, 0.65, 0.46], 0.01, [0.03, 1.00], [0.014, 0.220]),
];

/// Of the link, by any number of flows of any algorithm.
const LEAST_UTILISATION: f64 = 0.85;

/// Prints the table of docs/algorithms/README.md.
#[test]
fn flows_of_one_algorithm_share_queue_and_lose_within_bounds() {
    let known = fairwater_algorithms::all().iter().map(|entry| entry.name);
    let known: Vec<_> = known.filter(|name| *name != "constant").collect();
    let bounded: Vec<_> = BOUNDS.iter().map(|bounds| bounds.algorithm).collect();
    assert_eq!(bounded, known, "each algorithm but `constant` has bounds");
    let mut broken = Vec::new();
    for bounds in BOUNDS {
        let company = company(bounds.algorithm, EARLY);
        let line = line(bounds.algorithm, &company);
        println!("{line}");
        let [one, several @ ..] = company;
        let all = several.into_iter().fold(one, Worst::of);
        let shares = several.iter().zip(bounds.jain);
        let holds = shares.clone().all(|(worst, least)| worst.jain >= least)
            && all.least >= bounds.least
            && one.queue <= bounds.queue[0]
            && all.queue <= bounds.queue[1]
            && one.loss <= bounds.loss[0]
            && all.loss <= bounds.loss[1]
            && all.utilisation >= LEAST_UTILISATION;
        if !holds {
            broken.push(format!("{line}\n{company:.3?}"));
        }
    }
    assert!(broken.is_empty(), "out of bounds:\n{}", broken.join("\n"));
}

/// What the same companies come to from 40 to 100 s after the last flow's start.
#[test]
#[ignore = "prints a table from 252 runs of more than 100 s"]
fn after_a_minute() {
    for bounds in BOUNDS {
        println!(
            "{}",
            line(bounds.algorithm, &company(bounds.algorithm, LATE))
        );
    }
}
