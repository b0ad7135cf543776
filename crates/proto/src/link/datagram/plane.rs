//! The plane's end: one socket for all datapaths.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustix::net::{SocketAddrAny, SocketAddrUnix, SocketType, sockopt};

use super::peer::SharedSocket;
use super::{Batch, Peer};
use crate::link::path::{self, Bound};
use crate::link::poller::{Pollable, Source, level};

/// Bytes of packets that may wait to be read by the datapaths that share the socket.
const SEND_BUFFER: usize = 4 << 20;

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

impl Address {
    /// The user to whom the socket at the path belongs; `None` if that cannot be told, as for an
    /// abstract name.
    pub(super) fn owner(&self) -> Option<u32> {
        let unix = SocketAddrUnix::try_from(self.0.clone()).ok()?;
        let path = Path::new(OsStr::from_bytes(unix.path_bytes()?));
        Some(fs::metadata(path).ok()?.uid())
    }
}

/// Who sent a packet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sender {
    /// Where it is answered.
    pub address: Address,
    /// The user of the sending process, by the kernel's word; only root can give another.
    pub user: u32,
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
pub struct PlaneSocket {
    socket: Arc<SharedSocket>,
    bound: Bound,
}

impl PlaneSocket {
    /// Binds at a path. Its directory is made if need be, for this user alone. Who may write to the
    /// path may send: this user, and root, unless its mode is changed.
    ///
    /// # Errors
    /// As for [`seqpacket::Listener::bind`](crate::link::seqpacket::Listener::bind).
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        let (socket, bound) = path::bind(path.as_ref(), SocketType::DGRAM)?;
        // What was sent before this has no user, and is dropped.
        sockopt::set_socket_passcred(&socket, true)?;
        let buffer = enlarge_send_buffer(&socket)?;
        let probe = path::socket(SocketType::DGRAM)?;
        let socket = Arc::new(SharedSocket {
            socket,
            buffer,
            probe,
        });
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
        batch.receive(self.socket.socket.as_fd())?;
        Ok(batch)
    }

    /// The sender of answers to a datapath.
    ///
    /// # Errors
    /// Nobody is at the address, or somebody else than the sender or root, or too many files are
    /// open.
    pub fn peer(&self, sender: &Sender) -> io::Result<Peer> {
        Peer::new(sender, &self.socket)
    }
}

/// Makes room for the unread packets of many datapaths that are answered from this socket, as far
/// as the system allows (`net.core.wmem_max` for who is not root). Returns the bytes that fit.
fn enlarge_send_buffer(socket: &OwnedFd) -> io::Result<usize> {
    if sockopt::set_socket_send_buffer_size_force(socket, SEND_BUFFER).is_err() {
        sockopt::set_socket_send_buffer_size(socket, SEND_BUFFER)?;
    }
    Ok(sockopt::socket_send_buffer_size(socket)?)
}

impl Pollable for PlaneSocket {
    fn sources(&self) -> [Option<Source<'_>>; 2] {
        level(self.socket.socket.as_fd())
    }
}
