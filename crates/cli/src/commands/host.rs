//! `fairwater host`: what another `fairwater` runs as a process of its own for algorithms.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;
use std::time::Duration;

use fairwater_linux::{SIGNALS, Session};
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;

use crate::algorithm::{self, Chosen};
use crate::commands::attach::{self, Tuning};
use crate::failure::Failure;
use crate::hosting;
use crate::stop::Stop;

/// Put algorithms on this machine's TCP for another process, until it closes standard input
///
/// Standard input is a socket. To it, it writes the kernel's names when they can be chosen, one a
/// line, and an empty line; at the end, how many flows it gave back. What it prints is for people.
/// SIGTERM is the end too.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// `NAME=ALGORITHM`
    #[arg(required = true, value_name = "NAME=ALGORITHM", value_parser = named)]
    algorithms: Vec<(String, Chosen)>,
    #[command(flatten)]
    tuning: Tuning,
}

fn named(text: &str) -> Result<(String, Chosen), String> {
    let (name, text) = text
        .split_once('=')
        .ok_or("not of the form NAME=ALGORITHM")?;
    let chosen = algorithm::typed(text).map_err(|unknown| unknown.to_string())?;
    Ok((name.to_owned(), chosen))
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let plane = hosting::plane("linux", SIGNALS, &args.algorithms)?;
    // Ctrl-C is for the process that started this one, which ends it.
    let _stop = Stop::on_signals()?;
    let mut session = Session::attach(plane, args.tuning.options())?;
    let names: Vec<_> = session.names().collect();
    let owner = io::stdin().as_fd().try_clone_to_owned();
    let mut owner = UnixStream::from(owner.map_err(Failure::io("standard input"))?);
    let line = owner.try_clone().map_err(Failure::io("standard input"))?;
    let ended = until_closed(line)?;
    owner
        .write_all(format!("{}\n\n", names.join("\n")).as_bytes())
        .map_err(Failure::io("standard input"))?;
    attach::serve(&mut session, || ended.load(Acquire), || None);
    let flows = session.live();
    drop(session);
    // The other process may be gone.
    let _ = owner.write_all(format!("{flows}\n").as_bytes());
    Ok(())
}

/// How long the plane has to end by itself: longer than the other process waits for it.
const LAST_CALL: Duration = Duration::from_secs(4);

/// Set once the other end is closed, or SIGTERM came.
fn until_closed(mut owner: UnixStream) -> Result<Arc<AtomicBool>, Failure> {
    let ended = Arc::new(AtomicBool::new(false));
    let line = owner.try_clone().map_err(Failure::io("standard input"))?;
    let mut terminations = Signals::new([SIGTERM]).map_err(Failure::io("handling signals"))?;
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            if terminations.forever().next().is_some() {
                // Fails only where the other end is closed already.
                let _ = line.shutdown(Shutdown::Read);
            }
        })
        .map_err(Failure::io("a thread"))?;
    let end = Arc::clone(&ended);
    thread::Builder::new()
        .name("owner".to_owned())
        .spawn(move || {
            // Whatever ends reading, nobody is there any more.
            let _ = owner.read_to_end(&mut Vec::new());
            end.store(true, Release);
            // An algorithm that blocks keeps the plane from seeing it.
            thread::sleep(LAST_CALL);
            signal_hook::low_level::exit(1);
        })
        .map_err(Failure::io("a thread"))?;
    Ok(ended)
}
