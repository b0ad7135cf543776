//! `fairwater try`.

mod back_end;
mod candidate;
mod hosts;
mod over_quic;
mod progress;
mod rounds;
mod table;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use fairwater_hosting::Stop;
use fairwater_lab::{Candidate, Comparison, LabError, Simulated, run as run_comparison, simulate};
use fairwater_net::{LinkSpec, LinkSpecError};

use fairwater_results::{Results, RoundResults, TrafficProgram, report};
use fairwater_testbed::TestbedError;
use serde::Serialize;

use crate::backend::BackendArgument;
use crate::failure::Failure;
use crate::hosting;
use crate::output;
use crate::report_page;
use crate::units::parse_duration;
use back_end::ChosenBackend;
use candidate::{CandidateArgument, Sender, Transport};
use hosts::Hosts;
use progress::ProgressDisplay;
use rounds::Rounds;

const EXAMPLES: &str = "\
Examples:
  sudo fairwater try cubic --against kernel:cubic
  sudo fairwater try cubic --against kernel:cubic --together --baseline --rounds 5
  sudo fairwater try reno reno:report=10ms --link \"trace:cell.up 40ms 100pkt loss=0.01%\"
  sudo fairwater try cubic --json | jq '.runs[] | {name, utilisation}'
  fairwater try cubic --against kernel:cubic --on sim
  sudo fairwater try cubic --over utcp --against kernel:cubic
  fairwater try copa --against kernel:cubic --over quic
  sudo fairwater try copa --over tcp,utcp,quic --link \"12mbit 20ms 1bdp\"

A link is a capacity (12mbit, or trace:FILE in mahimahi's format) and an RTT (20ms), and optionally
a buffer (160pkt, 100kB or 1bdp), loss=0.01%, queue=fq_codel, mark=20pkt (ECN marks while more
packets wait), aggregate=32pkt,4ms,100us (frame aggregation) and seed=7. Delay, drops and throughput
are measured at the bottleneck. A run that other load on the machine disturbed is repeated; if every
attempt was disturbed, the table says so.

Real TCP needs root, and Fairwater's algorithms need a kernel with BTF. Without them, or with --on
sim, the comparison runs in the simulator, where `kernel:reno` and `kernel:cubic` stand for the
kernel's algorithms; a simulation takes a second and gives the same numbers each time.

With --over utcp, a TCP in user space sends for Fairwater's algorithms to the kernel's TCP, without
BTF and eBPF; the lab's own bulk sender stands for the kernel's algorithms. See docs/utcp.md. With
--over tcp,utcp,quic, each algorithm runs on the kernel's TCP, on that one and on noq, one after
another on the same link.

If an algorithm fails (it raises, blocks or dies), its flow goes on under the fallback, which is
Cubic on real TCP and Reno in the simulator. The table, --json and the report page tell the share of
the time and the cause, and the exit code is 4.";

/// Compare algorithms on an emulated link, with each other and with the kernel's own
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Algorithms: `cubic`, `cubic:report=10ms`, a Python class `my_alg.py:MyAlg`, or `kernel:NAME`
    /// for one of the kernel's
    #[arg(required = true, value_name = "ALGORITHM")]
    algorithms: Vec<CandidateArgument>,
    /// Another algorithm, in the same form; may be given several times
    #[arg(long, value_name = "ALGORITHM")]
    against: Vec<CandidateArgument>,
    /// The link
    #[arg(long, default_value = "48mbit 20ms 1bdp")]
    link: String,
    /// Duration of each run
    #[arg(long = "for", value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    duration: Duration,
    /// Let the algorithms share the link, instead of running one after another
    #[arg(long)]
    together: bool,
    /// Number of comparisons, every second in reverse order; shows medians and spread
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// With --together: also run the kernel's algorithm in place of each other algorithm, to show how
    /// fair the kernel's algorithm is to itself
    #[arg(long)]
    baseline: bool,
    /// Back end: `linux`, this machine's TCP, or `sim`, the simulator [default: linux if possible]
    #[arg(long, value_name = "BACKEND", hide_possible_values = true)]
    on: Option<BackendArgument>,
    /// Transport: `tcp`; `utcp`, a TCP in user space that sends to the kernel's; or `quic`, connections of noq. Several,
    /// as `tcp,utcp,quic`, run each algorithm over each. QUIC alone runs on the same link in virtual time, where
    /// `kernel:cubic` and `kernel:reno` stand for noq's own; beside others, or with --on linux, on real packets
    #[arg(
        long,
        value_name = "TRANSPORT",
        default_value = "tcp",
        value_delimiter = ',',
        hide_possible_values = true
    )]
    over: Vec<Transport>,
    /// Send over IPv6
    #[arg(long)]
    ipv6: bool,
    /// Seed of the link's random loss and, in the simulator, of start times with --together; each
    /// round adds 1
    #[arg(long)]
    seed: Option<u64>,
    /// Send with the lab's own bulk sender instead of iperf3
    #[arg(long)]
    bulk: bool,
    /// Maximum attempts for a run disturbed by other load on the machine
    #[arg(long, value_name = "COUNT", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    tries: u32,
    /// Print JSON on standard output instead of a table
    #[arg(long)]
    json: bool,
    /// Path of the report page
    #[arg(long, value_name = "PATH", default_value = "fairwater-report.html")]
    report: PathBuf,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let typed = args.algorithms.iter().chain(&args.against).cloned();
    let arguments = candidate::over_each(typed.collect(), &args.over);
    let link = link(args)?;
    report_page::check(&args.report)?;
    hosts::check(args, &arguments)?;
    let asked = match args.over.as_slice() {
        [Transport::Tcp] => args.on,
        [Transport::Quic] if args.on.is_none() => {
            let results = over_quic::run(args, link, &arguments)?;
            return finish(args, &results);
        }
        // The simulator has but one TCP.
        _ => Some(BackendArgument::Linux),
    };
    let results = match ChosenBackend::find(asked, &arguments) {
        ChosenBackend::Linux => on_linux(args, link, &arguments)?,
        ChosenBackend::Sim { because } => simulated(args, link, &arguments, because.as_deref())?,
    };
    finish(args, &results)
}

