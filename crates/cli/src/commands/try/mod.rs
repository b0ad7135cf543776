//! `fairwater try`.

mod contender;
mod place;
mod table;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use fairwater_lab::{
    Contender, Experiment, LabError, Results, Simulated, Traffic, report, run as run_lab, simulate,
};
use fairwater_linux::{Options, SIGNALS, probe};
use fairwater_net::{LinkSpec, LinkSpecError};
use fairwater_plane::SignalSet;

use crate::algorithm::Chosen;
use crate::failure::Failure;
use crate::hosting::{self, Hosting};
use crate::output;
use crate::report_page;
use crate::stop::Stop;
use crate::units::parse_duration;
use crate::world::On;
use contender::{Sender, Typed};
use place::Place;
use watch::Watch;

const EXAMPLES: &str = "\
Examples:
  sudo fairwater try cubic --against kernel:cubic
  sudo fairwater try cubic --against kernel:cubic --link \"48mbit 20ms 1bdp\" --for 30s --together
  sudo fairwater try reno reno:report=10ms --link \"trace:cell.up 40ms 100pkt loss=0.01%\"
  sudo fairwater try cubic --json | jq '.runs[] | {name, utilisation}'
  fairwater try cubic --against kernel:cubic --on sim

A link is a capacity (12mbit, or trace:FILE in mahimahi's format), an RTT (20ms), and, as you like,
a buffer (160pkt, 100kB or 1bdp), loss=0.01%, mark=20pkt (ECN marks above so many waiting) and
seed=7. Delays, drops and throughput are measured at the bottleneck. A run that the machine
disturbed is repeated, and named if it cannot be.

Real TCP needs root, and algorithms of this project a kernel with BTF. Elsewhere, or with --on sim,
the same runs in the simulator, where `kernel:reno` and `kernel:cubic` stand for the kernel's; it
takes a second, and gives the same numbers each time.";

/// Run algorithms over an emulated link, beside the kernel's own if you like
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Who sends: `cubic`, `cubic:report=10ms`, a class in Python `my_alg.py:MyAlg`, or
    /// `kernel:NAME` for one of the kernel's
    #[arg(required = true, value_name = "ALGORITHM")]
    algorithms: Vec<Typed>,
    /// Who else sends, in the same words; may be given several times
    #[arg(long, value_name = "ALGORITHM")]
    against: Vec<Typed>,
    /// The link
    #[arg(long, default_value = "48mbit 20ms 1bdp")]
    link: String,
    /// How long each run lasts
    #[arg(long = "for", value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    duration: Duration,
    /// Let them share the link, instead of having it alone in turn
    #[arg(long)]
    together: bool,
    /// Where it runs: `linux`, this machine's TCP, or `sim`, the simulator [default: linux if it
    /// can]
    #[arg(long, value_name = "WORLD", hide_possible_values = true)]
    on: Option<On>,
    /// Send over IPv6
    #[arg(long)]
    ipv6: bool,
    /// The seed of the link's random loss, and of when flows together start in the simulator
    #[arg(long)]
    seed: Option<u64>,
    /// Send with the lab's own bulk sender instead of iperf3
    #[arg(long)]
    bulk: bool,
    /// How often a run is tried that the machine disturbs
    #[arg(long, value_name = "COUNT", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    tries: u32,
    /// Print JSON on standard output instead of a table
    #[arg(long)]
    json: bool,
    /// Where the report page goes
    #[arg(long, value_name = "PATH", default_value = "fairwater-report.html")]
    report: PathBuf,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let contenders: Vec<Typed> = args
        .algorithms
        .iter()
        .chain(&args.against)
        .cloned()
        .collect();
    let ours = contender::ours(&contenders);
    let link = link(args)?;
    report_page::check(&args.report)?;
    let results = match Place::find(args.on, &contenders) {
        Place::Linux => emulated(args, link, &contenders, &ours)?,
        Place::Sim { because } => simulated(args, link, &contenders, &ours, because.as_deref())?,
    };
    finish(args, &results)
}

