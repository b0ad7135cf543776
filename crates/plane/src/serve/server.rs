//! The loop between a service and the links of its peers.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fairwater_proto::link::datagram::{Agent, Batch};
use fairwater_proto::link::{
    self, Link, LinkError, Listener, MAX_PACKET, Patience, Poller, ring, seqpacket,
};

use super::beat::Beat;
use super::peer::PeerId;
use super::service::{Config, Service};
use super::stopper::Stopper;
use super::ways::{Way, Ways};
use crate::Plane;

/// The longest that a turn sleeps.
const LONGEST_TURN: Duration = Duration::from_millis(50);

/// How soon a peer whose link was full is tried again: no link tells when it has room.
const RETRY: Duration = Duration::from_millis(1);

/// Packets that are taken from one peer before the others have their turn.
const BUDGET: usize = 256;

/// How long those are heard alone who are known to speak, without the system being asked who else
/// has something to say, µs.
const ASK_US: u64 = 100;

/// The longest datagram that is taken, bytes: libccp's bound on a message.
const DATAGRAM_BYTES: usize = 1 << 15;

const STOP: u64 = 0;
const AGENT: u64 = 1;
const SEQPACKET: u64 = 2;
const RING: u64 = 3;
const BEAT: u64 = 4;
const FIRST_LINK: u64 = 5;

/// Where a server is to be found, and how it waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoints {
    /// A Unix datagram socket, in either dialect:
    /// [`CCP_AGENT`](fairwater_proto::link::datagram::CCP_AGENT) is where libccp's datapaths
    /// look.
    pub datagram: Option<PathBuf>,
    /// A Unix seqpacket socket.
    pub seqpacket: Option<PathBuf>,
    /// A Unix seqpacket socket that gives each peer rings in shared memory.
    pub ring: Option<PathBuf>,
    /// How long at most to look for packets in rings before sleeping, where that pays: see
    /// [`Patience`].
    pub spin: Duration,
}

impl Default for Endpoints {
    /// Nowhere, and looking for [`link::DEFAULT_SPIN`].
    fn default() -> Self {
        Self {
            datagram: None,
            seqpacket: None,
            ring: None,
            spin: link::DEFAULT_SPIN,
        }
    }
}

/// A [`Service`] at its sockets, which are removed when it is dropped.
#[derive(Debug)]
pub struct Server {
    service: Service,
    poller: Poller,
    agent: Option<Agent>,
    batch: Batch,
    seqpacket: Option<seqpacket::Listener>,
    ring: Option<ring::Listener>,
    ways: Ways,
    blocked: Vec<PeerId>,
    tokens: Vec<u64>,
    buffer: Vec<u8>,
    stopper: Stopper,
    patience: Patience,
    /// The last batch of datagrams had several: more have come since, probably.
    datagrams_flow: bool,
    /// When the system was last asked.
    asked_us: u64,
    /// When the last turn ended.
    turned_us: u64,
    /// So that signs of life are in time.
    beat: Beat,
    start: Instant,
}

