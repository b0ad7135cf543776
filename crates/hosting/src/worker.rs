//! The worker's end: `fairwater host`, a process that hosts algorithms for another process.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// What a worker tells the process that started it, one JSON document a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerMessage {
    /// The algorithms can be chosen, by these names of the kernel's.
    Attached {
        /// The names.
        names: Vec<String>,
    },
    /// Something that an operator should know.
    Notice {
        /// The notice.
        text: String,
    },
    /// The worker ends; its flows are given back.
    Ended,
}

impl WorkerMessage {
    pub(crate) fn parse(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }
}

/// How long the plane has to end by itself: longer than the other process waits.
const END_TIMEOUT: Duration = Duration::from_secs(4);

/// The link to the process that started this one, which is this one's standard input.
#[derive(Debug)]
pub struct Owner {
    stream: UnixStream,
    ended: Arc<AtomicBool>,
}

impl Owner {
    /// Takes the link from standard input. From now on SIGTERM and SIGHUP end this process as
    /// closing the link does; SIGINT does nothing, as Ctrl-C is for the other process.
    ///
    /// # Errors
    /// Standard input is no socket, or signals cannot be handled.
    pub fn from_stdin() -> io::Result<Self> {
        crate::fork::mark_plane_thread();
        let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let ended = Arc::new(AtomicBool::new(false));
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let line = stream.try_clone()?;
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                if signals.forever().any(|signal| signal != SIGINT) {
                    // Fails only where the other end is closed already.
                    let _ = line.shutdown(Shutdown::Read);
                }
            })?;
        let end = Arc::clone(&ended);
        let mut reader = stream.try_clone()?;
        thread::Builder::new()
            .name("owner".to_owned())
            .spawn(move || {
                // Whatever ends reading, the other process does not need this one any more.
                let _ = reader.read_to_end(&mut Vec::new());
                end.store(true, Release);
                // An algorithm that blocks keeps the plane from noticing.
                thread::sleep(END_TIMEOUT);
                signal_hook::low_level::exit(1);
            })?;
        Ok(Self { stream, ended })
    }

    /// Whether this process is to end.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.ended.load(Acquire)
    }

    /// Tells the other process something, if it is still there.
    pub fn tell(&mut self, message: &WorkerMessage) {
        if let Ok(mut line) = serde_json::to_vec(message) {
            line.push(b'\n');
            let _ = self.stream.write_all(&line);
        }
    }
}
