//! The thread that keeps the links to the plane.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fairwater_datapath::Connection;
use fairwater_proto::link::Poller;
use rustix::event::{EventfdFlags, eventfd};

use crate::datapath::lock;

/// The longest wait: how soon a plane that comes back is noticed between attempts to connect.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

const STOP: u64 = u64::MAX;

/// Connects, takes what the plane sends and lets time pass, until it is dropped.
#[derive(Debug)]
pub(crate) struct LinkKeeper {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl LinkKeeper {
    /// Keeps the links of these shards; `epoch` is time 0 of their datapaths.
    pub(crate) fn start(shards: Arc<[Mutex<Connection>]>, epoch: Instant) -> io::Result<Self> {
        let stop = Arc::new(stop_file()?);
        let poller = Poller::new()?;
        poller.add(&stop.as_fd(), STOP)?;
        let mut waits = Waits {
            poller,
            links: shards.iter().map(|_| None).collect(),
        };
        // The first attempt is made at once, so that first connections find their plane.
        let soonest = waits.service(&shards, epoch);
        let thread = thread::Builder::new()
            .name("fairwater-links".to_owned())
            .spawn(move || waits.run(&shards, epoch, soonest))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for LinkKeeper {
    fn drop(&mut self) {
        stop_and_join(&self.stop, self.thread.take());
    }
}

/// An event file that ends a thread's wait for good.
pub(crate) fn stop_file() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Ends a thread that waits for `stop`.
pub(crate) fn stop_and_join(stop: &OwnedFd, thread: Option<JoinHandle<()>>) {
    let _ = rustix::io::write(stop, &1_u64.to_ne_bytes());
    if let Some(thread) = thread
        && thread.thread().id() != thread::current().id()
    {
        // A panic of the thread's was printed by the thread.
        let _ = thread.join();
    }
}

/// What the thread waits for.
struct Waits {
    poller: Poller,
    /// By shard: what waits on the link that there is now. Dropped before the link's peer could
    /// signal a file of the lost link for ever.
    links: Vec<Option<Poller>>,
}

impl Waits {
    fn run(mut self, shards: &[Mutex<Connection>], epoch: Instant, mut wait: Duration) {
        loop {
            let Ok(tokens) = self.poller.wait(Some(wait)) else {
                return;
            };
            if tokens.into_iter().any(|token| token == STOP) {
                return;
            }
            wait = self.service(shards, epoch);
        }
    }

    /// Serves all shards; how long to wait then.
    fn service(&mut self, shards: &[Mutex<Connection>], epoch: Instant) -> Duration {
        let mut wait = LONGEST_WAIT;
        for (shard, link) in shards.iter().zip(&mut self.links) {
            let now_us = u64::try_from(epoch.elapsed().as_micros()).unwrap_or(u64::MAX);
            let mut connection = lock(shard);
            if let Some(inner) = link {
                // Clears the wake-up.
                let _: io::Result<()> = inner.wait(Some(Duration::ZERO)).map(drop);
            }
            if !connection.is_connected() {
                // Lost in a call of a controller's.
                *link = None;
            }
            connection.service(now_us);
            if !connection.prepare_to_wait() {
                connection.service(now_us);
            }
            if !connection.is_connected() {
                *link = None;
            } else if link.is_none() {
                // Out of file descriptors, the regular turns still hear the plane.
                *link = Poller::new().ok();
                if let Some(inner) = link {
                    let added = inner.add(&*connection, 0);
                    let _ = added.and_then(|()| self.poller.add(&inner.as_fd(), 0));
                }
            }
            if let Some(next_us) = connection.next_timeout() {
                wait = wait.min(Duration::from_micros(next_us.saturating_sub(now_us)));
            }
        }
        wait.max(Duration::from_micros(100))
    }
}
