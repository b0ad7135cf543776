//! `fairwater host`: what another `fairwater` runs as a process of its own for algorithms.

use fairwater_hosting::worker::{Owner, WorkerMessage};
use fairwater_hosting::{NamedAlgorithm, resolve_argument};
use fairwater_linux::Options;

use crate::commands::attach::{TcpHost, Tuning};
use crate::failure::Failure;
use crate::hosting;

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
    // Finds errors in any algorithm before the link is taken.
    hosting::plane(&args.algorithms)?;
    let mut owner = Owner::from_stdin().map_err(Failure::io("standard input"))?;
    let options = Options {
        unique_names: args.unique_names,
        ..args.tuning.options()
    };
    let mut host = TcpHost::start(&args.algorithms, options)?;
    let names = host.names();
    owner.tell(&WorkerMessage::Attached { names });
    if let Some(text) = host.adoption_sentence() {
        owner.tell(&WorkerMessage::Notice { text });
    }
    while !owner.has_left() {
        for text in host.turn()? {
            owner.tell(&WorkerMessage::Notice { text });
        }
    }
    drop(host);
    owner.tell(&WorkerMessage::Ended);
    Ok(())
}
