//! The agent's way to one datapath.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketType};

use super::Address;
use crate::link::{LinkError, MAX_PACKET, path};

const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// The way to answer one datapath.
///
/// A packet that is not read is charged to the socket that sent it, so each datapath is
/// answered from a socket of its own: one that does not read keeps nothing from the others. A
/// datapath that connected its socket to the agent's can only be answered from that one: such
/// datapaths share its buffer (`net.core.wmem_default`).
#[derive(Debug)]
pub struct Peer {
    pub(super) address: Address,
    /// Connected to the address; `None` when the datapath hears the agent's socket alone.
    pub(super) own: Option<OwnedFd>,
    pub(super) shared: Arc<OwnedFd>,
}

impl Peer {
    /// The most packets that one call sends.
    const MOST_AT_ONCE: usize = 32;

    /// Where the datapath is.
    #[must_use]
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// To whoever is at the address now: connecting datagram sockets never blocks.
    pub(super) fn connect(&mut self) -> io::Result<()> {
        let socket = path::socket(SocketType::DGRAM)?;
        self.own = match rustix::net::connect(&socket, &self.address.0) {
            Ok(()) => Some(socket),
            Err(Errno::PERM) => None,
            Err(errno) => return Err(errno.into()),
        };
        Ok(())
    }

    /// Sends one packet, without blocking.
    ///
    /// # Errors
    /// [`LinkError::WouldBlock`] when the datapath's queue is full, [`LinkError::Gone`] when
    /// nobody is at the address any more.
    pub fn send(&mut self, packet: &[u8]) -> Result<(), LinkError> {
        self.send_many([packet]).map(|_| ())
    }

    /// Sends packets in order, without blocking, and returns how many of the first went: fewer
    /// than all when the queue is full, or beyond 32.
    ///
    /// # Errors
    /// As [`Peer::send`], when not even the first packet went.
    pub fn send_many<'p>(
        &mut self,
        packets: impl IntoIterator<Item = &'p [u8]>,
    ) -> Result<usize, LinkError> {
        let mut slices = [IoSlice::new(&[]); Self::MOST_AT_ONCE];
        let mut count = 0;
        for (slice, packet) in slices.iter_mut().zip(packets) {
            if packet.len() > MAX_PACKET {
                if count == 0 {
                    return Err(LinkError::TooLong);
                }
                break;
            }
            *slice = IoSlice::new(packet);
            count += 1;
        }
        let slices = &slices[..count];
        match self.transmit(slices) {
            // Another socket may be at the address by now: the datapath was restarted.
            Err(LinkError::Gone) => {
                self.connect().map_err(|_| LinkError::Gone)?;
                self.transmit(slices)
            }
            sent => sent,
        }
    }

    fn transmit(&self, slices: &[IoSlice<'_>]) -> Result<usize, LinkError> {
        if let ([slice], Some(own)) = (slices, &self.own) {
            retry_on_intr(|| rustix::net::send(own, slice, FLAGS))?;
            return Ok(1);
        }
        let mut controls: [_; Self::MOST_AT_ONCE] =
            std::array::from_fn(|_| SendAncillaryBuffer::default());
        let parts = slices.chunks(1).zip(&mut controls);
        let mut messages = Vec::with_capacity(slices.len());
        messages.extend(parts.map(|(slice, control)| match self.own {
            Some(_) => MMsgHdr::new(slice, control),
            None => MMsgHdr::new_with_addr(&self.address.0, slice, control),
        }));
        let socket = self.own.as_ref().unwrap_or(&self.shared);
        Ok(retry_on_intr(|| {
            rustix::net::sendmmsg(socket, &mut messages, FLAGS)
        })?)
    }
}
