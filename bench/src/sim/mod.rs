//! How fast the simulator is, beside ns-3 on the same network, and how much memory it takes.

mod memory;
mod network;
mod ns3;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use fairwater_plane::Plane;
use fairwater_sim::{Controller, Native, run as simulate};
use rustix::time::{ClockId, clock_gettime};

use crate::statistics::Rounds;
use network::Dumbbell;
use ns3::Ns3;

/// How to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Rounds; each runs every case once, and ns-3 once.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only the network whose name has this in it; `none` is memory alone.
    #[arg(long, default_value = "")]
    only: String,
    /// The program of bench/ns3, built.
    #[arg(long)]
    ns3: Option<PathBuf>,
    /// Only the memory of one case, in this process.
    #[arg(long, value_name = "CASE")]
    memory_of: Option<String>,
}

/// What controls all flows.
#[derive(Debug)]
struct Case {
    name: &'static str,
    controller: Controller,
    /// The plane's algorithm, if it is one.
    spec: Option<&'static str>,
}

impl Case {
    const fn native(name: &'static str, native: Native) -> Self {
        Self {
            name,
            controller: Controller::Native(native),
            spec: None,
        }
    }

    fn of_plane(name: &'static str, spec: &'static str) -> Self {
        Self {
            name,
            controller: Controller::Plane("cubic".to_owned()),
            spec: Some(spec),
        }
    }

    fn plane(&self) -> anyhow::Result<Plane> {
        let mut plane = Plane::new();
        if let Some(spec) = self.spec {
            let algorithm = fairwater_algorithms::by_spec(spec)?;
            plane.add(|programs| algorithm.build(programs))?;
        }
        Ok(plane)
    }
}

fn cases() -> [Case; 4] {
    [
        Case::native("native cubic", Native::Cubic),
        Case::native("native reno", Native::Reno),
        Case::of_plane(
            "the plane's cubic, a report each 10 ms",
            "cubic:report=10ms",
        ),
        Case::of_plane("the plane's cubic, a report each ACK", "cubic:report=ack"),
    ]
}

const NETWORKS: [Dumbbell; 2] = [
    Dumbbell {
        name: "100 Mbit/s",
        flows: 10,
        mbit: 100,
        seconds: 10.0,
        start_jitter: Duration::ZERO,
    },
    Dumbbell {
        name: "1 Gbit/s",
        flows: 10,
        mbit: 1_000,
        seconds: 2.0,
        start_jitter: Duration::ZERO,
    },
];

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let cases = cases();
    if let Some(name) = &arguments.memory_of {
        let case = cases.iter().find(|case| case.name == name);
        return memory::report(case.with_context(|| format!("there is no case `{name}`"))?);
    }
    let ns3 = Ns3::find(arguments.ns3.as_deref());
    for network in NETWORKS.iter().filter(|n| n.name.contains(&arguments.only)) {
        speed(network, &cases, ns3.as_ref(), arguments.rounds)?;
    }
    cases.iter().try_for_each(memory::measure)
}

fn speed(
    network: &Dumbbell,
    cases: &[Case],
    ns3: Option<&Ns3>,
    rounds: usize,
) -> anyhow::Result<()> {
    let mut rates = vec![Rounds::default(); cases.len()];
    let [mut their_rates, mut ratios, mut later] = [(); 3].map(|()| Rounds::default());
    for case in cases {
        let run = simulated(network, case)?;
        eprintln!(
            "{}, {}: warmed up at {:.2} M/s; {}",
            network.name,
            case.name,
            run.rate,
            traffic(
                network,
                run.delivered_bytes,
                run.drops,
                run.mean_queue_packets
            )
        );
    }
    for round in 0..rounds {
        let their = ns3.map(|ns3| ns3.run(network)).transpose()?;
        for (index, (case, rates)) in cases.iter().zip(&mut rates).enumerate() {
            let rate = simulated(network, case)?.rate;
            rates.push(rate);
            // ns-3's flows are under its CUBIC.
            if let (0, Some(their)) = (index, &their) {
                ratios.push(rate / their.rate());
                later.push(rate / their.later_rate());
            }
        }
        if let Some(their) = &their {
            their_rates.push(their.rate());
            if round == 0 {
                let (drops, queue) = (their.drops, their.mean_queue_packets);
                let traffic = traffic(network, their.delivered_bytes, drops, queue);
                eprintln!("{}, ns-3: {traffic}", network.name);
            }
        }
    }
    let what = format!("{} bulk flows over {}", network.flows, network.name);
    for (case, rates) in cases.iter().zip(&rates) {
        println!("{what}, {}: {rates} M packet-hops/s", case.name);
    }
    if ns3.is_some() {
        println!("{what}, ns-3's cubic: {their_rates:.3} M packet-hops/s");
        println!(
            "{what}, native cubic to ns-3's: ratio {ratios:.0}; {later:.0} to the second half of \
             ns-3's run"
        );
    }
    Ok(())
}

/// One run of the simulator.
#[derive(Debug)]
struct Run {
    /// Million packet-hops in a second of CPU time.
    rate: f64,
    delivered_bytes: u64,
    /// Packets dropped at the bottleneck.
    drops: u64,
    /// Packets waiting at the bottleneck, mean over time.
    mean_queue_packets: f64,
}

#[expect(clippy::cast_precision_loss, reason = "means")]
fn simulated(network: &Dumbbell, case: &Case) -> anyhow::Result<Run> {
    let (config, plane) = (network.config(&case.controller), case.plane()?);
    let start = cpu_time();
    let outcome = simulate(&config, plane, &mut ())?;
    let time = cpu_time().saturating_sub(start);
    let delivered = outcome.flows.iter().map(|flow| flow.delivered_bytes);
    let bottleneck = outcome.edges.first();
    let bottleneck = bottleneck.context("the network has no bottleneck")?;
    // Little's law.
    let mean_us = bottleneck.queueing_us.map_or(0.0, |delay| delay.mean);
    let waited_s = mean_us * bottleneck.packets as f64 / 1e6;
    Ok(Run {
        rate: outcome.hops as f64 / time.as_secs_f64() / 1e6,
        delivered_bytes: delivered.sum(),
        drops: bottleneck.dropped,
        mean_queue_packets: waited_s / network.seconds,
    })
}

/// What shows that both simulators simulate the same network.
#[expect(clippy::cast_precision_loss, reason = "a mean")]
fn traffic(network: &Dumbbell, bytes: u64, drops: u64, mean_queue_packets: f64) -> String {
    let mbit_per_s = bytes as f64 * 8e-6 / network.seconds;
    format!(
        "{mbit_per_s:.1} Mbit/s of payload, {drops} drops, mean queue {mean_queue_packets:.0} of {} \
         packets",
        network.buffer_packets()
    )
}

/// What this thread has computed so far.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
