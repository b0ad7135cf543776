//! A datapath and its link to a plane, which reconnects by itself.

use std::boxed::Box;
use std::io;
use std::path::Path;
use std::time::Duration;
use std::vec::Vec;
use std::{fmt, vec};

use fairwater_lang::Signals;
use fairwater_proto::link::{
    Link, LinkError, MAX_PACKET, Pollable, Source, datagram, ring, seqpacket,
};
use fairwater_proto::{Dialect, FlowId, FlowInfo};

use crate::{Config, Controls, Datapath, PeerId, StartError, UnknownFlow};

/// What makes a link, again and again.
type Connect = Box<dyn FnMut() -> io::Result<Box<dyn Link>> + Send>;

/// How long to wait after the first failure to connect, µs; it doubles up to the longest.
const FIRST_BACKOFF_US: u64 = 10_000;
const LONGEST_BACKOFF_US: u64 = 500_000;

/// Packets that are received in one call, so that a plane that never stops cannot keep its
/// datapath from anything else.
const RECEIVE: usize = 1024;

/// The bound on packets to be sent, bytes: some reports at once, and any one message.
const SEND: usize = 1 << 14;

/// A [`Datapath`] and the link to its one plane.
///
/// Whether the plane is there or not, flows start, run and end; while it is not they are under
/// the fallback. Call [`Connection::service`] whenever the link's descriptors
/// ([`Pollable::sources`]) say so, at [`Connection::next_timeout`], and after ACKs, to send what
/// they reported.
pub struct Connection {
    datapath: Datapath,
    peer: PeerId,
    connect: Connect,
    link: Option<Box<dyn Link>>,
    /// Whether a link was there before.
    was_connected: bool,
    /// When to connect next, µs.
    retry_us: u64,
    backoff_us: u64,
    /// A packet for which the link had no room.
    held: Vec<u8>,
    buffer: Vec<u8>,
}

impl Connection {
    /// To a plane that speaks `dialect` over the links that `connect` makes. It is called from
    /// [`Connection::service`], each time that there is none, and must not block.
    pub fn new<F>(config: Config, dialect: Dialect, now_us: u64, connect: F) -> Self
    where
        F: FnMut() -> io::Result<Box<dyn Link>> + Send + 'static,
    {
        let mut datapath = Datapath::new(config);
        let peer = datapath.add_peer(dialect, now_us);
        Self {
            datapath,
            peer,
            connect: Box::new(connect),
            link: None,
            was_connected: false,
            retry_us: now_us,
            backoff_us: FIRST_BACKOFF_US,
            held: Vec::new(),
            buffer: vec![0; MAX_PACKET],
        }
    }

    /// To a plane of ours that listens at a Unix seqpacket socket.
    pub fn seqpacket(config: Config, plane: impl AsRef<Path>, now_us: u64) -> Self {
        let plane = plane.as_ref().to_owned();
        Self::new(config, Dialect::Own, now_us, move || {
            Ok(Box::new(seqpacket::Connection::connect(&plane)?))
        })
    }

    /// To a plane of ours through shared memory, which it offers at a Unix seqpacket socket.
    /// Connecting is the one thing that waits: for `timeout` at most, where a plane listens but
    /// does not answer at once.
    pub fn shared_memory(
        config: Config,
        plane: impl AsRef<Path>,
        timeout: Duration,
        now_us: u64,
    ) -> Self {
        let plane = plane.as_ref().to_owned();
        Self::new(config, Dialect::Own, now_us, move || {
            Ok(Box::new(ring::Ring::connect(&plane, timeout)?))
        })
    }

    /// To an agent of CCP's by Unix datagrams: from a socket at a path of the datapath's own to
    /// the agent's, by convention [`datagram::CCP_AGENT`].
    pub fn ccp(
        config: Config,
        own: impl AsRef<Path>,
        agent: impl AsRef<Path>,
        now_us: u64,
    ) -> Self {
        let (own, agent) = (own.as_ref().to_owned(), agent.as_ref().to_owned());
        Self::new(config, Dialect::Ccp, now_us, move || {
            Ok(Box::new(datagram::Datapath::bind(&own, &agent)?))
        })
    }

    /// The datapath.
    #[must_use]
    pub const fn datapath(&self) -> &Datapath {
        &self.datapath
    }

    /// The datapath, to be called past the connection.
    pub const fn datapath_mut(&mut self) -> &mut Datapath {
        &mut self.datapath
    }

    /// The plane, as the datapath names it.
    #[must_use]
    pub const fn peer(&self) -> PeerId {
        self.peer
    }

