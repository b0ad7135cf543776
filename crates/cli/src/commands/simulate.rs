//! `fairwater simulate`: what another `fairwater` runs as a process of its own for simulations, so that an
//! algorithm that blocks or kills its process is found out, and not joined.

use std::io::{self, BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use fairwater_experiment::Backend;
use fairwater_hosting::FolderResolver;
use fairwater_lab::points::simulated;
use fairwater_net::Time;
use fairwater_results::PointResult;
use fairwater_scenario::Scenario;
use fairwater_sim::Observer;
use serde::{Deserialize, Serialize};

use crate::commands::run::grid;
use crate::failure::Failure;

/// Simulate for another process, until it closes standard input
///
/// Standard input is a socket: requests come and replies go as lines of JSON.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// One run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Run {
    /// Text of the scenario.
    pub(crate) source: String,
    /// The point of its grid.
    pub(crate) index: usize,
    /// Whether flows and links are sampled even where the scenario asks for no samples.
    pub(crate) is_sampled: bool,
}

/// A run to simulate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    /// The run.
    pub(crate) run: Run,
    /// The folder that its files are relative to.
    pub(crate) folder: PathBuf,
}

/// What becomes of a run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    /// The run has come so far.
    At {
        /// Virtual time, s.
        at_s: f64,
    },
    /// The run is done.
    Done {
        /// What it measured.
        result: Box<PointResult>,
    },
    /// It cannot be run.
    Refused {
        /// Why.
        text: String,
    },
}

/// Time between two replies about progress.
const TELL_EVERY: Duration = Duration::from_millis(500);

/// How long this process goes on in a run once the other process is gone.
const END_TIMEOUT: Duration = Duration::from_millis(500);

pub(crate) fn run(_: &Args) -> Result<(), Failure> {
    let failed = || Failure::io("standard input");
    let socket = io::stdin().as_fd().try_clone_to_owned().map_err(failed())?;
    let mut stream = UnixStream::from(socket);
    let reader = BufReader::new(stream.try_clone().map_err(failed())?);
    let (requests, received) = mpsc::channel();
    thread::Builder::new()
        .name("requests".to_owned())
        .spawn(move || {
            for line in reader.lines().map_while(Result::ok) {
                if requests.send(line).is_err() {
                    return;
                }
            }
            drop(requests);
            // A run that blocks would never notice.
            thread::sleep(END_TIMEOUT);
            std::process::exit(1);
        })
        .map_err(failed())?;
    for line in received {
        let reply = match serde_json::from_str(&line) {
            Ok(request) => simulate(&request, &mut stream),
            Err(error) => Reply::Refused {
                text: error.to_string(),
            },
        };
        tell(&mut stream, &reply).map_err(failed())?;
    }
    Ok(())
}

fn tell(stream: &mut UnixStream, reply: &Reply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    stream.write_all(&line)
}

fn simulate(request: &Request, stream: &mut UnixStream) -> Reply {
    let refused = |text: String| Reply::Refused { text };
    let resolver = FolderResolver::new(&request.folder);
    let parsed = Scenario::parse(
        "scenario.toml",
        &request.run.source,
        Backend::Sim,
        &resolver,
    );
    let scenario = match parsed {
        Ok(scenario) => scenario,
        Err(diagnostics) => return refused(diagnostics.render(false)),
    };
    let point = match request.run.is_sampled {
        true => scenario.sampled_point(request.run.index),
        false => scenario.point(request.run.index),
    };
    let plane = match grid::plane(&point, &request.folder) {
        Ok(plane) => plane,
        Err(failure) => return refused(failure.to_string()),
    };
    let mut observer = Telling {
        stream,
        last: Instant::now(),
    };
    match fairwater_sim::run(&point.experiment, plane, &mut observer) {
        Ok(outcome) => Reply::Done {
            result: Box::new(simulated(&point, &outcome)),
        },
        Err(error) => refused(error.to_string()),
    }
}

/// Tells the other process how far a run is.
struct Telling<'a> {
    stream: &'a mut UnixStream,
    last: Instant,
}

impl Observer for Telling<'_> {
    fn progress(&mut self, now: Time) -> ControlFlow<()> {
        if self.last.elapsed() < TELL_EVERY {
            return ControlFlow::Continue(());
        }
        self.last = Instant::now();
        let at = Reply::At {
            at_s: now.as_secs_f64(),
        };
        match tell(self.stream, &at) {
            Ok(()) => ControlFlow::Continue(()),
            // Nobody is there any more.
            Err(_) => ControlFlow::Break(()),
        }
    }
}
