//! `fairwater attach`.

mod default;
mod tcp_notices;

use std::time::{Duration, Instant};

use fairwater_hosting::{
    AlgorithmProcess, NamedAlgorithm, ResolvedAlgorithm, Stop, TURN, finish_all, require_different,
    resolve_argument,
};
use fairwater_linux::{LinuxTcp, MigrationCounts, MovedConnections, Options, observe, probe};
use fairwater_service::{DatapathId, Server, ServiceNotice};

use crate::budget::Budget;
use crate::failure::Failure;
use crate::hosting;
use crate::units::{count, duration, parse_duration};
use default::{ChangedDefault, Places};
use tcp_notices::TcpNotices;

const EXAMPLES: &str = "\
Examples:
  sudo fairwater attach cubic
      and then, for one route:   sudo ip route change … congctl fw_cubic
      or for one iperf3:         iperf3 -C fw_cubic -c …
  sudo fairwater attach cubic --default --move-existing
  sudo fairwater attach cubic:report=10ms reno --silent-after 500ms

Ctrl-C or SIGTERM stops it: moved connections are moved back, the default is restored, the names
are unregistered. After a kill -9, connections go on under Cubic in the kernel. The next `fairwater
attach` restores the default, and one of the same algorithm takes over connections and listeners.";

/// Put algorithms on this machine's TCP until stopped
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Algorithms: `cubic`, `cubic:report=10ms`, or a class in Python, `my_alg.py:MyAlg`;
    /// `fairwater algorithms` lists those in Rust
    #[arg(required = true, value_name = "ALGORITHM", value_parser = resolve_argument)]
    algorithms: Vec<ResolvedAlgorithm>,
    /// Make the first algorithm the default of new connections (sysctl
    /// net.ipv4.tcp_congestion_control)
    #[arg(long)]
    default: bool,
    /// Move the existing connections, in every network namespace, onto the first algorithm; they
    /// are moved back when the command stops
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
    /// How long this process may be silent before its flows go on under Cubic in the kernel
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = parse_silence)]
    silent_after: Duration,
    /// Most flows of an algorithm at once; further flows run under Cubic in the kernel
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
    require_different(&algorithms)?;
    // Finds errors in any algorithm before the first is attached.
    let plane = hosting::plane(&algorithms)?;
    args.budget.check(&plane)?;
    drop(plane);
    probe::probe().require()?;
    let stop = Stop::on_signals().map_err(Failure::io("handling signals"))?;
    let places = Places::of_this_namespace().map_err(Failure::io("the network namespace"))?;
    // A default that cannot be restored is no reason not to attach.
    match default::restore_after_kill(&places) {
        Ok(Some(restored)) => eprintln!("An earlier fairwater was killed: {restored}."),
        Ok(None) => {}
        Err(error) => eprintln!("The default of an earlier fairwater is not restored: {error}."),
    }
    let mut attached = Attached::start(&algorithms, &args.tuning.options())?;
    for name in &attached.names {
        eprintln!("{name} is registered: any TCP socket and any route can choose it.");
    }
    if let Some(sentence) = attached.host.as_ref().and_then(TcpHost::adoption_sentence) {
        eprintln!("{sentence}");
    }
    let first = attached.names.first().cloned().unwrap_or_default();
    let default = args
        .default
        .then(|| ChangedDefault::set(places, &first))
        .transpose()?;
    if let Some(default) = &default {
        let former = default.former();
        eprintln!("New connections use {first}: the default was {former} and will be again.");
    }
    if args.move_existing {
        let moved = attached.moved.move_onto(&first)?;
        eprintln!("{}", migration_sentence(&moved, &first));
    }
    eprintln!(
        "If this process is silent for {}, their flows go on under Cubic in the kernel. Ctrl-C stops.",
        duration(args.tuning.silent_after)
    );
    attached.run(&stop)?;
    if let Some(default) = default {
        match default.restore() {
            Ok(Some(restored)) => eprintln!("Stopping: {restored}."),
            Ok(None) => eprintln!("Stopping: the default is left as it was set meanwhile."),
            Err(error) => eprintln!("Stopping: the default is not restored: {error}."),
        }
    }
    let names = attached.names.join(" and ");
    let flows = attached.finish();
    eprintln!(
        "Stopped: {names} unregistered, {} given back.",
        count(flows, "flow")
    );
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

/// Algorithms on this machine's TCP: those in Rust in this process, each of those in Python in a
/// worker process, so that one that blocks, spins, forks or dies harms its own flows alone, and
/// cannot keep this process from ending.
struct Attached {
    /// The kernel's names, in the algorithms' order.
    names: Vec<String>,
    /// The plane of the algorithms in Rust, if there are any.
    host: Option<TcpHost>,
    moved: MovedConnections,
    processes: Vec<AlgorithmProcess>,
}

