//! Stopping a server from elsewhere.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

use fairwater_proto::link::{Pollable, Source, Trigger};
use rustix::event::{EventfdFlags, eventfd};

/// Stops a [`Server`](super::Server), from any thread or signal handler, and wakes it if it
/// waits.
#[derive(Debug, Clone)]
pub struct Stopper(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    asked: AtomicBool,
    wake: OwnedFd,
}

impl Stopper {
    /// One that nobody waits for yet.
    ///
    /// # Errors
    /// Too many files are open.
    pub fn new() -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(Inner {
            asked: AtomicBool::new(false),
            wake,
        })))
    }

    /// Asks the server to stop; it does so within one turn. Allocates nothing and takes no lock.
    pub fn stop(&self) {
        self.0.asked.store(true, Release);
        self.wake();
    }

    /// Ends the server's present wait, so that its owner has a turn. Allocates nothing and takes no
    /// lock.
    pub fn wake(&self) {
        // Only a counter that is about to overflow refuses, and then the server is awake.
        let _ = rustix::io::write(&self.0.wake, &1u64.to_ne_bytes());
    }

    /// Whether the server was asked to stop.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.asked.load(Acquire)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.0.wake.as_fd()
    }
}

impl Pollable for Stopper {
    fn sources(&self) -> [Option<Source<'_>>; 2] {
        let trigger = Trigger::Edge;
        [
            Some(Source {
                fd: self.fd(),
                trigger,
            }),
            None,
        ]
    }
}
