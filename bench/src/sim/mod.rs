//! How fast the simulator is, and how much memory it takes.

mod each_ack;

use std::time::Duration;

use anyhow::Context;
use fairwater_net::{Capacity, Limit, LinkConfig, QueueConfig, Rate, Time};
use fairwater_plane::{Plane, SignalSet};
use fairwater_sim::{
    Config, Edge, FlowConfig, Governor, Measure, Native, NodeId, Path, PlaneConfig, TcpConfig,
    Traffic, run as simulate,
};
use rustix::time::{ClockId, clock_gettime};

use crate::statistics::Rounds;

/// How to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Rounds; each runs every case once.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Virtual time of a run, s.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Only the cases whose name has this in it.
    #[arg(long, default_value = "")]
    only: String,
    /// Measure the memory that so many flows take, instead of the speed of ten: the greatest that
    /// this process had, so name one case.
    #[arg(long)]
    memory: Option<u32>,
}

/// What a case is called, and who governs.
type Case = (&'static str, Governor);

fn cases() -> [Case; 3] {
    [
        ("native cubic", Governor::Native(Native::Cubic)),
        ("plane cubic", Governor::Plane("cubic".to_owned())),
        (
            "plane, a report each ACK",
            Governor::Plane("each_ack".to_owned()),
        ),
    ]
}

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let cases = cases().into_iter();
    let chosen: Vec<Case> = cases
        .filter(|case| case.0.contains(&arguments.only))
        .collect();
    if let Some(flows) = arguments.memory {
        return chosen.iter().try_for_each(|case| memory(flows, case));
    }
    let mut rates = vec![Rounds::default(); chosen.len()];
    // The first round warms up and is not counted.
    for round in 0..=arguments.rounds {
        for (case, rate) in chosen.iter().zip(&mut rates) {
            let config = dumbbell(10, 1_000_000_000, arguments.seconds, &case.1);
            let start = cpu_time();
            let outcome = simulate(&config, plane()?, &mut ())?;
            let time = cpu_time().saturating_sub(start);
            if round == 0 {
                eprintln!(
                    "{}: {} hops, {} events, {} reports, utilisation {:.3}",
                    case.0,
                    outcome.hops,
                    outcome.events,
                    outcome.reports,
                    outcome.edges[0].utilisation
                );
            } else {
                rate.push(outcome.hops as f64 / time.as_secs_f64() / 1e6);
            }
        }
    }
    for (case, rate) in chosen.iter().zip(&rates) {
        println!("10 bulk flows, {}: {rate} M packet-hops/s", case.0);
    }
    Ok(())
}

/// Runs two seconds of so many flows over 10 Gbit/s.
fn memory(flows: u32, case: &Case) -> anyhow::Result<()> {
    let config = dumbbell(flows, 10_000_000_000, 2.0, &case.1);
    let outcome = simulate(&config, plane()?, &mut ())?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    let kib: u64 = kib.context("no VmHWM")?.parse()?;
    println!(
        "{flows} bulk flows, {}: {} MiB at most, {} hops",
        case.0,
        kib >> 10,
        outcome.hops
    );
    Ok(())
}

/// Each flow has hosts of its own, at 10 × the bottleneck's rate; the round trip is 20 ms, and the
/// buffer of one bandwidth-delay product.
fn dumbbell(flows: u32, bps: u64, seconds: f64, governor: &Governor) -> Config {
    let rtt = Duration::from_millis(20);
    let rate = |bps| Rate::from_bps(bps).map_or(Capacity::Unlimited, Capacity::Rate);
    let bdp = Limit::Bytes(bps / 8 * 20 / 1_000);
    let edge = |from, to, link| Edge {
        name: format!("{from}-{to}"),
        from: NodeId(from),
        to: NodeId(to),
        link,
    };
    let wire = |bps, limit, delay| LinkConfig::new(rate(bps), QueueConfig::DropTail(limit), delay);
    let mut edges = vec![
        edge(0, 1, wire(bps, bdp, rtt / 2)),
        edge(1, 0, wire(bps, bdp, rtt / 2)),
    ];
    let mut configs = Vec::new();
    for index in 0..flows {
        let (from, to) = (2 + 2 * index, 3 + 2 * index);
        for (a, b) in [(from, 0), (0, from), (1, to), (to, 1)] {
            let access = wire(10 * bps, Limit::Unlimited, Duration::ZERO);
            edges.push(edge(a, b, access));
        }
        configs.push(FlowConfig {
            name: format!("{index}"),
            from: NodeId(from),
            to: NodeId(to),
            path: Path::Shortest,
            governor: governor.clone(),
            traffic: Traffic::Bulk,
            start: Time::ZERO,
            start_jitter: Duration::from_millis(100),
            stop: None,
            priority: 0,
            tcp: TcpConfig::default(),
        });
    }
    Config {
        seed: 1,
        duration: Duration::from_secs_f64(seconds),
        nodes: 2 + 2 * flows,
        edges,
        flows: configs,
        plane: PlaneConfig::default(),
        measure: Measure::default(),
    }
}

fn plane() -> anyhow::Result<Plane> {
    let mut plane = Plane::new("sim", SignalSet::ALL);
    let cubic = fairwater_algorithms::by_spec("cubic")?;
    plane.add(|programs| cubic.build(programs))?;
    plane.add(each_ack::EachAck::new)?;
    Ok(plane)
}

/// What this thread has computed so far.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