impl Attached {
    fn start(algorithms: &[NamedAlgorithm], options: &Options) -> Result<Self, Failure> {
        let in_rust: Vec<_> = algorithms
            .iter()
            .filter(|(_, algorithm)| !algorithm.is_python)
            .cloned()
            .collect();
        let host = if in_rust.is_empty() {
            None
        } else {
            Some(TcpHost::start(&in_rust, *options)?)
        };
        let own: Vec<_> = host.iter().flat_map(TcpHost::names).collect();
        let mut own = own.into_iter();
        let (mut names, mut processes) = (Vec::new(), Vec::new());
        for each in algorithms {
            if each.1.is_python {
                let process = AlgorithmProcess::start(std::slice::from_ref(each), options)?;
                names.extend_from_slice(process.names());
                processes.push(process);
            } else {
                names.extend(own.next());
            }
        }
        Ok(Self {
            names,
            host,
            moved: MovedConnections::default(),
            processes,
        })
    }

    /// Runs the plane until a signal comes, saying what goes wrong.
    fn run(&mut self, stop: &Stop) -> Result<(), Failure> {
        while !stop.is_asked() {
            let mut notices = match &mut self.host {
                Some(host) => host.turn()?,
                None => {
                    std::thread::sleep(TURN);
                    Vec::new()
                }
            };
            for process in &mut self.processes {
                process.drain_notices(&mut notices);
            }
            for notice in notices {
                eprintln!("{notice}");
            }
        }
        Ok(())
    }

    /// Detaches; returns how many flows the algorithms had.
    fn finish(self) -> usize {
        let Self {
            names,
            host,
            mut moved,
            processes,
        } = self;
        let pids: Vec<u32> = processes
            .iter()
            .map(AlgorithmProcess::id)
            .chain([std::process::id()])
            .collect();
        let planes = observe::planes().into_iter();
        let flows = planes
            .filter(|plane| names.contains(&plane.name) && pids.contains(&plane.pid))
            .map(|plane| plane.flows.len())
            .sum();
        moved.give_back_moved();
        let end = finish_all(processes);
        for notice in end.notices {
            eprintln!("{notice}");
        }
        // A worker that had to be killed gave nothing back.
        for name in &end.killed {
            moved.give_back(name);
        }
        drop(host);
        flows
    }
}

/// A plane on this machine's TCP, and what an operator should know of it.
pub(crate) struct TcpHost {
    server: Server,
    tcp: DatapathId,
    notices: TcpNotices,
}

impl TcpHost {
    pub(crate) fn start(algorithms: &[NamedAlgorithm], options: Options) -> Result<Self, Failure> {
        let plane = hosting::plane(algorithms)?;
        let (server, tcp) = fairwater_linux::server(plane, options)?;
        Ok(Self {
            server,
            tcp,
            notices: TcpNotices::new(),
        })
    }

    fn tcp(&self) -> Option<&LinuxTcp> {
        self.server.datapath(self.tcp)
    }

    /// The kernel's names of the algorithms.
    pub(crate) fn names(&self) -> Vec<String> {
        let names = self.tcp().map(LinuxTcp::names);
        names.into_iter().flatten().map(str::to_owned).collect()
    }

    /// What was taken over from earlier planes, if anything.
    pub(crate) fn adoption_sentence(&self) -> Option<String> {
        let adopted = self.tcp()?.adopted();
        let parts: Vec<_> = [
            (adopted.connections, "connection"),
            (adopted.listeners, "listener"),
        ]
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| count(number as usize, what))
        .collect();
        (!parts.is_empty()).then(|| {
            let parts = parts.join(" and ");
            format!("{parts} taken over from an earlier fairwater that ended.")
        })
    }

    /// One turn; returns the notices that it gave rise to.
    pub(crate) fn turn(&mut self) -> Result<Vec<String>, Failure> {
        let turned = self.server.turn(TURN);
        turned.map_err(Failure::io("waiting for events"))?;
        let mut notices = match self.server.datapath(self.tcp) {
            Some(tcp) => self.notices.poll(tcp, Instant::now()),
            None => Vec::new(),
        };
        for notice in self.server.service_mut().drain_notices() {
            notices.push(match notice {
                ServiceNotice::Flow(notice) => {
                    format!("{notice}; it goes on under Cubic in the kernel.")
                }
                other => format!("{other}."),
            });
        }
        Ok(notices)
    }
}

fn migration_sentence(moved: &MigrationCounts, name: &str) -> String {
    let connections = count(moved.connections as usize, "connection");
    let mut text = format!("{connections} moved onto {name}");
    if moved.refused > 0 {
        text += &format!("; the kernel refused {}", moved.refused);
    }
    if moved.namespaces_skipped > 0 {
        text += &format!(
            "; {} could not be entered",
            count(moved.namespaces_skipped as usize, "network namespace")
        );
    }
    text + "."
}
