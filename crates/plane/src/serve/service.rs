//! Peers come and go, packets in, packets out.

use std::collections::VecDeque;

use fairwater_proto::{Dialect, Welcome};

use super::aside::Aside;
use super::catalogue::Catalogue;
use super::notice::Notice;
use super::outgoing::Context;
use super::peer::{Peer, PeerId};
use super::seats::Slots;
use super::statistics::Statistics;
use crate::{MAX_FLOWS, Plane};

/// Notices kept until they are drained; the oldest go first.
const MAX_NOTICES: usize = 1024;

/// How a service behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Tells this plane from those before and after it at the same place: a random number.
    pub instance: u64,
    /// Each peer hears from the plane at least this often, µs.
    pub alive_us: u32,
    /// The most peers at once.
    pub max_peers: u32,
    /// The most flows of all peers at once, and the bound on a peer's slots; at most
    /// [`MAX_FLOWS`].
    pub max_flows: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            instance: 1,
            alive_us: 50_000,
            max_peers: 1024,
            max_flows: 1 << 18,
        }
    }
}

/// What a service knows of one peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerView<'a> {
    /// Which it is.
    pub id: PeerId,
    /// Its name; "?" before it said it.
    pub name: &'a str,
    /// What it speaks, once it is known.
    pub dialect: Option<Dialect>,
    /// Flows that it has now.
    pub flows: u32,
    /// Reports that came from it.
    pub reports: u64,
}

/// A plane and its peers, sans I/O.
///
/// Whoever carries the packets calls [`Service::connect`] for each new peer and
/// [`Service::peer_gone`] when one is lost, gives packets to [`Service::on_packet`], calls
/// [`Service::tick`] at least twice in `alive_us`, and sends what [`Service::poll_transmit`]
/// hands out.
#[derive(Debug)]
pub struct Service {
    peers: Vec<Option<Box<Peer>>>,
    generation: u32,
    /// Peers that have something to send, each once.
    ready: VecDeque<PeerId>,
    pub(super) shared: Shared,
}

/// What all peers share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: Config,
    pub(super) plane: Plane,
    pub(super) catalogue: Catalogue,
    pub(super) slots: Slots,
    pub(super) aside: Aside,
    pub(super) statistics: Statistics,
    pub(super) notices: VecDeque<Notice>,
    /// The fields of the report at hand.
    pub(super) fields: Vec<u64>,
}

impl Service {
    /// Serves the algorithms that the plane has now.
    #[must_use]
    pub fn new(plane: Plane, config: Config) -> Self {
        let config = Config {
            max_flows: config.max_flows.min(MAX_FLOWS),
            ..config
        };
        Self {
            peers: Vec::new(),
            generation: 0,
            ready: VecDeque::new(),
            shared: Shared {
                catalogue: Catalogue::new(plane.algorithms(), config.instance),
                config,
                plane,
                slots: Slots::default(),
                aside: Aside::default(),
                statistics: Statistics::default(),
                notices: VecDeque::new(),
                fields: vec![0; fairwater_lang::bounds::MAX_VARIABLES + super::catalogue::APPENDED],
            },
        }
    }

    /// The plane, for its algorithms and their counts.
    #[must_use]
    pub fn plane(&self) -> &Plane {
        &self.shared.plane
    }