/// On this machine's TCP.
fn emulated(
    args: &Args,
    link: LinkSpec,
    contenders: &[Typed],
    ours: &[(String, Chosen)],
) -> Result<Results, Failure> {
    let mut experiment = experiment(args, link, contenders.iter().map(stand_in).collect());
    hosting::plane("linux", SIGNALS, ours)?;
    experiment.check()?;

    let stop = Stop::on_signals()?;
    let hosting = if ours.is_empty() {
        None
    } else {
        probe::probe().require()?;
        let hosting = Hosting::start(ours, Options::default())?;
        take_names(&mut experiment, contenders, hosting.names());
        experiment.at_both_ends = hosting.at_both_ends();
        Some(hosting)
    };
    let mut watch = Watch::new(args.quiet);
    let results = run_lab(&experiment, stop.flag(), &mut |progress| {
        watch.show(progress)
    });
    drop(watch);
    for notice in hosting.map(Hosting::finish).unwrap_or_default() {
        eprintln!("{notice}");
    }
    stop.check_interrupt()?;
    Ok(results?)
}

/// In the simulator; real TCP is out of the question for the reason given, or nobody asked for it.
fn simulated(
    args: &Args,
    link: LinkSpec,
    contenders: &[Typed],
    ours: &[(String, Chosen)],
    because: Option<&str>,
) -> Result<Results, Failure> {
    if args.ipv6 {
        return Err(place::refusal(&LabError::SimulatedIpv6, because));
    }
    let contenders = place::simulated(contenders, ours, because)?;
    let experiment = experiment(args, link, contenders);
    let stop = Stop::on_signals()?;
    let mut watch = Watch::new(args.quiet);
    let mut unsaid = because;
    let simulated = simulate(
        &experiment,
        || hosting::plane("sim", SignalSet::ALL, ours),
        stop.flag(),
        &mut |progress| {
            if let Some(because) = unsaid.take() {
                eprintln!(
                    "simulating, as real TCP cannot run here: {because} (see `fairwater doctor`)"
                );
            }
            watch.show(progress);
        },
    );
    drop(watch);
    stop.check_interrupt()?;
    let Simulated { results, notices } = simulated?;
    for notice in notices {
        eprintln!("{notice}");
    }
    Ok(results)
}

fn link(args: &Args) -> Result<LinkSpec, Failure> {
    let mut link: LinkSpec = args.link.parse().map_err(|error: LinkSpecError| {
        eprintln!("{error}");
        Failure::Said(2)
    })?;
    link.seed = args.seed.unwrap_or(link.seed);
    Ok(link)
}

/// The kernel's name of a contender's congestion control. Algorithms of this project have none
/// yet: the kernel's Reno, which is always there, stands for them while the rest is checked.
fn stand_in(typed: &Typed) -> Contender {
    Contender {
        label: typed.label.clone(),
        congestion_control: match &typed.sender {
            Sender::Ours(_) => "reno".to_owned(),
            Sender::Kernel(name) => name.clone(),
        },
    }
}

/// What to run.
fn experiment<C>(args: &Args, link: LinkSpec, contenders: Vec<Contender<C>>) -> Experiment<C> {
    Experiment {
        duration: args.duration,
        together: args.together,
        ipv6: args.ipv6,
        traffic: if args.bulk {
            Traffic::Bulk
        } else {
            Traffic::Iperf3
        },
        tries: args.tries,
        ..Experiment::new(link, contenders)
    }
}

/// Gives algorithms of this project the names that they were attached under.
fn take_names(experiment: &mut Experiment, contenders: &[Typed], names: &[String]) {
    let ours = experiment
        .contenders
        .iter_mut()
        .zip(contenders)
        .filter(|(_, typed)| matches!(typed.sender, Sender::Ours(_)));
    for ((contender, _), name) in ours.zip(names) {
        contender.congestion_control.clone_from(name);
    }
}

fn finish(args: &Args, results: &Results) -> Result<(), Failure> {
    if args.json {
        output::json(results)?;
    } else {
        output::print(table::table(results))?;
    }
    report_page::write(&args.report, &report::html(results))
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Missing(_) => Self::LabMissing(error.to_string()),
            LabError::Cancelled => Self::Interrupted,
            LabError::NoContender
            | LabError::Timing
            | LabError::TooManyContenders { .. }
            | LabError::Duration { .. }
            | LabError::UnknownCongestionControl { .. }
            | LabError::SimulatedIpv6
            | LabError::Simulator(_)
            | LabError::TraceFile { .. }
            | LabError::Trace { .. } => Self::BadInput(error.to_string()),
            LabError::Traffic { .. } | LabError::Part { .. } | LabError::System { .. } => {
                Self::Other(error.to_string())
            }
        }
    }
}
