//! `fairwater serve`.

mod flow_changes;
mod summary;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use fairwater_hosting::{ResolvedAlgorithm, Stop, TURN, require_different, resolve_argument};
use fairwater_service::{Config, Endpoints, Server};
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};

use crate::budget::Budget;
use crate::failure::Failure;
use crate::hosting;
use crate::output;
use crate::units::parse_duration;
use flow_changes::FlowChanges;
use summary::Summary;

/// Files open besides those of peers: sockets, timers, and those of processes of algorithms.
const OTHER_FILES: u64 = 256;

const EXAMPLES: &str = "\
Examples:
  fairwater serve cubic
      and then start any datapath that was written for CCP: libccp looks at /tmp/ccp/portus
  fairwater serve cubic reno:report=10ms --listen /run/user/1000/plane
      a datapath chooses by name; one that asks for no name, or for another, gets the first
  fairwater serve reno --for 30s --json | jq '.algorithms[] | {name, reports}'

Datapaths of Fairwater's library connect to the path of --listen by Unix seqpacket, or for rings in
shared memory to the same path with `.ring` behind it. The path of --ccp takes Unix datagrams in
libccp's encoding or in ours. Who may write to a path may connect. Ctrl-C or SIGTERM stops it and
removes the sockets; flows then go on under the fallback of their datapath.";

/// Host algorithms for datapaths in user space, those written for CCP included
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Algorithms, `cubic` or `cubic:report=10ms`, or in Python `my_alg.py:MyAlg`; `fairwater
    /// algorithms` lists the former
    #[arg(required = true, value_name = "ALGORITHM", value_parser = resolve_argument)]
    algorithms: Vec<ResolvedAlgorithm>,
    /// Where datapaths of Fairwater's library connect [default: /run/fairwater/plane for root,
    /// $XDG_RUNTIME_DIR/fairwater/plane for others]
    #[arg(long, value_name = "PATH")]
    listen: Option<PathBuf>,
    /// Where datapaths written for CCP send
    #[arg(long, value_name = "PATH", default_value = "/tmp/ccp/portus")]
    ccp: PathBuf,
    /// How many datapaths may be connected at once; more are refused until one leaves
    #[arg(long, value_name = "N", default_value_t = Config::default().max_peers,
        value_parser = clap::value_parser!(u32).range(1..=65_536))]
    max_peers: u32,
    #[command(flatten)]
    budget: Budget,
    /// Stop after this time
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Look for reports in shared memory for up to this long before sleeping, while they come that
    /// soon; 0us never does
    #[arg(long, value_name = "TIME", default_value = "50us", value_parser = parse_duration)]
    spin: Duration,
    /// Print counts as JSON on standard output in the end
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let algorithms: Vec<_> = args
        .algorithms
        .iter()
        .map(|chosen| (chosen.choice.name().to_owned(), chosen.clone()))
        .collect();
    require_different(&algorithms)?;
    let plane = hosting::plane(&algorithms)?;
    args.budget.check(&plane)?;
    let stop = Stop::on_signals().map_err(Failure::io("handling signals"))?;
    let listen = match &args.listen {
        Some(path) => path.clone(),
        None => default_path()?,
    };
    let endpoints = Endpoints {
        datagram: Some(args.ccp.clone()),
        seqpacket: Some(listen.clone()),
        ring: Some(ring_path(&listen)),
        spin: args.spin,
    };
    let config = Config {
        instance: instance(),
        max_peers: args.max_peers,
        ..Config::default()
    };
    raise_open_files(args.max_peers);
    let mut server = Server::bind(plane, config, &endpoints).map_err(|error| {
        Failure::Other(format!("cannot serve: {error}; see --listen and --ccp"))
    })?;
    if algorithms.iter().any(|(_, algorithm)| algorithm.is_python) {
        let sockets = [args.ccp.clone(), listen.clone(), ring_path(&listen)];
        let remove = move || sockets.iter().for_each(|path| drop(fs::remove_file(path)));
        stop.exit_if_stuck(remove)
            .map_err(Failure::io("handling signals"))?;
    }
    let names: Vec<_> = algorithms.iter().map(|(name, _)| name.as_str()).collect();
    eprintln!(
        "Hosting {} at {} (rings at {}), and for CCP at {}. Ctrl-C stops.",
        names.join(" and "),
        listen.display(),
        ring_path(&listen).display(),
        args.ccp.display()
    );
    serve(&mut server, &stop, args.duration)?;
    let summary = Summary::of(server.service());
    drop(server);
    eprintln!("Stopped: the sockets are removed, {summary}.");
    if args.json {
        output::json(&summary)?;
    }
    Failure::if_interrupted(&stop)
}

fn serve(server: &mut Server, stop: &Stop, duration: Option<Duration>) -> Result<(), Failure> {
    let start = Instant::now();
    let mut flow_changes = FlowChanges::default();
    while !stop.is_asked() && duration.is_none_or(|most| start.elapsed() < most) {
        let left = duration.map_or(TURN, |most| most.saturating_sub(start.elapsed()));
        server
            .turn(left.min(TURN))
            .map_err(Failure::io("waiting for datapaths"))?;
        for notice in server.service_mut().drain_notices() {
            eprintln!("{notice}.");
        }
        if let Some(sentence) =
            flow_changes.sentence(&server.service().statistics(), Instant::now())
        {
            eprintln!("{sentence}");
        }
    }
    Ok(())
}

/// A directory in which nobody else can replace the sockets.
fn default_path() -> Result<PathBuf, Failure> {
    let runtime = if geteuid().is_root() {
        PathBuf::from("/run")
    } else {
        let directory = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
        directory.map(PathBuf::from).ok_or_else(|| {
            Failure::BadInput(
                "$XDG_RUNTIME_DIR is not set, so there is no usual place for the sockets: name one \
                 with --listen PATH"
                    .to_owned(),
            )
        })?
    };
    Ok(runtime.join("fairwater/plane"))
}

/// Lets this process open the files of so many peers, as far as its hard limit allows.
fn raise_open_files(max_peers: u32) {
    let needed = u64::from(max_peers) * Server::FILES_PER_PEER + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(needed, |most| most.min(needed));
    if limit.current.is_some_and(|now| now < wanted) {
        let raised = Rlimit {
            current: Some(wanted),
            ..limit
        };
        // Within the hard limit this is allowed; if not, the server says when files run out.
        let _ = setrlimit(Resource::Nofile, raised);
    }
}

fn ring_path(listen: &Path) -> PathBuf {
    let mut path = listen.as_os_str().to_owned();
    path.push(".ring");
    path.into()
}

/// Another number for each start.
fn instance() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let nanoseconds = since.map_or(1, |since| since.as_nanos());
    // The low bits: those that differ between starts.
    (nanoseconds & u128::from(u64::MAX)) as u64
}
