//! Unix sockets of type `SOCK_SEQPACKET`: a connection to each peer, whose end is seen.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

use super::path::{self, Bound};
use super::poller::{Pollable, Source, level};
use super::{Link, LinkError};

/// A socket at a path, to which datapaths connect.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    bound: Bound,
}

impl Listener {
    /// Peers that have connected and wait to be accepted; more are refused.
    const BACKLOG: i32 = 128;

    /// Listens at a path. Its directory is made if need be, for this user alone. Who may write to
    /// the path may connect: this user, and root, unless its mode is changed.
    ///
    /// # Errors
    /// The path is in use or no socket, is too long (108 bytes), or may not be made; or another
    /// user could replace the socket, because its directory or one above is theirs, writable
    /// without being sticky, or a symbolic link.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        let (socket, bound) = path::bind(path.as_ref(), SocketType::SEQPACKET)?;
        rustix::net::listen(&socket, Self::BACKLOG)?;
        Ok(Self { socket, bound })
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.bound.path()
    }
}

impl super::Listener for Listener {
    type Link = Connection;

    fn accept(&mut self) -> io::Result<Option<Connection>> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            match rustix::net::accept_with(&self.socket, flags) {
                Ok(socket) => return Ok(Some(Connection { socket })),
                Err(Errno::AGAIN) => return Ok(None),
                // It hung up before it was accepted.
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl Pollable for Listener {
    fn sources(&self) -> [Option<Source<'_>>; 2] {
        level(self.socket.as_fd())
    }
}

/// Who the process at the other end was when it connected, or when it began to listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials {
    /// Its process id.
    pub pid: i32,
    /// Its user id.
    pub uid: u32,
    /// Its group id.
    pub gid: u32,
}

/// A connection to one peer.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
}

impl Connection {
    /// Connects to who listens at a path.
    ///
    /// # Errors
    /// Nobody listens, they accept too slowly (`WouldBlock`), or it is not allowed.
    pub fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        let socket = path::socket(SocketType::SEQPACKET)?;
        let address = SocketAddrUnix::new(path.as_ref())?;
        rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &address))?;
        Ok(Self { socket })
    }

    /// Who the peer is.
    ///
    /// # Errors
    /// Of the system, none of which are to be expected.
    pub fn credentials(&self) -> io::Result<Credentials> {
        let peer = rustix::net::sockopt::socket_peercred(&self.socket)?;
        Ok(Credentials {
            pid: peer.pid.as_raw_nonzero().get(),
            uid: peer.uid.as_raw(),
            gid: peer.gid.as_raw(),
        })
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Pollable for Connection {
    fn sources(&self) -> [Option<Source<'_>>; 2] {
        level(self.socket.as_fd())
    }
}

impl Link for Connection {
    fn send(&mut self, packet: &[u8]) -> Result<(), LinkError> {
        if packet.is_empty() {
            // The peer would take it for the end.
            return Ok(());
        }
        send(&self.socket, packet)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, LinkError> {
        match receive(&self.socket, buffer)? {
            0 => Err(LinkError::Gone),
            length => Ok(length),
        }
    }
}

/// Sends on a connected socket, without blocking.
pub(super) fn send(socket: &OwnedFd, packet: &[u8]) -> Result<(), LinkError> {
    if packet.len() > super::MAX_PACKET {
        return Err(LinkError::TooLong);
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::io::retry_on_intr(|| rustix::net::send(socket, packet, flags))?;
    Ok(())
}

/// Receives without blocking; 0 may be an empty packet or the end.
pub(super) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<usize, LinkError> {
    // With TRUNC the second number is the packet's length, whatever fits.
    let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
    let received = rustix::io::retry_on_intr(|| rustix::net::recv(socket, &mut *buffer, flags))?;
    match received {
        (_, length) if length > buffer.len() => Err(LinkError::TooLong),
        (_, length) => Ok(length),
    }
}
