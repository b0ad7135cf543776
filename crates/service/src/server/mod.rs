//! The loop between a service, the links of its peers and its direct datapaths.

mod admission;
mod direct;
mod heartbeat;
mod liveness;
mod peer_links;
mod stopper;
mod transmit;

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fairwater_proto::link::datagram::{Batch, PlaneSocket};
use fairwater_proto::link::{self, AdaptiveSpin, LinkError, MAX_PACKET, Poller, ring, seqpacket};

use crate::peer::PeerId;
use crate::service::{Config, Service};
use admission::TurnedAway;
use direct::Attached;
use heartbeat::Heartbeat;
use liveness::Rounds;
use peer_links::{PeerLink, PeerLinks};
use transmit::Blocked;

pub use direct::{DirectDatapath, Port};
use fairwater_plane::Plane;
pub use stopper::Stopper;

/// The longest that a turn sleeps.
const LONGEST_TURN: Duration = Duration::from_millis(50);

/// Packets that are taken from one peer before the others have their turn.
const BUDGET: usize = 256;

/// How long to serve links known to be active before polling the others, µs.
const POLL_EVERY_US: u64 = 100;

/// The longest datagram that is taken, bytes: libccp's bound on a message.
const DATAGRAM_BYTES: usize = 1 << 15;

const STOP: u64 = 0;
const DATAGRAM: u64 = 1;
const SEQPACKET: u64 = 2;
const RING: u64 = 3;
const HEARTBEAT: u64 = 4;
/// Tokens of direct datapaths, in their order; those of links follow.
const FIRST_DIRECT: u64 = 5;
const FIRST_LINK: u64 = FIRST_DIRECT + (1 << 16);

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
    /// [`AdaptiveSpin`].
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
    datagram: Option<PlaneSocket>,
    batch: Batch,
    seqpacket: Option<seqpacket::Listener>,
    ring: Option<ring::Listener>,
    links: PeerLinks,
    direct: Vec<Attached>,
    blocked: Vec<Blocked>,
    turned_away: TurnedAway,
    /// There are no file descriptors for newcomers.
    listeners_paused: bool,
    rounds: Rounds,
    /// When the last heartbeat was.
    heartbeat_us: u64,
    tokens: Vec<u64>,
    buffer: Vec<u8>,
    stopper: Stopper,
    adaptive_spin: AdaptiveSpin,
    /// The last batch of datagrams had several: more have come since, probably.
    more_datagrams: bool,
    /// When the other links were last polled.
    polled_us: u64,
    /// When the last turn ended.
    turned_us: u64,
    /// Ends waits in time for the signs of life.
    heartbeat: Heartbeat,
    start: Instant,
}

impl Server {
    /// Files that this process has open for one peer, at most.
    pub const FILES_PER_PEER: u64 = 3;

