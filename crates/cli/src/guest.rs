//! Algorithms in a process of their own, so that one that blocks or dies harms its own flows
//! alone: each process has its own heartbeat.

use std::io::{self, BufRead, BufReader, Read};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use fairwater_linux::{Options, Wakeup};

use crate::algorithm::{self, Chosen};
use crate::failure::Failure;

/// How long a process may take to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(2);

/// A process that runs `fairwater host`; it ends when this is finished or dropped, or this process
/// ends.
#[derive(Debug)]
pub(crate) struct Guest {
    names: Vec<String>,
    child: Child,
    /// Its standard input: while it is open, the process goes on.
    line: UnixStream,
    said: bool,
}

impl Guest {
    /// Starts the process and waits until its algorithms, each with the name before it, are
    /// attached. What it has to say of its flows it says on standard error.
    pub(crate) fn start(
        algorithms: &[(String, Chosen)],
        options: &Options,
    ) -> Result<Self, Failure> {
        let starting = Failure::io("starting a process for algorithms");
        let mut command = match algorithm::again() {
            Ok(command) => command,
            Err(error) => return Err(starting(error)),
        };
        command.arg("host");
        for (name, chosen) in algorithms {
            command.arg(format!("{name}={}", chosen.text));
        }
        command
            .arg(format!(
                "--silent-after={}us",
                options.silent_after.as_micros()
            ))
            .arg(format!("--max-flows={}", options.max_flows));
        if let Wakeup::Every(period) = options.wakeup {
            command.arg(format!("--drain={}us", period.as_micros()));
        }
        let mut spawned = || -> io::Result<_> {
            let (line, theirs) = UnixStream::pair()?;
            // What algorithms print is for people: standard output is what was asked for alone.
            let aside = io::stderr().as_fd().try_clone_to_owned()?;
            command.stdin(OwnedFd::from(theirs)).stdout(aside);
            Ok((command.spawn()?, line))
        };
        let (child, line) = spawned().map_err(starting)?;
        // It was given away, and is closed here with the command.
        drop(command);
        let mut guest = Self {
            names: Vec::new(),
            child,
            line,
            said: false,
        };
        let lost = || Failure::io("the process of an algorithm");
        let read = guest.line.try_clone().map_err(lost())?;
        for line in BufReader::new(read).lines() {
            let line = line.map_err(lost())?;
            if line.is_empty() {
                return Ok(guest);
            }
            guest.names.push(line);
        }
        let status = guest.child.wait().map_err(lost())?;
        Err(match status.code() {
            // It has said why.
            Some(code) => Failure::Said(u8::try_from(code).unwrap_or(1)),
            None => Failure::Other(format!(
                "the process of an algorithm ended before it was attached ({status})"
            )),
        })
    }

    /// The kernel's names of the algorithms.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Says once that the process ended by itself, if it did.
    pub(crate) fn news(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        (!std::mem::replace(&mut self.said, true)).then(|| self.obituary(status))
    }

    /// Ends the process.
    pub(crate) fn finish(mut self) -> Farewell {
        Farewell {
            news: self.news(),
            flows: self.end(),
        }
    }

    fn obituary(&self, status: ExitStatus) -> String {
        format!(
            "The process of {} ended ({status}); its flows go on under Reno in the kernel.",
            self.names.join(" and ")
        )
    }

    /// Ends the process; returns how many flows it gave back.
    fn end(&mut self) -> usize {
        // It is closed already when the process has ended.
        let _ = self.line.shutdown(Shutdown::Write);
        let since = Instant::now();
        while let Ok(None) = self.child.try_wait() {
            if since.elapsed() > PATIENCE {
                // It may have ended just now.
                let _ = self.child.kill();
                let _ = self.child.wait();
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        // Whoever was killed said nothing, and gave nothing back. What it started may still hold the
        // other end.
        let mut last_words = [0; 32];
        let patient = self.line.set_read_timeout(Some(Duration::from_millis(10)));
        let read = patient.and_then(|()| self.line.read(&mut last_words));
        let said = str::from_utf8(&last_words[..read.unwrap_or(0)]);
        said.ok().and_then(|n| n.trim().parse().ok()).unwrap_or(0)
    }
}

/// What is left of a process that was ended.
#[derive(Debug)]
pub(crate) struct Farewell {
    /// Said if it had ended by itself, and that was not said before.
    pub(crate) news: Option<String>,
    /// Flows that it gave back.
    pub(crate) flows: usize,
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.end();
    }
}
