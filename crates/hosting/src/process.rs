//! Algorithms in a worker process, so that an algorithm that blocks or dies harms its own flows
//! alone: each process has its own heartbeat.

use std::io::{self, BufRead, BufReader};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use fairwater_linux::Options;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::NamedAlgorithm;
use crate::resolve;
use crate::worker::WorkerMessage;

/// How long a process may take to end when it is asked to.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// A process that runs `fairwater host`, with everything that it started in its process group; they
/// end when this is finished or dropped, or this process ends.
#[derive(Debug)]
pub struct AlgorithmProcess {
    names: Vec<String>,
    child: Child,
    /// The process's standard input: while it is open, the process goes on.
    stream: UnixStream,
    messages: Receiver<WorkerMessage>,
    ended: bool,
    end_announced: bool,
    /// Whether the process ended in good order, and so gave its flows back.
    gave_back: bool,
}

/// Why a worker process did not host its algorithms.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// The process could not be started.
    #[error("cannot start a process for algorithms: {0}")]
    Start(io::Error),
    /// The process ended before its algorithms were attached; it has said why on standard error.
    #[error("exit code {0}")]
    Exited(u8),
    /// A signal ended the process before its algorithms were attached.
    #[error("the process of an algorithm ended before it was attached ({0})")]
    Killed(ExitStatus),
}

impl AlgorithmProcess {
    /// Starts the process and waits until its algorithms, each with the name before it, are
    /// attached.
    ///
    /// # Errors
    /// The process could not be started, or ended at once.
    pub fn start(algorithms: &[NamedAlgorithm], options: &Options) -> Result<Self, ProcessError> {
        let mut command = resolve::own_command().map_err(ProcessError::Start)?;
        command.arg("host");
        for (name, algorithm) in algorithms {
            command.arg(format!("{name}={}", algorithm.spec));
        }
        command
            .arg(format!(
                "--silent-after={}us",
                options.silent_after.as_micros()
            ))
            .arg(format!("--max-flows={}", options.max_flows));
        if options.unique_names {
            command.arg("--unique-names");
        }
        let mut spawned = || -> io::Result<_> {
            let (stream, theirs) = UnixStream::pair()?;
            // What algorithms print is for people: standard output carries results alone.
            let stdout = io::stderr().as_fd().try_clone_to_owned()?;
            command
                .stdin(OwnedFd::from(theirs))
                .stdout(stdout)
                // What an algorithm forks is ended with it, as a group.
                .process_group(0);
            let child = command.spawn()?;
            Ok((child, stream))
        };
        let (child, stream) = spawned().map_err(ProcessError::Start)?;
        // The other end was given away, and is closed here with the command.
        drop(command);
        let reader = stream.try_clone().map_err(ProcessError::Start)?;
        let mut process = Self {
            names: Vec::new(),
            child,
            stream,
            messages: receive(reader).map_err(ProcessError::Start)?,
            ended: false,
            end_announced: false,
            gave_back: false,
        };
        match process.messages.recv() {
            Ok(WorkerMessage::Attached { names }) => {
                process.names = names;
                Ok(process)
            }
            _ => {
                let status = process.child.wait().map_err(ProcessError::Start)?;
                process.ended = true;
                Err(match status.code() {
                    Some(code) => ProcessError::Exited(u8::try_from(code).unwrap_or(1)),
                    None => ProcessError::Killed(status),
                })
            }
        }
    }

    /// The kernel's names of the algorithms.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Appends the notices since the last call, and once, if the process ended by itself, that it
    /// did.
    pub fn drain_notices(&mut self, notices: &mut Vec<String>) {
        self.take_messages(notices);
        if self.ended || !self.has_exited() {
            return;
        }
        // It may have said something before its end.
        self.take_messages(notices);
        if !std::mem::replace(&mut self.end_announced, true)
            && let Some(status) = self.reap()
        {
            notices.push(format!(
                "the process of {} ended ({status})",
                self.names.join(" and ")
            ));
        }
    }

    fn take_messages(&mut self, notices: &mut Vec<String>) {
        while let Ok(message) = self.messages.try_recv() {
            self.take(message, notices);
        }
    }

    fn take(&mut self, message: WorkerMessage, notices: &mut Vec<String>) {
        match message {
            WorkerMessage::Notice { text } => notices.push(text),
            WorkerMessage::Ended => self.gave_back = true,
            WorkerMessage::Attached { .. } => {}
        }
    }

    /// The number of the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process has exited; it is still to be reaped.
    fn has_exited(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(
            waitid(WaitId::Pid(Pid::from_child(&self.child)), options),
            Ok(None)
        )
    }

    /// Kills what is left of the process group, and waits for the process.
    fn reap(&mut self) -> Option<ExitStatus> {
        if std::mem::replace(&mut self.ended, true) {
            return None;
        }
        // Until the process is waited for, nothing else can have its group's number. The group may
        // have no other process.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        self.child.wait().ok()
    }

    /// Asks the process to end.
    fn ask_to_end(&self) {
        // Fails only where the process has ended already.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Ends the process, which was asked to end at `asked`.
    fn end(&mut self, asked: Instant) {
        while !self.ended && !self.has_exited() && asked.elapsed() < END_TIMEOUT {
            thread::sleep(Duration::from_millis(5));
        }
        self.reap();
    }
}

/// Reads the process's messages in a thread, until the other end is closed. A child that the
/// process forked may still have that end, so nobody waits for the thread.
fn receive(stream: UnixStream) -> io::Result<Receiver<WorkerMessage>> {
    let (sender, messages) = mpsc::channel();
    thread::Builder::new()
        .name("worker-messages".to_owned())
        .spawn(move || {
            for line in BufReader::new(stream).lines() {
                let Some(message) = line.ok().and_then(|line| WorkerMessage::parse(&line)) else {
                    return;
                };
                if sender.send(message).is_err() {
                    return;
                }
            }
        })?;
    Ok(messages)
}

impl Drop for AlgorithmProcess {
    fn drop(&mut self) {
        self.ask_to_end();
        self.end(Instant::now());
    }
}

/// What is left of processes that were ended.
#[derive(Debug, Default)]
pub struct ProcessEnd {
    /// Notices that were not read before.
    pub notices: Vec<String>,
    /// The kernel's names of the algorithms whose process gave nothing back: it was killed.
    pub killed: Vec<String>,
}

/// Ends processes, all at once.
pub fn finish_all(mut processes: Vec<AlgorithmProcess>) -> ProcessEnd {
    let mut end = ProcessEnd::default();
    for process in &mut processes {
        process.drain_notices(&mut end.notices);
        process.ask_to_end();
    }
    let asked = Instant::now();
    for process in &mut processes {
        process.end(asked);
        // A killed process gave nothing back. What another wrote is read by a thread.
        while let Ok(message) = process.messages.recv_timeout(Duration::from_millis(20)) {
            process.take(message, &mut end.notices);
        }
        if !process.gave_back {
            end.killed.append(&mut process.names);
        }
    }
    end
}