impl Server {
    /// Binds the sockets and serves the plane's algorithms there.
    ///
    /// # Errors
    /// A path is in use by a living process, is something else than a socket, or may not be
    /// made; the message names it.
    pub fn bind(plane: Plane, config: Config, endpoints: &Endpoints) -> io::Result<Self> {
        let named = |path: &PathBuf, error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        };
        let agent = (endpoints.datagram.as_ref())
            .map(|path| Agent::bind(path).map_err(|error| named(path, error)))
            .transpose()?;
        let seqpacket = (endpoints.seqpacket.as_ref())
            .map(|path| seqpacket::Listener::bind(path).map_err(|error| named(path, error)))
            .transpose()?;
        let ring = (endpoints.ring.as_ref())
            .map(|path| {
                ring::Listener::bind(path, ring::DEFAULT_CAPACITY)
                    .map_err(|error| named(path, error))
            })
            .transpose()?;
        let poller = Poller::new()?;
        let stopper = Stopper::new()?;
        poller.add(&stopper, STOP)?;
        let alive = Duration::from_micros(config.alive_us.into());
        let beat = Beat::new(LONGEST_TURN.min(alive / 2))?;
        poller.add(&beat, BEAT)?;
        if let Some(agent) = &agent {
            poller.add(agent, AGENT)?;
        }
        if let Some(listener) = &seqpacket {
            poller.add(listener, SEQPACKET)?;
        }
        if let Some(listener) = &ring {
            poller.add(listener, RING)?;
        }
        Ok(Self {
            service: Service::new(plane, config),
            poller,
            agent,
            // More never wait at once: a larger batch would look for one in vain each time.
            batch: Batch::new(Agent::queue(), DATAGRAM_BYTES),
            seqpacket,
            ring,
            ways: Ways::default(),
            blocked: Vec::new(),
            tokens: Vec::new(),
            buffer: vec![0; MAX_PACKET],
            stopper,
            patience: Patience::new(endpoints.spin),
            datagrams_flow: false,
            asked_us: 0,
            turned_us: 0,
            beat,
            start: Instant::now(),
        })
    }

    /// What stops [`Server::run`].
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// The service, for its counts.
    #[must_use]
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// The service, to drain its notices.
    pub fn service_mut(&mut self) -> &mut Service {
        &mut self.service
    }

    /// Serves until stopped.
    ///
    /// # Errors
    /// Of the system, none of which are to be expected.
    pub fn run(&mut self) -> io::Result<()> {
        while !self.stopper.is_asked() {
            self.turn(LONGEST_TURN)?;
        }
        Ok(())
    }

    /// One turn: waits for packets for at most `wait`, handles them, and sends what is to be
    /// sent. A signal ends the wait.
    ///
    /// # Errors
    /// Of the system, none of which are to be expected.
    pub fn turn(&mut self, wait: Duration) -> io::Result<()> {
        self.wait(wait)?;
        let mut tokens = std::mem::take(&mut self.tokens);
        for token in tokens.drain(..) {
            match token {
                STOP => {}
                AGENT => self.hear_datagrams()?,
                SEQPACKET => self.accept_seqpacket(),
                RING => self.accept_ring(),
                BEAT => {
                    self.beat.hear();
                    self.service.tick(self.now_us());
                }
                link => {
                    let index = usize::try_from(link - FIRST_LINK).unwrap_or(usize::MAX);
                    self.hear_link(index);
                }
            }
        }
        self.tokens = tokens;
        self.transmit();
        self.turned_us = self.now_us();
        Ok(())
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Fills `tokens` with where something is.
    fn wait(&mut self, wait: Duration) -> io::Result<()> {
        let speak = self.look(wait) || self.datagrams_flow;
        if speak && self.turned_us.saturating_sub(self.asked_us) < ASK_US {
            if self.datagrams_flow {
                self.tokens.push(AGENT);
            }
            self.take_pending();
            return Ok(());
        }
        let timeout = if !self.ways.prepare_to_wait() {
            Some(Duration::ZERO)
        } else if !self.blocked.is_empty() {
            Some(wait.min(RETRY))
        } else {
            // The beat ends longer ones.
            Some(wait).filter(|wait| *wait < self.beat.period())
        };
        let slept = Instant::now();
        self.tokens.extend(self.poller.wait(timeout)?);
        if self.tokens.iter().any(|token| *token >= FIRST_LINK) {
            self.patience.waited(slept.elapsed());
        }
        self.asked_us = self.now_us();
        self.take_pending();
        Ok(())
    }

    /// Whether a packet lies in some link's memory, now or soon.
    fn look(&mut self, wait: Duration) -> bool {
        let Self { ways, patience, .. } = self;
        let is_pending = || ways.pending().next().is_some();
        if is_pending() {
            return true;
        }
        let limit = patience.look();
        let look = !limit.is_zero() && limit <= wait && ways.has_active();
        if !look || self.datagrams_flow {
            return false;
        }
        let start = Instant::now();
        let found = link::spin(limit, is_pending);
        patience.looked(start.elapsed(), found);
        found
    }

    /// Adds the links in whose memory packets lie.
    fn take_pending(&mut self) {
        let links = self.ways.pending().map(|index| FIRST_LINK + index as u64);
        self.tokens.extend(links);
    }

    fn hear_datagrams(&mut self) -> io::Result<()> {
        let now_us = self.now_us();
        let Self {
            agent: Some(agent),
            batch,
            ways,
            service,
            poller,
            ..
        } = self
        else {
            return Ok(());
        };
        let batch = agent.receive(batch)?;
        self.datagrams_flow = batch.len() > 1;
        for (address, packet) in batch.iter() {
            // Who cannot be answered cannot be served; what did not fit is no message.
            let (Some(address), Some(packet)) = (address, packet) else {
                continue;
            };
            let peer = match ways.by_address(address) {
                Some(peer) if service.is_connected(peer) => peer,
                _ => {
                    let Ok(way) = agent.peer(address) else {
                        continue;
                    };
                    let Some(peer) = service.connect(now_us) else {
                        continue;
                    };
                    discard(poller, ways.insert(peer, Way::Datagram(way)));
                    peer
                }
            };
            service.on_packet(peer, packet, now_us);
        }
        Ok(())
    }

    fn accept_seqpacket(&mut self) {
        for _ in 0..BUDGET {
            let accepted = self.seqpacket.as_mut().map(Listener::accept);
            match accepted {
                Some(Ok(Some(link))) => self.meet(Box::new(link)),
                // A peer that could not be set up; the next may be.
                Some(Err(_)) => {}
                _ => return,
            }
        }
    }

    fn accept_ring(&mut self) {
        for _ in 0..BUDGET {
            let accepted = self.ring.as_mut().map(Listener::accept);
            match accepted {
                Some(Ok(Some(link))) => self.meet(Box::new(link)),
                Some(Err(_)) => {}
                _ => return,
            }
        }
    }

    fn meet(&mut self, link: Box<dyn Link>) {
        // Without a place the link is dropped: the peer sees its end, and tries again later.
        let Some(peer) = self.service.connect(self.now_us()) else {
            return;
        };
        let token = FIRST_LINK + peer.index() as u64;
        if self.poller.add(&*link, token).is_err() {
            return self.service.peer_gone(peer);
        }
        discard(&self.poller, self.ways.insert(peer, Way::Link(link)));
        self.ways.heard(peer.index());
    }

    fn hear_link(&mut self, index: usize) {
        let now_us = self.now_us();
        self.ways.heard(index);
        let Some((peer, Way::Link(link))) = self.ways.at_mut(index) else {
            return;
        };
        for _ in 0..BUDGET {
            match link.receive(&mut self.buffer) {
                Ok(length) => {
                    let packet = self.buffer.get(..length).unwrap_or_default();
                    self.service.on_packet(peer, packet, now_us);
                }
                Err(LinkError::WouldBlock) => return,
                Err(LinkError::TooLong) => {}
                Err(LinkError::Gone | LinkError::Broken) => return self.lose(peer),
            }
        }
    }

    fn lose(&mut self, peer: PeerId) {
        self.service.peer_gone(peer);
        discard(&self.poller, self.ways.remove(peer));
    }

    fn transmit(&mut self) {
        for peer in self.blocked.drain(..) {
            self.service.writable(peer);
        }
        while let Some((peer, packet)) = self.service.poll_transmit() {
            let sent = match self.ways.get_mut(peer) {
                Some(way) => way.send(packet),
                None => Err(LinkError::Gone),
            };
            match sent {
                // What is too long for the link is too long for ever.
                Ok(()) | Err(LinkError::TooLong) => {}
                Err(LinkError::WouldBlock) => {
                    self.service.retry(peer);
                    self.blocked.push(peer);
                }
                Err(LinkError::Gone | LinkError::Broken) => self.lose(peer),
            }
        }
    }
}

/// Before a link is dropped, its peer must not be able to wake this one any more.
fn discard(poller: &Poller, way: Option<Way>) {
    if let Some(Way::Link(link)) = way {
        let _ = poller.remove(&*link);
    }
}