/// On this machine's TCP.
fn on_linux(
    args: &Args,
    link: LinkSpec,
    arguments: &[CandidateArgument],
) -> Result<RoundResults, Failure> {
    let mut comparison = comparison(args, link, arguments.iter().map(stand_in).collect());
    hosting::plane(&candidate::hosted(arguments))?;
    comparison.check()?;
    // What is wrong with the baseline is found before anything is attached.
    rounds(args, comparison.clone(), arguments)?;

    let stop = Stop::on_signals().map_err(Failure::io("handling signals"))?;
    let mut hosts = Hosts::start(arguments, &mut comparison)?;
    let algorithms = hosts.algorithms();
    let mut display = ProgressDisplay::new(args.quiet);
    let results = rounds(args, comparison, arguments)?.run(
        &mut |progress| display.show(progress),
        |comparison, progress| {
            let results = run_comparison(comparison, stop.flag(), progress);
            let notices = hosts.notices();
            for notice in &notices {
                eprintln!("{notice}");
            }
            let mut results = results?;
            explain(&mut results, &algorithms, &notices);
            Ok(results)
        },
    );
    drop(display);
    for notice in hosts.finish() {
        eprintln!("{notice}");
    }
    Failure::if_interrupted(&stop)?;
    results
}

/// Says why flows ran without their algorithm, as far as the plane said so.
fn explain(results: &mut Results, algorithms: &HashMap<String, String>, notices: &[String]) {
    for run in &mut results.runs {
        let name = &run.congestion_control;
        if let (Some(fallback), Some(algorithm)) = (&mut run.fallback, algorithms.get(name)) {
            fallback.explain(algorithm, name, notices.iter().map(String::as_str));
        }
    }
}

/// In the simulator; `because` says why real TCP cannot run, if the user did not ask for the
/// simulator.
fn simulated(
    args: &Args,
    link: LinkSpec,
    arguments: &[CandidateArgument],
    because: Option<&str>,
) -> Result<RoundResults, Failure> {
    if args.ipv6 {
        return Err(back_end::refusal(&LabError::SimulatedIpv6, because));
    }
    let hosted = candidate::hosted(arguments);
    let candidates = back_end::simulated(arguments, &hosted, because)?;
    let rounds = rounds(args, comparison(args, link, candidates), arguments)?;
    let stop = Stop::on_signals().map_err(Failure::io("handling signals"))?;
    stop.exit_if_stuck(|| ())
        .map_err(Failure::io("handling signals"))?;
    let mut display = ProgressDisplay::new(args.quiet);
    let mut unsaid = because;
    let mut notices = Vec::new();
    let results = rounds.run(
        &mut |progress| {
            if let Some(because) = unsaid.take() {
                eprintln!(
                    "simulating, as real TCP cannot run here: {because} (see `fairwater doctor`)"
                );
            }
            display.show(progress);
        },
        |comparison, progress| {
            let plane = || hosting::plane(&hosted);
            let simulated: Simulated = simulate(comparison, plane, stop.flag(), progress)?;
            notices.extend(simulated.notices);
            Ok(simulated.results)
        },
    );
    drop(display);
    Failure::if_interrupted(&stop)?;
    let results = results?;
    for notice in notices {
        eprintln!("{notice}");
    }
    Ok(results)
}

