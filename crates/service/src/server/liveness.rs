//! Peers that died without a word.
//!
//! The end of a connection is an event. A datagram socket that is closed tells nobody, so each
//! datagram peer is looked for in turn, once in [`ROUND_US`].

use fairwater_proto::link::datagram::Presence;

use super::Server;
use super::peer_links::PeerLink;
use crate::peer::PeerId;

/// All datagram peers are looked for in this time, µs.
const ROUND_US: u64 = 2_000_000;

/// A peer whose socket is not known to be closed, though it is not at its address any more, is given
/// up after a silence of this length, µs: something else than its end may have removed the path.
const LOST_ADDRESS_SILENCE_US: u64 = 5_000_000;

/// When the service is full, all peers are looked for at most this often, µs.
const FULL_ROUND_US: u64 = 50_000;

/// Where the present round is.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    next: usize,
    /// Peers that the time since the last heartbeat is not enough for, in parts of [`ROUND_US`].
    remainder: u64,
    full_round_us: Option<u64>,
}

impl Server {
    /// Looks for the peers whose turn it is after `elapsed_us`.
    pub(super) fn tick_liveness(&mut self, elapsed_us: u64, now_us: u64) {
        let count = self.links.len() as u64;
        let due = count * elapsed_us.min(ROUND_US) + self.rounds.remainder;
        self.rounds.remainder = due % ROUND_US;
        for _ in 0..due / ROUND_US {
            let index = self.rounds.next;
            self.rounds.next = (index + 1) % self.links.len().max(1);
            self.drop_if_dead(index, now_us);
        }
    }

    /// Looks for all peers, unless that was done just now.
    pub(super) fn drop_dead_peers(&mut self, now_us: u64) {
        let last_us = self.rounds.full_round_us;
        if last_us.is_some_and(|last_us| now_us.saturating_sub(last_us) < FULL_ROUND_US) {
            return;
        }
        self.rounds.full_round_us = Some(now_us);
        for index in 0..self.links.len() {
            self.drop_if_dead(index, now_us);
        }
    }

    fn drop_if_dead(&mut self, index: usize, now_us: u64) {
        let Some((peer, PeerLink::Datagram(sender))) = self.links.at_mut(index) else {
            return;
        };
        let dead = match sender.presence() {
            Ok(Presence::Closed) => true,
            Ok(Presence::Unlinked) => self.is_silent(peer, now_us),
            Ok(Presence::Present) | Err(_) => false,
        };
        if dead {
            self.lose(peer);
        }
    }

    /// Whether the peer of an address is gone, so that the address may be another user's. A living
    /// process keeps its address as long as its user owns the socket there; where no owner can be
    /// told, as for abstract names, as long as it is not silent.
    pub(super) fn has_left(&mut self, holder: PeerId, now_us: u64) -> bool {
        let Some((peer, PeerLink::Datagram(sender))) = self.links.at_mut(holder.index()) else {
            return true;
        };
        if peer != holder || !self.service.is_connected(holder) {
            return true;
        }
        match sender.presence() {
            Ok(Presence::Closed) => true,
            Ok(Presence::Unlinked | Presence::Present) => self.is_silent(holder, now_us),
            Err(_) => false,
        }
    }

    fn is_silent(&self, peer: PeerId, now_us: u64) -> bool {
        self.service.silence_us(peer, now_us) >= LOST_ADDRESS_SILENCE_US
    }
}
