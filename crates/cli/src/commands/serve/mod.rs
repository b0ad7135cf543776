//! `fairwater serve`.

mod news;
mod summary;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use fairwater_plane::SignalSet;
use fairwater_plane::serve::{Config, Endpoints, Server};

use crate::algorithm::{self, Chosen};
use crate::failure::Failure;
use crate::hosting::{self, TURN};
use crate::output;
use crate::stop::Stop;
use crate::units::parse_duration;
use news::News;
use summary::Summary;

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
    #[arg(required = true, value_name = "ALGORITHM", value_parser = algorithm::typed)]
    algorithms: Vec<Chosen>,
    /// Where datapaths of Fairwater's library connect
    #[arg(long, value_name = "PATH", default_value = "/tmp/fairwater/plane")]
    listen: PathBuf,
    /// Where datapaths written for CCP send
    #[arg(long, value_name = "PATH", default_value = "/tmp/ccp/portus")]
    ccp: PathBuf,
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
    hosting::require_different(&algorithms)?;
    let plane = hosting::plane("served", SignalSet::ALL, &algorithms)?;
    let stop = Stop::on_signals()?;
    let endpoints = Endpoints {
        datagram: Some(args.ccp.clone()),
        seqpacket: Some(args.listen.clone()),
        ring: Some(ring_path(&args.listen)),
        spin: args.spin,
    };
    let config = Config {
        instance: instance(),
        ..Config::default()
    };
    let mut server = Server::bind(plane, config, &endpoints)
        .map_err(|error| Failure::Other(format!("cannot serve there: {error}")))?;
    let names: Vec<_> = algorithms.iter().map(|(name, _)| name.as_str()).collect();
    eprintln!(
        "Hosting {} at {} (rings at {}), and for CCP at {}. Ctrl-C stops.",
        names.join(" and "),
        args.listen.display(),
        ring_path(&args.listen).display(),
        args.ccp.display()
    );
    serve(&mut server, &stop, args.duration)?;
    let summary = Summary::of(server.service());
    drop(server);
    eprintln!("Stopped: the sockets are removed, {summary}.");
    if args.json {
        output::json(&summary)?;
    }
    stop.check_interrupt()
}

fn serve(server: &mut Server, stop: &Stop, duration: Option<Duration>) -> Result<(), Failure> {
    let start = Instant::now();
    let mut news = News::default();
    while !stop.is_asked() && duration.is_none_or(|most| start.elapsed() < most) {
        let left = duration.map_or(TURN, |most| most.saturating_sub(start.elapsed()));
        server
            .turn(left.min(TURN))
            .map_err(Failure::io("waiting for datapaths"))?;
        for notice in server.service_mut().drain_notices() {
            eprintln!("{notice}.");
        }
        if let Some(sentence) = news.sentence(&server.service().statistics(), Instant::now()) {
            eprintln!("{sentence}");
        }
    }
    Ok(())
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
