//! What the plane answers one datapath by.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketType};

use super::read_window::{Admission, ReadWindow};
use super::{Address, Sender};
use crate::link::{LinkError, MAX_PACKET, path};

const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// The sender of answers to one datapath.
///
/// The kernel charges a packet that is not read to the socket that sent it. So each datapath is
/// answered from a socket of its own, and one that does not read delays no other. A datapath that
/// connected its socket to the plane's can be answered from the plane's socket alone: of such
/// datapaths each may leave only so much unread, see `ReadWindow`.
#[derive(Debug)]
pub struct Peer {
    sender: Sender,
    route: Route,
    shared: Arc<SharedSocket>,
}

/// The plane's socket, as a sender.
#[derive(Debug)]
pub(super) struct SharedSocket {
    pub(super) socket: OwnedFd,
    /// Bytes that its send buffer holds, as the kernel counts them.
    pub(super) buffer: usize,
    /// Sends nothing: connecting it tells whether anybody is at an address.
    pub(super) probe: OwnedFd,
}

/// Which socket answers the datapath.
#[derive(Debug)]
enum Route {
    /// A socket connected to the address.
    Own(OwnedFd),
    /// The plane's, because the datapath connected to it.
    Shared(ReadWindow),
}

/// Whether anybody is at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// A socket is bound there.
    Present,
    /// The path exists and its socket is closed: the process died or closed it. Or the socket at
    /// the path belongs to another user.
    Closed,
    /// The path does not exist: the process removed it and may be gone, or something else did.
    Unlinked,
}

impl Peer {
    pub(super) fn new(sender: &Sender, shared: &Arc<SharedSocket>) -> io::Result<Self> {
        Ok(Self {
            sender: sender.clone(),
            route: Route::to(sender, shared)?,
            shared: Arc::clone(shared),
        })
    }

    /// The datapath's address and user.
    #[must_use]
    pub const fn sender(&self) -> &Sender {
        &self.sender
    }

    /// Whether a socket of the datapath's user, or of root, is at the address; not necessarily the
    /// datapath's first one.
    /// Sends nothing.
    ///
    /// # Errors
    /// Of the system: too many open files, for instance.
    pub fn presence(&self) -> io::Result<Presence> {
        match rustix::net::connect(&self.shared.probe, &self.sender.address.0) {
            Ok(()) | Err(Errno::PERM) if !is_foreign(&self.sender) => Ok(Presence::Present),
            Ok(()) | Err(Errno::PERM) => Ok(Presence::Closed),
            Err(Errno::CONNREFUSED) => Ok(Presence::Closed),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(Presence::Unlinked),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Sends one packet, without blocking.
    ///
    /// # Errors
    /// [`LinkError::WouldBlock`] when the datapath has too much to read, [`LinkError::Gone`] when
    /// nobody is at the address any more.
    pub fn send(&mut self, packet: &[u8]) -> Result<(), LinkError> {
        if packet.len() > MAX_PACKET {
            return Err(LinkError::TooLong);
        }
        match self.transmit(packet) {
            // Another socket may be at the address by now: the datapath was restarted.
            Err(LinkError::Gone) => {
                let route = Route::to(&self.sender, &self.shared);
                self.route = route.map_err(|_| LinkError::Gone)?;
                self.transmit(packet)
            }
            sent => sent,
        }
    }

    fn transmit(&mut self, packet: &[u8]) -> Result<(), LinkError> {
        match &mut self.route {
            Route::Own(own) => {
                retry_on_intr(|| rustix::net::send(&*own, packet, FLAGS))?;
                Ok(())
            }
            Route::Shared(window) => {
                send_within(window, &self.shared.socket, &self.sender.address, packet)
            }
        }
    }
}

impl Route {
    /// To the socket at the address now, if it is the datapath's or root's: connecting datagram
    /// sockets never blocks.
    fn to(datapath: &Sender, shared: &SharedSocket) -> io::Result<Self> {
        let socket = path::socket(SocketType::DGRAM)?;
        match rustix::net::connect(&socket, &datapath.address.0) {
            Ok(()) | Err(Errno::PERM) if is_foreign(datapath) => {
                Err(io::ErrorKind::PermissionDenied.into())
            }
            Ok(()) => Ok(Self::Own(socket)),
            Err(Errno::PERM) => Ok(Self::Shared(ReadWindow::new(shared.buffer))),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Whether the socket at the datapath's path belongs to another user than the datapath's and root.
/// A process that began as root may have bound the socket before it became the user.
fn is_foreign(datapath: &Sender) -> bool {
    let owner = datapath.address.owner();
    owner.is_some_and(|owner| owner != datapath.user && owner != 0)
}

/// Sends from the plane's socket, if the datapath has read enough of what it was sent before.
fn send_within(
    window: &mut ReadWindow,
    socket: &OwnedFd,
    address: &Address,
    packet: &[u8],
) -> Result<(), LinkError> {
    // Out of file descriptors: later.
    let admission = window.admit(packet.len());
    let receipt = match admission.map_err(|_| LinkError::WouldBlock)? {
        Admission::Wait => return Err(LinkError::WouldBlock),
        Admission::Plain => {
            retry_on_intr(|| rustix::net::sendto(socket, packet, FLAGS, &address.0))?;
            window.sent(packet.len(), false);
            return Ok(());
        }
        Admission::WithReceipt(receipt) => receipt,
    };
    let files = [receipt.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&files));
    let parts = [IoSlice::new(packet)];
    let sent = retry_on_intr(|| {
        rustix::net::sendmsg_addr(socket, &address.0, &parts, &mut control, FLAGS)
    });
    match sent {
        Ok(_) => {
            window.sent(packet.len(), true);
            Ok(())
        }
        Err(errno) => {
            window.withdraw_receipt();
            Err(errno.into())
        }
    }
}
