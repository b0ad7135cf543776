//! What the edge costs at a guest's port: throughput through a bridge as a ratio to plain forwarding.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use fairwater_edge::policy::{EdgePolicy, PortPattern};
use fairwater_edge_tc::{EdgeOptions, EdgeTc};
use fairwater_netlink::enter;
use fairwater_plane::Plane;
use fairwater_service::{Config, Endpoints, Server};
use fairwater_testbed::{BridgedSite, Family};

use crate::bulk::{Pace, throughput_of};
use crate::statistics::Rounds;

/// Longest time between two looks at whether to stop.
const TURN: Duration = Duration::from_millis(50);

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
        let controlled = format!("[[rule]]\nalgorithm = \"{}\"\n", arguments.algorithm);
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
                    let edge = EdgeAtWork::start(&site, policy, &arguments.algorithm)?;
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

/// An edge at the guest's port until dropped.
struct EdgeAtWork {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl EdgeAtWork {
    fn start(site: &BridgedSite, policy: &str, algorithm: &str) -> anyhow::Result<Self> {
        let parsed = EdgePolicy::parse("benchmark", policy, None);
        let parsed = parsed.map_err(|mistakes| anyhow::anyhow!("{}", mistakes.render(false)))?;
        let policy = Arc::new(parsed.policy);
        let choice = fairwater_algorithms::by_spec(algorithm)?;
        let namespace = site.host().as_fd().try_clone_to_owned()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let (tell, told) = mpsc::channel::<anyhow::Result<()>>();
        let thread = std::thread::spawn(move || {
            let attached = || -> anyhow::Result<Server> {
                enter(namespace.as_fd())?;
                let mut plane = Plane::new();
                plane.add(|programs| choice.build(programs))?;
                let mut server = Server::bind(plane, Config::default(), &Endpoints::default())?;
                let on = PortPattern::new("vnet*").map_err(anyhow::Error::msg)?;
                let hosted = server.service().plane().algorithms();
                let edge = EdgeTc::attach(hosted, vec![on], policy, EdgeOptions::default())?;
                server.add(edge)?;
                Ok(server)
            };
            match attached() {
                Ok(mut server) => {
                    let _ = tell.send(Ok(()));
                    while !stopping.load(Ordering::Acquire) && server.turn(TURN).is_ok() {}
                }
                Err(error) => {
                    let _ = tell.send(Err(error));
                }
            }
        });
        told.recv()??;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for EdgeAtWork {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
