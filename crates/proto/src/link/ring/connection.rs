//! A pair of rings to one peer, and where datapaths ask for one.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::handshake::{self, Shared};
use super::mapping::RingMemory;
use super::spsc::{Consumer, Producer};
use super::wakeup::Wakeup;
use crate::link::poller::{Pollable, Source, level};
use crate::link::seqpacket::{self, Connection, Credentials};
use crate::link::{Link, LinkError};
use std::os::fd::AsFd;

/// A socket at a path, at which datapaths ask for rings.
#[derive(Debug)]
pub struct Listener {
    socket: seqpacket::Listener,
    capacity: usize,
}

impl Listener {
    /// Listens at a path, as [`seqpacket::Listener::bind`] does, to give each datapath rings of
    /// `capacity` bytes: a power of two within [`super::CAPACITIES`].
    ///
    /// # Errors
    /// As there.
    pub fn bind(path: impl AsRef<Path>, capacity: usize) -> io::Result<Self> {
        let socket = seqpacket::Listener::bind(path)?;
        Ok(Self { socket, capacity })
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.socket.path()
    }
}

impl crate::link::Listener for Listener {
    type Link = Ring;

    fn accept(&mut self) -> io::Result<Option<Ring>> {
        let Some(socket) = self.socket.accept()? else {
            return Ok(None);
        };
        let Shared {
            mapping,
            to_plane,
            to_datapath,
        } = handshake::offer(&socket, self.capacity)?;
        let (in_ring, out_ring) = RingMemory::both(mapping);
        Ok(Some(Ring {
            producer: Producer::new(out_ring),
            consumer: Consumer::new(in_ring),
            peer_wakeup: to_datapath,
            own_wakeup: to_plane,
            socket,
            woken: false,
        }))
    }
}

impl Pollable for Listener {
    fn sources(&self) -> [Option<Source<'_>>; 2] {
        self.socket.sources()
    }
}

/// A pair of rings to one peer.
#[derive(Debug)]
pub struct Ring {
    producer: Producer<RingMemory>,
    consumer: Consumer<RingMemory>,
    /// What wakes the peer.
    peer_wakeup: Wakeup,
    /// What wakes this end.
    own_wakeup: Wakeup,
    /// Tells that the peer is gone, and nothing else.
    socket: Connection,
    /// This end may have waited since it last received something.
    woken: bool,
}

impl Ring {
    /// Asks for rings at a path. The plane answers when it comes round to it; that much time it
    /// gets before this is given up: the one place where this module waits.
    ///
    /// # Errors
    /// Nobody listens there, they do not answer in time (`TimedOut`) or offer no rings
    /// (`InvalidData`), or there is no memory.
    pub fn connect(path: impl AsRef<Path>, spin: Duration) -> io::Result<Self> {
        let socket = Connection::connect(path)?;
        let Shared {
            mapping,
            to_plane,
            to_datapath,
        } = handshake::accept(&socket, spin)?;
        let (out_ring, in_ring) = RingMemory::both(mapping);
        Ok(Self {
            producer: Producer::new(out_ring),
            consumer: Consumer::new(in_ring),
            peer_wakeup: to_plane,
            own_wakeup: to_datapath,
            socket,
            woken: false,
        })
    }

    /// Who the peer is.
    ///
    /// # Errors
    /// Of the system, none of which are to be expected.
    pub fn credentials(&self) -> io::Result<Credentials> {
        self.socket.credentials()
    }

    /// Why there is nothing to read, or no room to write.
    #[cold]
    fn why_not(&mut self) -> LinkError {
        match self.socket.receive(&mut [0]) {
            Err(LinkError::WouldBlock) => LinkError::WouldBlock,
            Err(LinkError::Gone) => LinkError::Gone,
            // Nothing is ever sent there.
            _ => LinkError::Broken,
        }
    }
}

impl Pollable for Ring {
    fn sources(&self) -> [Option<Source<'_>>; 2] {
        let [socket, _] = level(self.socket.as_fd());
        [Some(self.own_wakeup.source()), socket]
    }
}

impl Link for Ring {
    #[inline]
    fn send(&mut self, packet: &[u8]) -> Result<(), LinkError> {
        match self.producer.push(packet) {
            Ok(false) => Ok(()),
            Ok(true) => {
                self.peer_wakeup.wake();
                Ok(())
            }
            Err(LinkError::WouldBlock) => Err(self.why_not()),
            Err(why) => Err(why),
        }
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, LinkError> {
        let received = self.consumer.pop(buffer);
        // Woken for nothing: the socket may have woken this end.
        if received == Err(LinkError::WouldBlock) && self.woken {
            self.woken = false;
            let why = self.why_not();
            // The peer's last packets came before its end.
            return match why {
                LinkError::Gone => self.consumer.pop(buffer).map_err(|_| why),
                _ => Err(why),
            };
        }
        self.woken = false;
        received
    }

    #[inline]
    fn is_pending(&self) -> bool {
        self.consumer.is_pending()
    }

    fn prepare_to_wait(&mut self) -> bool {
        self.woken = self.consumer.prepare_to_wait();
        self.woken
    }
}