    /// What was counted.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        Statistics {
            peers: self.peers().count() as u64,
            flows: self.shared.slots.in_use(),
            ..self.shared.statistics
        }
    }

    /// The peers.
    pub fn peers(&self) -> impl Iterator<Item = PeerView<'_>> {
        self.peers.iter().flatten().map(|peer| PeerView {
            id: peer.id,
            name: peer.name(),
            dialect: peer.dialect,
            flows: peer.flows,
            reports: peer.reports,
        })
    }

    /// Takes the notices since the last call, oldest first.
    pub fn drain_notices(&mut self) -> impl Iterator<Item = Notice> + '_ {
        self.shared.collect_notices();
        self.shared.notices.drain(..)
    }

    /// A new peer, which has not spoken yet. When there are too many, the one without flows that
    /// was silent the longest gives way; `None` if each has flows.
    pub fn connect(&mut self, now_us: u64) -> Option<PeerId> {
        let free = self.peers.iter().position(Option::is_none);
        let index = match free {
            Some(index) => index,
            None if self.peers.len() < self.shared.config.max_peers as usize => {
                self.peers.push(None);
                self.peers.len() - 1
            }
            None => {
                let idle = self.peers.iter().flatten().filter(|p| p.flows == 0);
                let oldest = idle.min_by_key(|p| p.heard_us)?.id;
                self.peer_gone(oldest);
                oldest.index()
            }
        };
        self.generation = self.generation.wrapping_add(1);
        let id = PeerId {
            index: u32::try_from(index).ok()?,
            generation: self.generation,
        };
        let programs = self.shared.catalogue.len();
        *self.peers.get_mut(index)? = Some(Box::new(Peer::new(id, programs, now_us)));
        Some(id)
    }

    /// Whether there is such a peer: it may have given way to another.
    #[must_use]
    pub fn is_connected(&self, id: PeerId) -> bool {
        let peer = self.peers.get(id.index()).and_then(Option::as_ref);
        peer.is_some_and(|peer| peer.id == id)
    }

    /// The peer is lost, and its flows with it.
    pub fn peer_gone(&mut self, id: PeerId) {
        if !self.is_connected(id) {
            return;
        }
        if let Some(mut peer) = self.peers.get_mut(id.index()).and_then(Option::take) {
            if peer.met.is_some() {
                let left = Notice::Left {
                    peer: peer.name().to_owned(),
                    flows: peer.flows,
                };
                self.shared.notice(left);
            }
            self.shared.end_flows(&mut peer);
            self.tell_others();
        }
    }

    /// A packet of a peer's: any number of messages, good or bad.
    pub fn on_packet(&mut self, id: PeerId, packet: &[u8], now_us: u64) {
        let Self {
            peers,
            shared,
            ready,
            ..
        } = self;
        let peer = peers.get_mut(id.index()).and_then(Option::as_mut);
        let Some(peer) = peer.filter(|peer| peer.id == id) else {
            return shared
                .statistics
                .refuse(fairwater_proto::RefusalReason::UnknownPeer);
        };
        shared.packet(peer, packet, now_us);
        queue(ready, peer);
        self.tell_others();
    }

    /// Tells flows of other peers than the one at hand what their aggregates want of them.
    #[inline]
    fn tell_others(&mut self) {
        while let Some((flow, command)) = self.shared.aside.pop() {
            let Some((id, slot)) = self.shared.aside.seat(flow) else {
                continue;
            };
            let peer = self.peers.get_mut(id.index()).and_then(Option::as_mut);
            if let Some(peer) = peer.filter(|peer| peer.id == id) {
                self.shared.told_aside(peer, slot, flow, &command);
                queue(&mut self.ready, peer);
            }
        }
    }

    /// Time passes: a sign of life becomes due for each peer that has not had one for `alive_us`.
    pub fn tick(&mut self, now_us: u64) {
        let Self {
            peers,
            shared,
            ready,
            ..
        } = self;
        let alive_us = u64::from(shared.config.alive_us);
        for peer in peers.iter_mut().flatten() {
            let due = now_us.saturating_sub(peer.welcomed_us) >= alive_us;
            if due && peer.met.is_some() && peer.dialect == Some(Dialect::Own) {
                peer.welcomed_us = now_us;
                peer.outgoing.welcome = true;
                queue(ready, peer);
            }
        }
    }

    /// The next packet to be sent, of whole messages of one peer; peers take turns. It counts as
    /// sent, unless [`Service::retry`] follows.
    pub fn poll_transmit(&mut self) -> Option<(PeerId, &[u8])> {
        let index = loop {
            let id = self.ready.pop_front()?;
            let Some(peer) = self
                .peers
                .get_mut(id.index())
                .and_then(Option::as_mut)
                .filter(|peer| peer.id == id)
            else {
                continue;
            };
            peer.outgoing.queued = false;
            let Some(dialect) = peer.dialect else {
                continue;
            };
            if peer.outgoing.blocked {
                continue;
            }
            let shared = &mut self.shared;
            let mut context = Context {
                catalogue: &shared.catalogue,
                welcome: Welcome {
                    instance: shared.config.instance,
                    alive_us: shared.config.alive_us,
                },
                statistics: &mut shared.statistics,
            };
            let due = peer.outgoing.next(dialect, &mut peer.seats, &mut context);
            queue(&mut self.ready, peer);
            if due {
                break id.index();
            }
        };
        let peer = self.peers.get(index)?.as_ref()?;
        Some((peer.id, peer.outgoing.packet()))
    }

    /// The packet that was just handed out for this peer could not be sent: it is kept, and the
    /// peer's commands are merged until [`Service::writable`].
    pub fn retry(&mut self, id: PeerId) {
        let peer = self.peers.get_mut(id.index()).and_then(Option::as_mut);
        if let Some(peer) = peer.filter(|peer| peer.id == id) {
            peer.outgoing.retry();
        }
    }

    /// The peer's link may have room again.
    pub fn writable(&mut self, id: PeerId) {
        let peer = self.peers.get_mut(id.index()).and_then(Option::as_mut);
        if let Some(peer) = peer.filter(|peer| peer.id == id) {
            peer.outgoing.blocked = false;
            queue(&mut self.ready, peer);
        }
    }
}

/// Puts the peer among those that have something to send, if it has and is not there.
#[inline]
fn queue(ready: &mut VecDeque<PeerId>, peer: &mut Peer) {
    let outgoing = &mut peer.outgoing;
    if !outgoing.queued && !outgoing.blocked && outgoing.is_due() {
        outgoing.queued = true;
        ready.push_back(peer.id);
    }
}

impl Shared {
    pub(super) fn notice(&mut self, notice: Notice) {
        if self.notices.len() == MAX_NOTICES {
            self.notices.pop_front();
            self.statistics.notices_lost += 1;
        }
        self.notices.push_back(notice);
    }

    fn collect_notices(&mut self) {
        let Self { plane, notices, .. } = self;
        notices.extend(plane.drain_notices().map(Notice::Flow));
    }
}
