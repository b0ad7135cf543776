//! Processes that simulate, and what becomes of runs in them.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fairwater_hosting::{Stop, own_command};
use fairwater_results::PointResult;

use crate::commands::simulate::{Reply, Request};
use crate::failure::Failure;

/// What became of a run.
#[derive(Debug)]
pub(super) enum Ended {
    /// It is done.
    Done(Box<PointResult>),
    /// The algorithm failed in a way that ended the run: the sentence says how.
    Failed(String),
}

/// Idle processes; others are with the runs that use them.
#[derive(Debug)]
pub(super) struct Workers<'a> {
    idle: Mutex<Vec<Worker>>,
    stall: Duration,
    failures: AtomicUsize,
    stop: &'a Stop,
}

/// Runs that blocked or killed their process, after which no more are begun.
const MAX_FAILURES: usize = 3;

/// An algorithm that waits uses no CPU time: it has blocked after so many times as long.
const IDLE_STALLS: u32 = 15;

/// Clock ticks a second in `/proc/PID/stat` (proc(5), USER_HZ).
const TICKS: f64 = 100.0;

/// How often a reading worker looks whether to stop.
const TURN: Duration = Duration::from_millis(100);

impl<'a> Workers<'a> {
    /// No process yet. A run that uses so much CPU time while its virtual time stands still has blocked.
    pub(super) fn new(stall: Duration, stop: &'a Stop) -> Self {
        Self {
            idle: Mutex::default(),
            stall,
            failures: AtomicUsize::new(0),
            stop,
        }
    }

    /// Simulates in a process; `None` when it was stopped.
    pub(super) fn simulate(&self, request: &Request) -> Result<Option<Ended>, Failure> {
        if self.stop.is_asked() {
            return Ok(None);
        }
        if self.failures.load(Relaxed) >= MAX_FAILURES {
            let text =
                format!("not run: {MAX_FAILURES} runs blocked or ended their process before");
            return Ok(Some(Ended::Failed(text)));
        }
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let mut worker = match idle {
            Some(worker) => worker,
            None => Worker::start().map_err(Failure::io("a process that simulates"))?,
        };
        let ended = worker.simulate(request, self.stall, self.stop)?;
        match ended {
            Some(Ended::Done(_)) => {
                let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
                idle.push(worker);
            }
            // The process is in an unknown state: it ends as it is dropped.
            Some(Ended::Failed(_)) => {
                self.failures.fetch_add(1, Relaxed);
            }
            None => {}
        }
        Ok(ended)
    }
}

/// A process that runs `fairwater simulate`.
#[derive(Debug)]
struct Worker {
    child: Child,
    stream: BufReader<UnixStream>,
}

impl Worker {
    fn start() -> io::Result<Self> {
        let (stream, theirs) = UnixStream::pair()?;
        let mut command = own_command()?;
        command
            .arg("simulate")
            .stdin(OwnedFd::from(theirs))
            // What algorithms print, and what a panic prints, would come once a run.
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C is for this process.
            .process_group(0);
        let child = command.spawn()?;
        stream.set_read_timeout(Some(TURN))?;
        Ok(Self {
            child,
            stream: BufReader::new(stream),
        })
    }

    fn simulate(
        &mut self,
        request: &Request,
        stall: Duration,
        stop: &Stop,
    ) -> Result<Option<Ended>, Failure> {
        let io = || Failure::io("a process that simulates");
        let mut line = serde_json::to_vec(request)
            .map_err(io::Error::from)
            .map_err(io())?;
        line.push(b'\n');
        if let Err(error) = self.stream.get_mut().write_all(&line) {
            return Ok(Some(self.ended(&error)));
        }
        let (mut reached_s, mut moved, mut used) = (0.0, Instant::now(), self.cpu_time());
        let mut text = Vec::new();
        loop {
            match self.stream.read_until(b'\n', &mut text) {
                Ok(0) => {
                    let gone = io::Error::from(ErrorKind::UnexpectedEof);
                    return Ok(Some(self.ended(&gone)));
                }
                Ok(_) => {
                    let reply = serde_json::from_slice(&text)
                        .map_err(io::Error::from)
                        .map_err(io())?;
                    text.clear();
                    match reply {
                        Reply::At { at_s } if at_s > reached_s => {
                            (reached_s, moved, used) = (at_s, Instant::now(), self.cpu_time());
                        }
                        Reply::At { .. } => {}
                        Reply::Done { result } => return Ok(Some(Ended::Done(result))),
                        Reply::Refused { text } => return Err(Failure::BadInput(text)),
                    }
                }
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Ok(Some(self.ended(&error))),
            }
            if stop.is_asked() {
                return Ok(None);
            }
            // On a busy machine a run may wait long for a core.
            let worked = self.cpu_time().saturating_sub(used);
            if worked > stall || moved.elapsed() > stall * IDLE_STALLS {
                let stall = stall.as_secs();
                let text = format!(
                    "the algorithm blocked: no virtual time passed after {reached_s:.1} s within {stall} s of CPU"
                );
                return Ok(Some(Ended::Failed(text)));
            }
        }
    }

    /// CPU time that the process has used; 0 where it is not known.
    fn cpu_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let stat = stat.unwrap_or_default();
        // After the name in brackets: utime and stime are the 12th and the 13th (proc(5)).
        let fields = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace();
        let ticks: f64 = fields
            .skip(11)
            .take(2)
            .filter_map(|n| n.parse::<f64>().ok())
            .sum();
        Duration::from_secs_f64(ticks / TICKS)
    }

    /// The process is gone.
    fn ended(&mut self, error: &io::Error) -> Ended {
        // The end of the socket and of the process come a moment apart.
        let mut status = self.child.try_wait();
        for _ in 0..20 {
            if !matches!(status, Ok(None)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
            status = self.child.try_wait();
        }
        let how = match status {
            Ok(Some(status)) => status.to_string(),
            _ => error.to_string(),
        };
        Ended::Failed(format!("the algorithm ended its process: {how}"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may be blocked; fails only where it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
