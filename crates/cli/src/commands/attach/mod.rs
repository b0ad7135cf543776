//! `fairwater attach`.

mod default;
mod troubles;

use std::time::{Duration, Instant};

use fairwater_linux::{Options, SIGNALS, Session, Wakeup, probe};

use crate::algorithm::{self, Chosen};
use crate::failure::Failure;
use crate::guest::{Farewell, Guest};
use crate::hosting::{self, TURN};
use crate::stop::Stop;
use crate::units::{count, duration, parse_duration};
use default::{ChangedDefault, Places, Restored};
use troubles::Troubles;

const EXAMPLES: &str = "\
Examples:
  sudo fairwater attach cubic
      and then, for one route:   sudo ip route change … congctl fw_cubic
      or for one iperf3:         iperf3 -C fw_cubic -c …
  sudo fairwater attach cubic --default --move-existing
  sudo fairwater attach cubic:report=10ms reno --silent-after 500ms

Ctrl-C or SIGTERM stops it: moved connections are moved back, the default is restored, the names
are unregistered. After a kill -9, connections go on under Reno in the kernel, and the next
`fairwater attach` restores the default from /run/fairwater.";

/// Put algorithms on this machine's TCP until stopped
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Algorithms, `cubic` or `cubic:report=10ms`, or in Python `my_alg.py:MyAlg`; `fairwater
    /// algorithms` lists the former
    #[arg(required = true, value_name = "ALGORITHM", value_parser = algorithm::typed)]
    algorithms: Vec<Chosen>,
    /// Make the first the default of new connections (sysctl net.ipv4.tcp_congestion_control)
    #[arg(long)]
    default: bool,
    /// Move the connections that exist, in every network namespace, onto the first; they are moved
    /// back when it stops
    #[arg(long)]
    move_existing: bool,
    #[command(flatten)]
    tuning: Tuning,
}

/// How a process that hosts algorithms for this machine's TCP goes about it.
#[derive(Debug, clap::Args)]
pub(crate) struct Tuning {
    /// How long the algorithms may be silent before flows go on under Reno in the kernel
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = parse_silence)]
    silent_after: Duration,
    /// Collect reports once in this time instead of waking up for each
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    drain: Option<Duration>,
    /// The most flows of an algorithm at once; further ones run under Reno in the kernel
    #[arg(long, value_name = "COUNT", default_value_t = 16_384,
          value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    max_flows: u32,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let algorithms: Vec<_> = args
        .algorithms
        .iter()
        .map(|chosen| (chosen.choice.name().to_owned(), chosen.clone()))
        .collect();
    hosting::require_different(&algorithms)?;
    // Before anything is attached, whatever is wrong with any of them is found.
    hosting::plane("linux", SIGNALS, &algorithms)?;
    let (own, others) = shared_out(algorithms);
    let plane = hosting::plane("linux", SIGNALS, &own)?;
    probe::probe().require()?;
    let stop = Stop::on_signals()?;
    let places = Places::of_this_namespace().map_err(Failure::io("the network namespace"))?;
    if let Some(Restored { from, to }) = default::restore_after_kill(&places)? {
        eprintln!("An earlier fairwater was killed: the default was {from}, and is {to} again.");
    }
    let options = args.tuning.options();
    let mut session = Session::attach(plane, options)?;
    let mut guests = Vec::new();
    for each in &others {
        guests.push(Guest::start(each, &options)?);
    }
    let own = session.names().map(str::to_owned);
    let names: Vec<String> = own
        .chain(guests.iter().flat_map(Guest::names).cloned())
        .collect();
    for name in &names {
        eprintln!("{name} is registered: any TCP socket and any route can choose it.");
    }
    let first = names.first().map_or("", String::as_str);
    let default = args
        .default
        .then(|| ChangedDefault::set(places, first))
        .transpose()?;
    if let Some(default) = &default {
        let former = default.former();
        eprintln!("New connections use {first}: the default was {former} and will be again.");
    }
    if args.move_existing {
        let moved = session.move_existing()?;
        eprintln!("{}", sentence_of(&moved, first));
    }
    eprintln!(
        "If this process is silent for {}, their flows go on under Reno in the kernel. Ctrl-C stops.",
        duration(args.tuning.silent_after)
    );
    serve(
        &mut session,
        || stop.is_asked(),
        || guests.iter_mut().find_map(Guest::news),
    );
    if let Some(default) = default {
        eprintln!("Stopping: the default is {} again.", default.former());
    }
    let mut flows = session.live();
    drop(session);
    for guest in guests {
        let Farewell {
            news,
            flows: theirs,
        } = guest.finish();
        flows += theirs;
        if let Some(news) = news {
            eprintln!("{news}");
        }
    }
    eprintln!(
        "Stopped: {} unregistered, {} given back.",
        names.join(" and "),
        count(flows, "flow")
    );
    stop.check_interrupt()
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
            wakeup: self.drain.map_or(Wakeup::EachReport, Wakeup::Every),
            ..Options::default()
        }
    }
}

type Named = Vec<(String, Chosen)>;

/// What this process hosts, and what others do. An algorithm in Python that blocks or dies is to
/// harm its own flows alone: nothing else is in its process.
fn shared_out(algorithms: Named) -> (Named, Vec<Named>) {
    let python_first = algorithms.first().is_some_and(|(_, first)| first.is_python);
    let (mut python, rust): (Named, Named) = algorithms
        .into_iter()
        .partition(|(_, chosen)| chosen.is_python);
    let mut others: Vec<Named> = Vec::new();
    let own = if python_first {
        let own = vec![python.remove(0)];
        if !rust.is_empty() {
            others.push(rust);
        }
        own
    } else {
        rust
    };
    others.extend(python.into_iter().map(|each| vec![each]));
    (own, others)
}

/// Runs the plane until `stopped`, saying what goes wrong as it does, `others` for its part too.
pub(crate) fn serve(
    session: &mut Session,
    stopped: impl Fn() -> bool,
    mut others: impl FnMut() -> Option<String>,
) {
    let mut troubles = Troubles::new();
    while !stopped() {
        session.turn(TURN);
        for sentence in troubles.news(session, Instant::now()) {
            eprintln!("{sentence}");
        }
        for notice in session.plane_mut().drain_notices() {
            eprintln!("{notice}; it goes on under Reno in the kernel.");
        }
        if let Some(news) = others() {
            eprintln!("{news}");
        }
    }
}

fn sentence_of(moved: &fairwater_linux::Moved, name: &str) -> String {
    let count_moved = count(moved.moved as usize, "connection");
    let mut text = format!("{count_moved} moved onto {name}");
    if moved.refused > 0 {
        text += &format!("; the kernel refused {}", moved.refused);
    }
    if moved.namespaces_skipped > 0 {
        text += &format!(
            "; {} network namespaces could not be entered",
            moved.namespaces_skipped
        );
    }
    text + "."
}
