//! The links to a server's peers.

use std::collections::HashMap;

use fairwater_proto::link::datagram::{self, Address};
use fairwater_proto::link::{Link, LinkError};

use super::peer::PeerId;

/// How a peer is reached.
pub(super) enum Way {
    Datagram(datagram::Peer),
    Link(Box<dyn Link>),
}

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Datagram(peer) => f.debug_tuple("Datagram").field(peer.address()).finish(),
            Self::Link(_) => f.debug_tuple("Link").finish_non_exhaustive(),
        }
    }
}

impl Way {
    pub(super) fn send(&mut self, packet: &[u8]) -> Result<(), LinkError> {
        match self {
            Self::Datagram(peer) => peer.send(packet),
            Self::Link(link) => link.send(packet),
        }
    }
}

/// The way to each peer, by index, and the peer of each datagram address.
#[derive(Debug, Default)]
pub(super) struct Ways {
    all: Vec<Option<(PeerId, Way)>>,
    addresses: HashMap<Address, PeerId>,
    /// Who sent the last datagram: most often the next is theirs too.
    last: Option<(Address, PeerId)>,
}

impl Ways {
    /// Sets the way to a peer; returns that to the one that had its index before.
    pub(super) fn insert(&mut self, peer: PeerId, way: Way) -> Option<Way> {
        let former = self.take(peer.index());
        if let Way::Datagram(datagram) = &way {
            self.addresses.insert(datagram.address().clone(), peer);
        }
        if self.all.len() <= peer.index() {
            self.all.resize_with(peer.index() + 1, || None);
        }
        if let Some(place) = self.all.get_mut(peer.index()) {
            *place = Some((peer, way));
        }
        former
    }

    pub(super) fn remove(&mut self, peer: PeerId) -> Option<Way> {
        let place = self.all.get(peer.index())?.as_ref();
        if place.is_some_and(|(holder, _)| *holder == peer) {
            self.take(peer.index())
        } else {
            None
        }
    }

    fn take(&mut self, index: usize) -> Option<Way> {
        let (peer, way) = self.all.get_mut(index)?.take()?;
        if let Way::Datagram(datagram) = &way {
            self.addresses.remove(datagram.address());
            self.last = self.last.take().filter(|(_, last)| *last != peer);
        }
        Some(way)
    }

    pub(super) fn get_mut(&mut self, peer: PeerId) -> Option<&mut Way> {
        let (holder, way) = self.all.get_mut(peer.index())?.as_mut()?;
        (*holder == peer).then_some(way)
    }

    pub(super) fn at_mut(&mut self, index: usize) -> Option<(PeerId, &mut Way)> {
        let (peer, way) = self.all.get_mut(index)?.as_mut()?;
        Some((*peer, way))
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The links that are not sockets of many peers.
    pub(super) fn links(&mut self) -> impl Iterator<Item = &mut Box<dyn Link>> {
        self.all.iter_mut().filter_map(|place| match place {
            Some((_, Way::Link(link))) => Some(link),
            _ => None,
        })
    }

    /// Whether a packet lies in some link's memory.
    pub(super) fn is_pending(&self) -> bool {
        self.all
            .iter()
            .any(|place| matches!(place, Some((_, Way::Link(link))) if link.is_pending()))
    }

    #[inline]
    pub(super) fn by_address(&mut self, address: &Address) -> Option<PeerId> {
        if let Some((last, peer)) = &self.last
            && last == address
        {
            return Some(*peer);
        }
        let peer = self.addresses.get(address).copied()?;
        self.last = Some((address.clone(), peer));
        Some(peer)
    }
}