    /// Whether there is a link now. Whether an algorithm controls a flow is in the flow's
    /// [`crate::FlowState`].
    #[must_use]
    pub const fn is_connected(&self) -> bool {
        self.link.is_some()
    }

    /// Whether the plane takes no more datapaths: it said so to the last attempt to join it. It is
    /// asked again from time to time, until it has a place; flows run under the fallback meanwhile.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.datapath.is_refused_by(self.peer)
    }

    /// [`Datapath::start`] with the plane.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(&mut self, algorithm: &str, info: &FlowInfo) -> Result<FlowId, StartError> {
        self.datapath.start(self.peer, algorithm, info)
    }

    /// [`Datapath::invoke`].
    ///
    /// # Errors
    /// There is no such flow.
    #[inline]
    pub fn invoke(
        &mut self,
        flow: FlowId,
        signals: &Signals,
    ) -> Result<Option<Controls>, UnknownFlow> {
        self.datapath.invoke(flow, signals)
    }

    /// [`Datapath::close`].
    ///
    /// # Errors
    /// There is no such flow.
    pub fn close(&mut self, flow: FlowId) -> Result<(), UnknownFlow> {
        self.datapath.close(flow)
    }

    /// Connects if need be, receives what came, lets time pass, and sends what the link takes.
    /// `now_us` is the datapath's time.
    pub fn service(&mut self, now_us: u64) {
        self.reconnect(now_us);
        if let Err(error) = self.receive(now_us) {
            self.disconnect(error, now_us);
        }
        self.datapath.tick(now_us);
        self.flush(now_us);
    }

    /// Sends what waits, as far as the link takes it, and does nothing else: for right after an
    /// ACK. Costs no system call when nothing waits.
    pub fn flush(&mut self, now_us: u64) {
        if let Err(error) = self.send() {
            self.disconnect(error, now_us);
        }
    }

    /// When [`Connection::service`] next has something to do by itself, µs.
    #[must_use]
    pub fn next_timeout(&self) -> Option<u64> {
        let retry = self.link.is_none().then_some(self.retry_us);
        self.datapath.next_timeout().into_iter().chain(retry).min()
    }

    /// To be called before waiting for [`Pollable::sources`]. When it returns false, call
    /// [`Connection::service`] again rather than wait.
    #[must_use]
    pub fn prepare_to_wait(&mut self) -> bool {
        self.link.as_mut().is_none_or(|link| link.prepare_to_wait())
    }

    fn reconnect(&mut self, now_us: u64) {
        if self.link.is_some() || now_us < self.retry_us {
            return;
        }
        match (self.connect)() {
            Ok(link) => {
                self.link = Some(link);
                if self.was_connected {
                    self.datapath.reset_peer(self.peer, now_us);
                }
                self.was_connected = true;
            }
            Err(_) => self.back_off(now_us),
        }
    }

    /// How often it is tried again falls until something is received: that a socket could be
    /// made does not mean that anybody reads it.
    fn back_off(&mut self, now_us: u64) {
        self.retry_us = now_us.saturating_add(self.backoff_us);
        self.backoff_us = (2 * self.backoff_us).min(LONGEST_BACKOFF_US);
    }

    fn disconnect(&mut self, error: LinkError, now_us: u64) {
        if matches!(error, LinkError::Gone | LinkError::Broken) {
            self.link = None;
            self.held.clear();
            self.back_off(now_us);
        }
    }

    fn receive(&mut self, now_us: u64) -> Result<(), LinkError> {
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        for _ in 0..RECEIVE {
            match link.receive(&mut self.buffer) {
                Ok(length) => {
                    let packet = self.buffer.get(..length).unwrap_or_default();
                    self.datapath.on_message(self.peer, packet, now_us);
                    if self.datapath.is_refused_by(self.peer) {
                        return Err(LinkError::Gone);
                    }
                    self.backoff_us = FIRST_BACKOFF_US;
                }
                Err(LinkError::TooLong) => {}
                Err(LinkError::WouldBlock) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), LinkError> {
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        if !self.held.is_empty() {
            link.send(&self.held)?;
            self.held.clear();
        }
        while let Some(packet) = self.datapath.poll_transmit_to(self.peer, SEND) {
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
}

impl Pollable for Connection {
    fn sources(&self) -> [Option<Source<'_>>; 2] {
        match &self.link {
            Some(link) => link.sources(),
            None => [None, None],
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("datapath", &self.datapath)
            .field("is_connected", &self.is_connected())
            .field("retry_us", &self.retry_us)
            .finish_non_exhaustive()
    }
}
