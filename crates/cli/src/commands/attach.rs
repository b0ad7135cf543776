//! `fairwater attach`.

use std::time::Duration;

use fairwater_hosting::host::{Host, HostConfig, LinuxConfig};
use fairwater_hosting::{NamedAlgorithm, ResolvedAlgorithm, Stop, TURN, resolve_argument};
use fairwater_linux::Options;

use crate::budget::Budget;
use crate::failure::Failure;
use crate::hosting::of_short_form;
use crate::units::{duration, parse_duration};

const EXAMPLES: &str = "\
Examples:
  sudo fairwater attach cubic
      and then, for one route:   sudo ip route change … congctl fw_cubic
      or for one iperf3:         iperf3 -C fw_cubic -c …
  sudo fairwater attach cubic --default --move-existing
  sudo fairwater attach cubic:report=10ms reno --silent-after 500ms

At Ctrl-C or SIGTERM, the command moves connections back, restores the default and unregisters the
names. After a kill -9, connections go on under Cubic in the kernel; the next `fairwater attach`
restores the default, and takes over the connections and listeners of the same algorithm.";

/// Put algorithms on this machine's TCP until stopped
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Algorithms: `cubic`, `cubic:report=10ms`, or a Python class `my_alg.py:MyAlg`; `fairwater
    /// algorithms` lists the built-in algorithms
    #[arg(required = true, value_name = "ALGORITHM", value_parser = resolve_argument)]
    algorithms: Vec<ResolvedAlgorithm>,
    /// Make the first algorithm the default of new connections (sysctl
    /// net.ipv4.tcp_congestion_control)
    #[arg(long)]
    default: bool,
    /// Move the existing connections of every network namespace to the first algorithm until the
    /// command stops
    #[arg(long)]
    move_existing: bool,
    #[command(flatten)]
    budget: Budget,
    #[command(flatten)]
    tuning: Tuning,
}

/// Options of a process that hosts algorithms for this machine's TCP.
#[derive(Debug, clap::Args)]
pub(crate) struct Tuning {
    /// Silence of this process after which its flows go on under Cubic in the kernel
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = parse_silence)]
    silent_after: Duration,
    /// Maximum number of flows of an algorithm; further flows run under Cubic in the kernel
    #[arg(long, value_name = "COUNT", default_value_t = 16_384,
          value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    max_flows: u32,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let algorithms: Vec<NamedAlgorithm> = args
        .algorithms
        .iter()
        .map(|algorithm| (algorithm.choice.name().to_owned(), algorithm.clone()))
        .collect();
    let first = algorithms.first().map(|(name, _)| name.clone());
    let config = HostConfig {
        algorithms,
        max_instructions: args.budget.max_instructions,
        linux: Some(LinuxConfig {
            default: first.filter(|_| args.default),
            move_existing: args.move_existing,
            options: args.tuning.options(),
            optional: false,
        }),
        ..HostConfig::default()
    };
    let stop = Stop::on_signals().map_err(Failure::io("handling signals"))?;
    let mut host = Host::start(config).map_err(of_short_form)?;
    host.drain_notices()
        .iter()
        .for_each(|sentence| eprintln!("{sentence}"));
    eprintln!(
        "If this process is silent for {}, their flows go on under Cubic in the kernel. Ctrl-C stops.",
        duration(args.tuning.silent_after)
    );
    while !stop.is_asked() {
        let notices = host.turn(TURN).map_err(Failure::io("waiting for events"))?;
        notices.iter().for_each(|notice| eprintln!("{notice}"));
    }
    host.finish()
        .iter()
        .for_each(|sentence| eprintln!("{sentence}"));
    Failure::if_interrupted(&stop)
}

fn parse_silence(text: &str) -> Result<Duration, String> {
    let silence = parse_duration(text)?;
    let bounds = Duration::from_millis(10)..=Duration::from_secs(3600);
    if bounds.contains(&silence) {
        Ok(silence)
    } else {
        Err("it must be 10ms to 60min".to_owned())
    }
}

impl Tuning {
    pub(crate) fn options(&self) -> Options {
        Options {
            silent_after: self.silent_after,
            max_flows: self.max_flows,
            ..Options::default()
        }
    }
}