    /// Binds the sockets and serves the plane's algorithms there.
    ///
    /// # Errors
    /// A path is in use by a living process, is something else than a socket, or may not be
    /// made; the message names it.
    pub fn bind(plane: Plane, config: Config, endpoints: &Endpoints) -> io::Result<Self> {
        let named = |path: &PathBuf, error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        };
        let datagram = (endpoints.datagram.as_ref())
            .map(|path| PlaneSocket::bind(path).map_err(|error| named(path, error)))
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
        let heartbeat = Heartbeat::new(LONGEST_TURN.min(alive / 2))?;
        poller.add(&heartbeat, HEARTBEAT)?;
        if let Some(datagram) = &datagram {
            poller.add(datagram, DATAGRAM)?;
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
            datagram,
            // More never wait at once: a larger batch would look for one in vain each time.
            batch: Batch::new(PlaneSocket::queue(), DATAGRAM_BYTES),
            seqpacket,
            ring,
            links: PeerLinks::default(),
            direct: Vec::new(),
            blocked: Vec::new(),
            turned_away: TurnedAway::default(),
            listeners_paused: false,
            rounds: Rounds::default(),
            heartbeat_us: 0,
            tokens: Vec::new(),
            buffer: vec![0; MAX_PACKET],
            stopper,
            adaptive_spin: AdaptiveSpin::new(endpoints.spin),
            more_datagrams: false,
            polled_us: 0,
            turned_us: 0,
            heartbeat,
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
                DATAGRAM => self.receive_datagrams()?,
                SEQPACKET => self.accept_seqpacket(),
                RING => self.accept_ring(),
                HEARTBEAT => {
                    self.heartbeat.clear();
                    self.tick()?;
                    (0..self.direct.len()).for_each(|index| self.turn_direct(index));
                }
                direct if direct < FIRST_LINK => {
                    let index = usize::try_from(direct - FIRST_DIRECT).unwrap_or(usize::MAX);
                    self.turn_direct(index);
                }
                link => {
                    let index = usize::try_from(link - FIRST_LINK).unwrap_or(usize::MAX);
                    self.receive_from_link(index);
                }
            }
        }
        self.tokens = tokens;
        self.turn_due_direct();
        self.command_direct();
        self.transmit();
        self.turned_us = self.now_us();
        Ok(())
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Waits, and fills `tokens` with the sources that are ready.
    fn wait(&mut self, wait: Duration) -> io::Result<()> {
        let pending = self.spin_for_packet(wait) || self.more_datagrams;
        if pending && self.turned_us.saturating_sub(self.polled_us) < POLL_EVERY_US {
            if self.more_datagrams {
                self.tokens.push(DATAGRAM);
            }
            self.add_pending_links();
            return Ok(());
        }
        let timeout = if !self.links.prepare_to_wait() {
            Some(Duration::ZERO)
        } else if let Some(next) = self
            .next_retry()
            .into_iter()
            .chain(self.next_direct_turn())
            .min()
        {
            Some(wait.min(next))
        } else {
            // The heartbeat ends longer ones.
            Some(wait).filter(|wait| *wait < self.heartbeat.period())
        };
        let slept = Instant::now();
        self.tokens.extend(self.poller.wait(timeout)?);
        if self.tokens.iter().any(|token| *token >= FIRST_LINK) {
            self.adaptive_spin.waited(slept.elapsed());
        }
        self.polled_us = self.now_us();
        self.add_pending_links();
        Ok(())
    }

    /// Whether a packet lies in some link's memory, now or soon.
    fn spin_for_packet(&mut self, wait: Duration) -> bool {
        let Self {
            links,
            adaptive_spin,
            ..
        } = self;
        let is_pending = || links.pending().next().is_some();
        if is_pending() {
            return true;
        }
        let limit = adaptive_spin.look();
        let look = !limit.is_zero() && limit <= wait && links.has_active();
        if !look || self.more_datagrams {
            return false;
        }
        let start = Instant::now();
        let found = link::spin(limit, is_pending);
        adaptive_spin.looked(start.elapsed(), found);
        found
    }

    /// Adds the links in whose memory packets lie.
    fn add_pending_links(&mut self) {
        let links = self.links.pending().map(|index| FIRST_LINK + index as u64);
        self.tokens.extend(links);
    }

    fn tick(&mut self) -> io::Result<()> {
        let now_us = self.now_us();
        let elapsed_us = now_us.saturating_sub(self.heartbeat_us);
        self.heartbeat_us = now_us;
        self.service.tick(now_us);
        self.tick_liveness(elapsed_us, now_us);
        self.tick_admission(now_us)
    }

    fn receive_datagrams(&mut self) -> io::Result<()> {
        let now_us = self.now_us();
        let Some(socket) = &mut self.datagram else {
            return Ok(());
        };
        // Taken out for as long as newcomers need the rest of the server.
        let mut batch = std::mem::take(&mut self.batch);
        let received = socket.receive(&mut batch).map(|_| ());
        self.more_datagrams = batch.len() > 1;
        for (sender, packet) in batch.iter() {
            // Who cannot be answered cannot be served; what did not fit is no message.
            let (Some(sender), Some(packet)) = (sender, packet) else {
                continue;
            };
            let known = self.links.by_sender(sender);
            let peer = match known.filter(|peer| self.service.is_connected(*peer)) {
                Some(peer) => Some(peer),
                None => self.add_datagram_peer(sender, packet, now_us),
            };
            if let Some(peer) = peer {
                self.service.on_packet(peer, packet, now_us);
            }
        }
        self.batch = batch;
        received
    }

    fn receive_from_link(&mut self, index: usize) {
        let now_us = self.now_us();
        self.links.mark_active(index);
        let Some((peer, PeerLink::Link(link))) = self.links.at_mut(index) else {
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
        discard(&self.poller, self.links.remove(peer));
    }
}

/// Before a link is dropped, its peer must not be able to wake this one any more.
fn discard(poller: &Poller, link: Option<PeerLink>) {
    if let Some(PeerLink::Link(link)) = link {
        let _ = poller.remove(&*link);
    }
}
