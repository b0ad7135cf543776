//! A plane on this machine's TCP, in a thread of this process.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fairwater_linux::{LinuxError, LinuxTcp, Options};
use fairwater_plane::Plane;

use crate::{TURN, fork};

/// How long attaching may take.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(60);

/// A plane at work in a thread; the thread ends when this is finished or dropped.
#[derive(Debug)]
pub struct AttachedPlane {
    names: Vec<String>,
    notices: Receiver<String>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl AttachedPlane {
    /// Attaches the plane's algorithms to this machine's TCP.
    ///
    /// # Errors
    /// What the machine lacks, a name that is taken, or a call that failed. Nothing is left
    /// attached then.
    pub fn start(plane: Plane, options: Options) -> Result<Self, AttachError> {
        let stop = Arc::new(AtomicBool::new(false));
        let (send_names, received_names) = mpsc::channel();
        let (notify, notices) = mpsc::channel();
        let stop_flag = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("plane".to_owned())
            .spawn(move || run(plane, options, &stop_flag, &send_names, &notify))
            .map_err(AttachError::Thread)?;
        let mut attached = Self {
            names: Vec::new(),
            notices,
            stop,
            thread: Some(thread),
        };
        match received_names.recv_timeout(ATTACH_TIMEOUT) {
            Ok(Ok(names)) => {
                attached.names = names;
                Ok(attached)
            }
            Ok(Err(error)) => Err(error.into()),
            Err(RecvTimeoutError::Timeout) => Err(AttachError::Timeout),
            Err(RecvTimeoutError::Disconnected) => Err(AttachError::Panicked),
        }
    }

    /// The kernel's names of the algorithms, in the plane's order.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The plane's notices since the last call.
    pub fn notices(&self) -> Vec<String> {
        self.notices.try_iter().collect()
    }

    /// Detaches; returns the notices since the last call of [`AttachedPlane::notices`].
    pub fn finish(mut self) -> Vec<String> {
        let panicked = self.end();
        let mut notices = self.notices();
        if panicked {
            notices.push("the plane panicked; its flows went on under the fallback".to_owned());
        }
        notices
    }

    /// Ends the thread; returns whether it panicked.
    fn end(&mut self) -> bool {
        self.stop.store(true, Release);
        self.thread
            .take()
            .is_some_and(|thread| thread.join().is_err())
    }
}

impl Drop for AttachedPlane {
    fn drop(&mut self) {
        self.end();
    }
}

/// Why algorithms could not be attached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The Linux datapath refused.
    #[error(transparent)]
    Linux(#[from] LinuxError),
    /// The plane's thread could not be started.
    #[error("cannot start the plane's thread: {0}")]
    Thread(std::io::Error),
    /// The kernel took too long.
    #[error("the algorithms were not attached within a minute")]
    Timeout,
    /// A defect of Fairwater's.
    #[error("attaching the algorithms panicked")]
    Panicked,
}

fn run(
    plane: Plane,
    options: Options,
    stop: &AtomicBool,
    send_names: &mpsc::Sender<Result<Vec<String>, LinuxError>>,
    notify: &mpsc::Sender<String>,
) {
    fork::mark_plane_thread();
    let (mut server, tcp) = match fairwater_linux::server(plane, options) {
        Ok(server) => server,
        Err(error) => {
            // The receiver is gone only when the whole process is ending.
            let _ = send_names.send(Err(error));
            return;
        }
    };
    let names = server.datapath::<LinuxTcp>(tcp).map(LinuxTcp::names);
    let names = names.into_iter().flatten().map(str::to_owned).collect();
    let _ = send_names.send(Ok(names));
    while !stop.load(Acquire) && server.turn(TURN).is_ok() {
        for notice in server.service_mut().drain_notices() {
            let _ = notify.send(notice.to_string());
        }
    }
}