/// The rounds of a comparison that the arguments ask for.
fn rounds<C: Clone>(
    args: &Args,
    comparison: Comparison<C>,
    arguments: &[CandidateArgument],
) -> Result<Rounds<C>, Failure> {
    let baseline = match args.baseline {
        true => Some(rounds::baseline(&comparison, arguments)?),
        false => None,
    };
    Ok(Rounds {
        comparison,
        baseline,
        rounds: args.rounds,
    })
}

fn link(args: &Args) -> Result<LinkSpec, Failure> {
    let mut link: LinkSpec = args.link.parse().map_err(|error: LinkSpecError| {
        eprintln!("{error}");
        Failure::AlreadyReported(2)
    })?;
    link.seed = args.seed.unwrap_or(link.seed);
    Ok(link)
}

/// The kernel's name of a candidate's congestion control. A hosted algorithm has none yet: the
/// kernel's Reno, which every kernel has, stands for it while the rest is checked.
fn stand_in(argument: &CandidateArgument) -> Candidate {
    Candidate {
        label: argument.label.clone(),
        congestion_control: match &argument.sender {
            Sender::Hosted(_) => "reno".to_owned(),
            Sender::Kernel(name) => name.clone(),
        },
    }
}

/// One round.
fn comparison<C>(args: &Args, link: LinkSpec, candidates: Vec<Candidate<C>>) -> Comparison<C> {
    Comparison {
        duration: args.duration,
        together: args.together,
        ipv6: args.ipv6,
        program: if args.bulk || args.over != [Transport::Tcp] {
            TrafficProgram::Bulk
        } else {
            TrafficProgram::Iperf3
        },
        tries: args.tries,
        ..Comparison::new(link, candidates)
    }
}

/// What `--json` prints of one round.
#[derive(Serialize)]
struct OneRound<'a> {
    #[serde(flatten)]
    results: &'a Results,
    /// Jain's index of the throughput of algorithms that shared the link.
    #[serde(skip_serializing_if = "Option::is_none")]
    jain: Option<f64>,
}

fn finish(args: &Args, results: &RoundResults) -> Result<(), Failure> {
    let page = match results.rounds.as_slice() {
        [only] if results.baseline.is_none() => {
            let jain = results.jain.map(|jain| jain.median);
            if args.json {
                let results = only;
                output::json(&OneRound { results, jain })?;
            } else {
                output::print(table::table(only, jain))?;
            }
            report::comparison(only)
        }
        _ => {
            if args.json {
                output::json(results)?;
            } else {
                output::print(table::rounds(results))?;
            }
            report::rounds(results)
        }
    };
    report_page::write(&args.report, &page)?;
    Failure::if_fallen_back(results.runs.iter().map(|run| &run.fallback))
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Testbed(error) => error.into(),
            LabError::Cancelled => Self::Interrupted,
            LabError::NoCandidate
            | LabError::TooManyCandidates { .. }
            | LabError::Duration { .. }
            | LabError::SimulatedIpv6
            | LabError::Simulator(_)
            | LabError::Quic(_)
            | LabError::TraceFile { .. }
            | LabError::Trace { .. } => Self::BadInput(error.to_string()),
        }
    }
}

impl From<TestbedError> for Failure {
    fn from(error: TestbedError) -> Self {
        match error {
            TestbedError::Missing(_) => Self::LabMissing(error.to_string()),
            TestbedError::Cancelled => Self::Interrupted,
            TestbedError::Network(_)
            | TestbedError::Timing
            | TestbedError::TooManyFlows { .. }
            | TestbedError::Duration { .. }
            | TestbedError::UnknownCongestionControl { .. } => Self::BadInput(error.to_string()),
            TestbedError::NoEdge
            | TestbedError::Edge(_)
            | TestbedError::Traffic { .. }
            | TestbedError::Part { .. }
            | TestbedError::System { .. } => Self::Other(error.to_string()),
        }
    }
}
