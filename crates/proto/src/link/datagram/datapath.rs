//! A datapath's end: its own socket, from which it writes to the plane's path.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::io::retry_on_intr;
use rustix::net::{SendFlags, SocketAddrUnix, SocketType};

use crate::link::path::{self, Bound};
use crate::link::poller::{Pollable, Source, level};
use crate::link::{Link, LinkError, MAX_PACKET, seqpacket};

/// A datapath's socket at a path of its own. Who may write to that path may send to it: this user,
/// and root, unless its mode is changed.
///
/// Each packet goes to whoever is at the plane's path by then; it is [`LinkError::Gone`] when
/// nobody is. The socket is not connected: [`super::Peer`] says why.
#[derive(Debug)]
pub struct Datapath {
    socket: OwnedFd,
    plane: SocketAddrUnix,
    _bound: Bound,
}

impl Datapath {
    /// Binds at a path of its own, whose directory is made if need be, to speak to the plane at
    /// its path, whether it is there yet or not.
    ///
    /// # Errors
    /// As for [`super::PlaneSocket::bind`].
    pub fn bind(own: impl AsRef<Path>, plane: impl AsRef<Path>) -> io::Result<Self> {
        let plane = SocketAddrUnix::new(plane.as_ref())?;
        let (socket, bound) = path::bind(own.as_ref(), SocketType::DGRAM)?;
        Ok(Self {
            socket,
            plane,
            _bound: bound,
        })
    }
}

impl Pollable for Datapath {
    fn sources(&self) -> [Option<Source<'_>>; 2] {
        level(self.socket.as_fd())
    }
}

impl Link for Datapath {
    fn send(&mut self, packet: &[u8]) -> Result<(), LinkError> {
        if packet.len() > MAX_PACKET {
            return Err(LinkError::TooLong);
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        retry_on_intr(|| rustix::net::sendto(&self.socket, packet, flags, &self.plane))?;
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, LinkError> {
        seqpacket::receive(&self.socket, buffer)
    }
}
