//! What the edge costs at a guest's port: throughput through a bridge as a ratio to plain forwarding.

use std::os::fd::AsFd;
use std::time::Duration;

use fairwater_edge_tc::EdgeOptions;
use fairwater_testbed::{BridgedSite, Family};

use super::running::{RunningEdge, controlling};
use crate::bulk::{Pace, throughput_of};
use crate::statistics::Rounds;

/// How to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Algorithm of guests that the edge controls; the guests themselves use Reno.
    #[arg(long, default_value = "reno")]
    algorithm: String,
    /// Connections at once.
    #[arg(long, default_value_t = 1)]
    flows: usize,
    /// Rounds; each measures every variant once, beside plain forwarding.
    #[arg(long, default_value_t = 11)]
    rounds: usize,
    /// Seconds a variant runs in a round.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
}

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    for offload in [true, false] {
        let site = BridgedSite::new()?;
        if !offload {
            site.without_offload()?;
        }
        let controlled = controlling(&arguments.algorithm);
        // No connection matches: the edge parses and tracks.
        let passing = format!(
            "[[rule]]\npeer_port = 1\nalgorithm = \"{}\"\n",
            arguments.algorithm
        );
        let variants = [("measured only", passing), ("controlled", controlled)];
        let mut plain = Rounds::default();
        let mut ratios = [(); 2].map(|()| Rounds::default());
        for round in 1..=arguments.rounds {
            for ((name, policy), ratios) in variants.iter().zip(&mut ratios) {
                let ours = || -> anyhow::Result<f64> {
                    let edge = RunningEdge::start(
                        site.host().as_fd(),
                        policy,
                        &arguments.algorithm,
                        EdgeOptions::default(),
                    )?;
                    let bps = measure(&site, arguments);
                    drop(edge);
                    bps
                };
                // Whoever goes first has the other's heat.
                let (with, without) = if round % 2 == 0 {
                    (ours()?, measure(&site, arguments)?)
                } else {
                    let without = measure(&site, arguments)?;
                    (ours()?, without)
                };
                println!(
                    "round {round}: {name} {:.2} Gbit/s, plain {:.2} Gbit/s",
                    with / 1e9,
                    without / 1e9
                );
                plain.push(without / 1e9);
                ratios.push(with / without);
            }
        }
        let packets = if offload {
            "offloads on"
        } else {
            "packets of one segment"
        };
        println!("{packets}: plain forwarding {plain} Gbit/s");
        for ((name, _), ratios) in variants.iter().zip(&ratios) {
            println!("{packets}: {name} / plain: {ratios}");
        }
    }
    Ok(())
}

fn measure(site: &BridgedSite, arguments: &Arguments) -> anyhow::Result<f64> {
    let mut connections = Vec::new();
    for _ in 0..arguments.flows {
        let listener = site.listen(Family::V4)?;
        let sender = site.connect(&listener)?;
        connections.push((sender, listener.accept()?.0));
    }
    let time = Duration::from_secs(arguments.seconds);
    Ok(throughput_of(
        connections,
        Pace::Full,
        Duration::from_millis(300),
        time,
    )?)
}
