//! What flows lose when their algorithm is changed again and again: throughput of an emulated path
//! against the same flows left alone, the longest time that a flow got nothing through, and fallbacks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fairwater_lab::{Candidate, Comparison};
use fairwater_linux::{LinuxTcp, Options};
use fairwater_plane::Plane;
use fairwater_results::TrafficProgram;

use crate::statistics::Rounds;

/// How to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The algorithm that the flows have at first.
    #[arg(long, default_value = "cubic")]
    from: String,
    /// The one that they change to, and back from.
    #[arg(long, default_value = "reno")]
    to: String,
    /// The path.
    #[arg(long, default_value = "200mbit 20ms 1bdp")]
    link: String,
    /// Flows at once.
    #[arg(long, default_value_t = 64)]
    flows: usize,
    /// Times that all flows go there and back.
    #[arg(long, default_value_t = 1000)]
    times: u32,
    /// Milliseconds from one change to the next.
    #[arg(long, default_value_t = 20)]
    every_ms: u64,
    /// Rounds; each measures both.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// Seconds before the first change, in which the flows fill the path.
const BEFORE: u64 = 4;

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (mut ratio, mut stall_ms) = (Rounds::default(), Rounds::default());
    let (mut changes, mut fallbacks) = (0, 0);
    for round in 1..=arguments.rounds {
        let switched = || measure(arguments, true);
        let alone = || measure(arguments, false);
        let (a, b) = if round % 2 == 0 {
            (switched()?, alone()?)
        } else {
            let alone = alone()?;
            (switched()?, alone)
        };
        eprintln!(
            "round {round}: {:.1} of {:.1} Mbit/s, {} changes, a flow got nothing for {:.0} ms at most \
             ({:.0} left alone)",
            a.bps / 1e6,
            b.bps / 1e6,
            a.changes,
            a.stall_ms,
            b.stall_ms,
        );
        ratio.push(a.bps / b.bps);
        stall_ms.push(a.stall_ms);
        changes += a.changes;
        fallbacks += a.fallbacks;
    }
    println!(
        "{} flows on {}, from {} to {} and back each {} ms: {ratio:.3} of the throughput, a flow got \
         nothing for {stall_ms:.0} ms at most; {fallbacks} fallbacks in {changes} changes of a flow",
        arguments.flows,
        arguments.link,
        arguments.from,
        arguments.to,
        2 * arguments.every_ms,
    );
    Ok(())
}

/// What a run measured while flows were changed.
struct Measured {
    bps: f64,
    /// Longest time in which some flow got nothing through the path, ms.
    stall_ms: f64,
    changes: u64,
    fallbacks: u64,
}

fn measure(arguments: &Arguments, switch: bool) -> anyhow::Result<Measured> {
    let plane = Switched::start(arguments, switch)?;
    let during = Duration::from_millis(2 * arguments.every_ms) * arguments.times;
    let candidate = Candidate {
        label: arguments.from.clone(),
        congestion_control: format!("fw_{}", arguments.from),
    };
    let comparison = Comparison {
        duration: Duration::from_secs(BEFORE) + during,
        program: TrafficProgram::Bulk,
        together: true,
        tries: 1,
        ..Comparison::new(arguments.link.parse()?, vec![candidate; arguments.flows])
    };
    let results = fairwater_lab::run(&comparison, &AtomicBool::new(false), &mut |progress| {
        if progress.elapsed >= Duration::from_secs(BEFORE) {
            plane.begin.store(true, Ordering::Release);
        }
    })?;
    let work = plane.stop();
    if results.runs.iter().any(|run| run.disturbed) {
        eprintln!("disturbed by other load on the machine");
    }
    let (mut bps, mut stall_ms) = (0.0, 0.0_f64);
    for run in &results.runs {
        let series: Vec<_> = run
            .series
            .link
            .iter()
            .filter(|interval| interval.at_s >= BEFORE as f64)
            .collect();
        let sum: f64 = series.iter().map(|interval| interval.throughput_bps).sum();
        bps += sum / series.len().max(1) as f64;
        let step_ms = match series.as_slice() {
            [first, second, ..] => (second.at_s - first.at_s) * 1e3,
            _ => 0.0,
        };
        let still = series.split(|interval| interval.throughput_bps > 0.0);
        let longest = still.map(<[_]>::len).max().unwrap_or(0);
        stall_ms = stall_ms.max(longest as f64 * step_ms);
    }
    Ok(Measured {
        bps,
        stall_ms,
        changes: work.changes,
        fallbacks: work.fallbacks,
    })
}

/// A plane in a thread that hands all its flows over again and again, once it is told to begin.
struct Switched {
    begin: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Work>,
}

#[derive(Default)]
struct Work {
    changes: u64,
    fallbacks: u64,
}

impl Switched {
    fn start(arguments: &Arguments, switch: bool) -> anyhow::Result<Self> {
        let choices =
            [&arguments.from, &arguments.to].map(|spec| fairwater_algorithms::by_spec(spec));
        let [from, to] = choices;
        let (from, to) = (from?, to?);
        let (begin, stop) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let (beginning, stopping) = (Arc::clone(&begin), Arc::clone(&stop));
        let every = Duration::from_millis(arguments.every_ms);
        let most = 2 * arguments.times;
        let (tell, told) = mpsc::channel::<anyhow::Result<()>>();
        let thread = std::thread::spawn(move || {
            let mut plane = Plane::new();
            let attached = plane
                .add(|programs| from.build(programs))
                .and_then(|_| plane.add(|programs| to.build(programs)))
                .map_err(anyhow::Error::from)
                .and_then(|_| Ok(fairwater_linux::server(plane, Options::default())?));
            let (mut server, tcp) = match attached {
                Ok(attached) => attached,
                Err(error) => {
                    let _ = tell.send(Err(error));
                    return Work::default();
                }
            };
            let _ = tell.send(Ok(()));
            let mut work = Work::default();
            let (mut next, mut done) = (Instant::now(), 0);
            while !stopping.load(Ordering::Acquire) && server.turn(every / 2).is_ok() {
                let due = switch && beginning.load(Ordering::Acquire) && Instant::now() >= next;
                if !due || done == most {
                    continue;
                }
                next = Instant::now() + every;
                done += 1;
                let flows: Vec<_> = server.service().flows().collect();
                for flow in flows {
                    let changed = server.service_mut().hand_over(flow, (done % 2) as usize);
                    work.changes += u64::from(changed.is_ok());
                }
            }
            let withdrawn = server.service().plane().algorithms().iter();
            let withdrawn: u64 = withdrawn.map(|hosted| hosted.statistics().withdrawn).sum();
            let silent = server
                .datapath::<LinuxTcp>(tcp)
                .map_or(0, LinuxTcp::fallbacks);
            work.fallbacks = withdrawn + silent;
            work
        });
        told.recv()??;
        Ok(Self {
            begin,
            stop,
            thread,
        })
    }

    fn stop(self) -> Work {
        self.stop.store(true, Ordering::Release);
        self.thread.join().unwrap_or_default()
    }
}
