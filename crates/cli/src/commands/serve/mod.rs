//! `fairwater serve`.

mod flow_changes;
mod summary;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use fairwater_hosting::host::{Host, HostConfig, LinksConfig, runtime_directory};
use fairwater_hosting::{ResolvedAlgorithm, Stop, TURN, resolve_argument};
use fairwater_service::Config;

use crate::budget::Budget;
use crate::failure::Failure;
use crate::hosting::{of_short_form, raise_open_files, remove_sockets_if_stuck};
use crate::output;
use crate::units::parse_duration;
use flow_changes::FlowChanges;
use summary::Summary;

const EXAMPLES: &str = "\
Examples:
  fairwater serve cubic
      and then start any datapath that was written for CCP: libccp looks at /tmp/ccp/portus
  fairwater serve cubic reno:report=10ms --listen /run/user/1000/plane
      a flow asks for an algorithm by name; any other name, or no name, gets the first
  fairwater serve reno --for 30s --json | jq '.algorithms[] | {name, reports}'

Datapaths of Fairwater's library connect to the path of --listen by Unix seqpacket, or, for rings in
shared memory, to the same path with the suffix `.ring`. The path of --ccp takes Unix datagrams in
libccp's encoding or in Fairwater's. Every user who may write to a path may connect. At Ctrl-C or
SIGTERM, the command removes the sockets, and flows go on under the fallback of their datapath.";

/// Host algorithms for datapaths in user space, including those written for CCP
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Algorithms: `cubic`, `cubic:report=10ms`, or a Python class `my_alg.py:MyAlg`; `fairwater
    /// algorithms` lists the built-in algorithms
    #[arg(required = true, value_name = "ALGORITHM", value_parser = resolve_argument)]
    algorithms: Vec<ResolvedAlgorithm>,
    /// Socket for datapaths of Fairwater's library [default: /run/fairwater/plane for root,
    /// $XDG_RUNTIME_DIR/fairwater/plane for others]
    #[arg(long, value_name = "PATH")]
    listen: Option<PathBuf>,
    /// Socket for datapaths written for CCP
    #[arg(long, value_name = "PATH", default_value = "/tmp/ccp/portus")]
    ccp: PathBuf,
    /// Maximum number of connected datapaths; further datapaths are refused
    #[arg(long, value_name = "N", default_value_t = Config::default().max_peers,
        value_parser = clap::value_parser!(u32).range(1..=65_536))]
    max_peers: u32,
    #[command(flatten)]
    budget: Budget,
    /// Stop after this time
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Time to poll shared memory for the next report before sleeping, while reports come that soon;
    /// 0us: never poll
    #[arg(long, value_name = "TIME", default_value = "50us", value_parser = parse_duration)]
    spin: Duration,
    /// Print counts as JSON on standard output at the end
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let algorithms = args
        .algorithms
        .iter()
        .map(|chosen| (chosen.choice.name().to_owned(), chosen.clone()));
    let algorithms: Vec<_> = algorithms.collect();
    let names: Vec<_> = algorithms.iter().map(|(name, _)| name.clone()).collect();
    let listen = match &args.listen {
        Some(path) => path.clone(),
        None => default_path()?,
    };
    let links = LinksConfig {
        ccp: Some(args.ccp.clone()),
        max_peers: args.max_peers,
        spin: args.spin,
        ..LinksConfig::at(listen)
    };
    let config = HostConfig {
        algorithms,
        max_instructions: args.budget.max_instructions,
        links: Some(links.clone()),
        ..HostConfig::default()
    };
    let stop = Stop::on_signals().map_err(Failure::io("handling signals"))?;
    raise_open_files(args.max_peers);
    let mut host = Host::start(config.clone()).map_err(of_short_form)?;
    remove_sockets_if_stuck(&config, &stop)?;
    eprintln!(
        "Hosting {} at {} (rings at {}), and for CCP at {}. Ctrl-C stops.",
        names.join(" and "),
        links.listen.display(),
        links.ring().display(),
        args.ccp.display()
    );
    serve(&mut host, &stop, args.duration)?;
    let summary = Summary::of(host.service());
    drop(host);
    eprintln!("Stopped: the sockets are removed, {summary}.");
    if args.json {
        output::json(&summary)?;
    }
    Failure::if_interrupted(&stop)
}

fn serve(host: &mut Host, stop: &Stop, duration: Option<Duration>) -> Result<(), Failure> {
    let start = Instant::now();
    let mut flow_changes = FlowChanges::default();
    while !stop.is_asked() && duration.is_none_or(|most| start.elapsed() < most) {
        let left = duration.map_or(TURN, |most| most.saturating_sub(start.elapsed()));
        let notices = host
            .turn(left.min(TURN))
            .map_err(Failure::io("waiting for datapaths"))?;
        notices.iter().for_each(|notice| eprintln!("{notice}"));
        if let Some(sentence) = flow_changes.sentence(&host.service().statistics(), Instant::now())
        {
            eprintln!("{sentence}");
        }
    }
    Ok(())
}

/// A directory in which nobody else can replace the sockets.
fn default_path() -> Result<PathBuf, Failure> {
    let directory = runtime_directory().ok_or_else(|| {
        Failure::BadInput(
            "$XDG_RUNTIME_DIR is not set, so there is no usual place for the sockets: name one \
             with --listen PATH"
                .to_owned(),
        )
    })?;
    Ok(directory.join("plane"))
}
