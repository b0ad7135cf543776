//! The file that wakes who waits.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::EventfdFlags;
use rustix::fs::FileType;

use crate::link::poller::{Source, Trigger};

/// An event file whose counter stays at 1: it wakes by edges alone, and adding 0 to it never
/// blocks, whatever a peer that shares it does to the counter or to its flags.
#[derive(Debug)]
pub(crate) struct Wakeup(OwnedFd);

impl Wakeup {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(rustix::event::eventfd(1, flags)?))
    }

    /// A wakeup that was received from a peer.
    ///
    /// # Errors
    /// It is a file that could block whoever writes to it.
    pub(super) fn received(fd: OwnedFd) -> io::Result<Self> {
        let mode = rustix::fs::fstat(&fd)?.st_mode;
        // Event files have no file type; no other file that has none takes 0 and blocks.
        if FileType::from_raw_mode(mode) != FileType::Unknown {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the plane passed a file that is no event file",
            ));
        }
        Ok(Self(fd))
    }

    /// Wakes who waits for it, now or next.
    pub(crate) fn wake(&self) {
        // It can only fail for a file that is no event file, and then the peer harms itself.
        let _ = rustix::io::write(&self.0, &0u64.to_ne_bytes());
    }

    /// To wait for.
    pub(crate) fn source(&self) -> Source<'_> {
        Source {
            fd: self.0.as_fd(),
            trigger: Trigger::Edge,
        }
    }

    /// The same wakeup.
    pub(crate) fn again(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
