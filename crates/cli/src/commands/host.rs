//! `fairwater host`: what another `fairwater` runs as a process of its own for algorithms.

use fairwater_hosting::host::{Host, HostConfig, LinuxConfig};
use fairwater_hosting::worker::{Owner, WorkerMessage};
use fairwater_hosting::{NamedAlgorithm, TURN, resolve_argument};
use fairwater_linux::Options;

use crate::commands::attach::Tuning;
use crate::failure::Failure;

/// Put algorithms on this machine's TCP for another process, until it closes standard input
///
/// Standard input is a socket, which also carries messages to that process
/// (`fairwater_hosting::worker`). SIGTERM ends it too.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// `NAME=ALGORITHM`
    #[arg(required = true, value_name = "NAME=ALGORITHM", value_parser = named)]
    algorithms: Vec<NamedAlgorithm>,
    /// Register names for this run alone, so that others can use the algorithms meanwhile
    #[arg(long)]
    unique_names: bool,
    #[command(flatten)]
    tuning: Tuning,
}

fn named(text: &str) -> Result<NamedAlgorithm, String> {
    let (name, text) = text
        .split_once('=')
        .ok_or("not of the form NAME=ALGORITHM")?;
    let algorithm = resolve_argument(text).map_err(|error| error.to_string())?;
    Ok((name.to_owned(), algorithm))
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut owner = Owner::from_stdin().map_err(Failure::io("standard input"))?;
    let mut host = Host::start(HostConfig {
        algorithms: args.algorithms.clone(),
        python_in_process: true,
        max_instructions: usize::MAX,
        linux: Some(LinuxConfig {
            options: Options {
                unique_names: args.unique_names,
                ..args.tuning.options()
            },
            ..LinuxConfig::default()
        }),
        ..HostConfig::default()
    })?;
    // Whoever started this process tells of the names.
    host.drain_notices();
    let names = host.names().map(str::to_owned).collect();
    owner.tell(&WorkerMessage::Attached { names });
    if let Some(text) = host.adoption() {
        owner.tell(&WorkerMessage::Notice { text });
    }
    while !owner.has_left() {
        for text in host.turn(TURN).map_err(Failure::io("waiting for events"))? {
            owner.tell(&WorkerMessage::Notice { text });
        }
    }
    drop(host);
    owner.tell(&WorkerMessage::Ended);
    Ok(())
}
