//! The link to a plane of a datapath that something else owns.

use std::boxed::Box;
use std::vec::Vec;
use std::{fmt, vec};

use fairwater_proto::link::{Link, LinkError, MAX_PACKET, Pollable, Source};

use crate::{Datapath, PeerId};

/// Packets from the plane that are received in one turn.
const RECEIVE: usize = 256;
/// The bound on packets to the plane, bytes.
const SEND: usize = 1 << 14;

/// Carries messages between a plane and a [`Datapath`] within a box. When the plane is gone the link ends for good, and
/// the datapath's flows go on under its fallback: [`Connection`](crate::Connection) reconnects instead.
pub struct PlaneLink {
    peer: PeerId,
    /// `None` when the plane is gone.
    link: Option<Box<dyn Link>>,
    /// A packet for which the link had no room.
    held: Vec<u8>,
    buffer: Vec<u8>,
}

impl PlaneLink {
    /// Of the plane that the datapath knows as `peer`.
    #[must_use]
    pub fn new(peer: PeerId, link: Box<dyn Link>) -> Self {
        Self {
            peer,
            link: Some(link),
            held: Vec::new(),
            buffer: vec![0; MAX_PACKET],
        }
    }

    /// The link; `None` when the plane is gone.
    #[must_use]
    pub fn link(&self) -> Option<&dyn Link> {
        self.link.as_deref()
    }

    /// Exchanges messages with the plane, and lets time pass in the datapath.
    pub fn exchange(&mut self, datapath: &mut Datapath, now_us: u64) {
        if let Err(LinkError::Gone | LinkError::Broken) = self.receive(datapath, now_us) {
            self.link = None;
        }
        datapath.tick(now_us);
        if let Err(LinkError::Gone | LinkError::Broken) = self.send(datapath) {
            self.link = None;
        }
    }

    fn receive(&mut self, datapath: &mut Datapath, now_us: u64) -> Result<(), LinkError> {
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        for _ in 0..RECEIVE {
            match link.receive(&mut self.buffer) {
                Ok(length) => {
                    let packet = self.buffer.get(..length).unwrap_or_default();
                    datapath.on_message(self.peer, packet, now_us);
                }
                Err(LinkError::TooLong) => {}
                Err(LinkError::WouldBlock) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn send(&mut self, datapath: &mut Datapath) -> Result<(), LinkError> {
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        if !self.held.is_empty() {
            match link.send(&self.held) {
                Ok(()) | Err(LinkError::TooLong) => self.held.clear(),
                Err(LinkError::WouldBlock) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        while let Some(packet) = datapath.poll_transmit_to(self.peer, SEND) {
            match link.send(packet) {
                Ok(()) | Err(LinkError::TooLong) => {}
                Err(LinkError::WouldBlock) => {
                    self.held.extend_from_slice(packet);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether to wait: nothing has come from the plane meanwhile.
    pub fn prepare_to_wait(&mut self) -> bool {
        self.link.as_mut().is_none_or(|link| link.prepare_to_wait())
    }
}

impl Pollable for PlaneLink {
    fn sources(&self) -> [Option<Source<'_>>; 2] {
        match &self.link {
            Some(link) => link.sources(),
            None => [None, None],
        }
    }
}

impl fmt::Debug for PlaneLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlaneLink")
            .field("peer", &self.peer)
            .field("is_connected", &self.link.is_some())
            .finish_non_exhaustive()
    }
}
