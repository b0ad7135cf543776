//! The agent's end: one socket for all datapaths.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::net::{SocketAddrAny, SocketAddrUnix, SocketType};

use super::{Batch, Peer};
use crate::link::path::{self, Bound};
use crate::link::poller::{Pollable, Source, level};

/// Where a datapath is: the path or abstract name of its socket.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Address(pub(super) SocketAddrAny);

impl Address {
    /// The address of a path.
    ///
    /// # Errors
    /// The path is too long (108 bytes) or has a NUL inside.
    pub fn new(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self(SocketAddrUnix::new(path.as_ref())?.into()))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(unix) = SocketAddrUnix::try_from(self.0.clone()) else {
            return f.write_str("?");
        };
        if let Some(path) = unix.path_bytes() {
            return f.write_str(&String::from_utf8_lossy(path));
        }
        let name = unix.abstract_name().unwrap_or_default();
        write!(f, "@{}", String::from_utf8_lossy(name))
    }
}

/// A socket at a path that hears all datapaths.
#[derive(Debug)]
pub struct Agent {
    socket: Arc<OwnedFd>,
    bound: Bound,
}

impl Agent {
    /// Binds at a path, whose directory is made if need be. Who may write to the path may send:
    /// with the usual umask its owner alone.
    ///
    /// # Errors
    /// The path is in use or no socket, is too long (108 bytes), or may not be made.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        let (socket, bound) = path::bind(path.as_ref(), SocketType::DGRAM)?;
        let socket = Arc::new(socket);
        Ok(Self { socket, bound })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.bound.path()
    }

    /// The most packets that wait at a socket made now: one more than `net.unix.max_dgram_qlen`.
    /// [`Batch::MOST`] if that cannot be read.
    #[must_use]
    pub fn queue() -> usize {
        let read = fs::read_to_string("/proc/sys/net/unix/max_dgram_qlen").ok();
        let limit = read.and_then(|limit| limit.trim().parse::<usize>().ok());
        limit.map_or(Batch::MOST, |limit| limit.saturating_add(1))
    }

    /// Receives what is there, up to the batch's size, without blocking, in place of what the
    /// batch held: nothing when there is nothing.
    ///
    /// # Errors
    /// Of the system, none of which are to be expected.
    pub fn receive<'b>(&mut self, batch: &'b mut Batch) -> io::Result<&'b Batch> {
        batch.receive(self.socket.as_fd())?;
        Ok(batch)
    }

    /// The way to answer a datapath.
    ///
    /// # Errors
    /// Nobody is at the address, or too many files are open.
    pub fn peer(&self, address: &Address) -> io::Result<Peer> {
        let mut peer = Peer {
            address: address.clone(),
            own: None,
            shared: Arc::clone(&self.socket),
        };
        peer.connect()?;
        Ok(peer)
    }
}

impl Pollable for Agent {
    fn sources(&self) -> [Option<Source<'_>>; 2] {
        level(self.socket.as_fd())
    }
}
