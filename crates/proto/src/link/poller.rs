//! Waiting for any of several links.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// When a file descriptor says that something is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// As long as there is.
    Level,
    /// Each time it is signalled anew: the descriptor is not to be read.
    Edge,
}

/// A file descriptor to wait on.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// It becomes readable, or is hung up.
    pub fd: BorrowedFd<'a>,
    /// When it says so.
    pub trigger: Trigger,
}

/// What can be waited for.
pub trait Pollable {
    /// Its file descriptors: none for what cannot be waited for.
    fn sources(&self) -> [Option<Source<'_>>; 2];
}

impl Pollable for BorrowedFd<'_> {
    fn sources(&self) -> [Option<Source<'_>>; 2] {
        level(*self)
    }
}

/// One descriptor that is readable as long as something is there.
pub(super) fn level(fd: BorrowedFd<'_>) -> [Option<Source<'_>>; 2] {
    let trigger = Trigger::Level;
    [Some(Source { fd, trigger }), None]
}

/// Waits for any of several links (epoll). It can itself be waited on as a file descriptor, by
/// level.
pub struct Poller {
    epoll: OwnedFd,
    /// Of the last wait: unlike rustix's events, they may go to another thread.
    tokens: Vec<u64>,
}

impl Poller {
    /// The most tokens of one wait; the others come with the next.
    const EVENTS: usize = 256;

    /// A poller that waits for nothing yet.
    ///
    /// # Errors
    /// Of the system: too many open files.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            tokens: Vec::with_capacity(Self::EVENTS),
        })
    }

    /// Waits for this one too, and tells its `token`.
    ///
    /// # Errors
    /// Of the system: no memory, or it is there already.
    pub fn add(&self, what: &(impl Pollable + ?Sized), token: u64) -> io::Result<()> {
        for Source { fd, trigger } in what.sources().into_iter().flatten() {
            let flags = match trigger {
                Trigger::Level => EventFlags::IN,
                Trigger::Edge => EventFlags::IN | EventFlags::ET,
            };
            epoll::add(&self.epoll, fd, EventData::new_u64(token), flags)?;
        }
        Ok(())
    }

    /// Waits for this one no more. Must be called before a link is dropped: its peer may hold
    /// the same file open and could signal it for ever.
    ///
    /// # Errors
    /// Of the system: it was not there.
    pub fn remove(&self, what: &(impl Pollable + ?Sized)) -> io::Result<()> {
        for Source { fd, .. } in what.sources().into_iter().flatten() {
            epoll::delete(&self.epoll, fd)?;
        }
        Ok(())
    }

    /// Waits until something is there, exact to the timer slack: `epoll_wait` alone would round the timeout up to whole
    /// milliseconds. Which it is, is not told: the next turn looks at all.
    ///
    /// # Errors
    /// Of the system, none of which are to be expected.
    pub fn wait_precisely(&mut self, timeout: Duration) -> io::Result<()> {
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        match poll(
            &mut [PollFd::new(&self.epoll, PollFlags::IN)],
            Some(&timeout),
        ) {
            Ok(0) | Err(Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let _ = self.wait(Some(Duration::ZERO))?;
        Ok(())
    }

    /// Waits until something is there, for ever without a timeout, and returns the tokens; none
    /// after the timeout or a signal. A token may come twice.
    ///
    /// # Errors
    /// Of the system, none of which are to be expected.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<impl Iterator<Item = u64>> {
        self.tokens.clear();
        let timeout = timeout.map(|t| Timespec {
            tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: t.subsec_nanos().into(),
        });
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; Self::EVENTS];
        match epoll::wait(&self.epoll, &mut events[..], timeout.as_ref()) {
            Ok((events, _)) => {
                let tokens = events.iter().map(|event| event.data.u64());
                self.tokens.extend(tokens);
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(self.tokens.iter().copied())
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl std::fmt::Debug for Poller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Poller").field(&self.epoll).finish()
    }
}
