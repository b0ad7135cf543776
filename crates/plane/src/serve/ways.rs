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

/// A peer's.
#[derive(Debug)]
struct Place {
    peer: PeerId,
    way: Way,
    /// Whether it is among the active.
    active: bool,
}

/// The way to each peer, by index, and the peer of each datagram address.
#[derive(Debug, Default)]
pub(super) struct Ways {
    all: Vec<Option<Place>>,
    /// By index, each once.
    active: Vec<usize>,
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
            *place = Some(Place {
                peer,
                way,
                active: false,
            });
        }
        former
    }

    pub(super) fn remove(&mut self, peer: PeerId) -> Option<Way> {
        let place = self.all.get(peer.index())?.as_ref();
        if place.is_some_and(|place| place.peer == peer) {
            self.take(peer.index())
        } else {
            None
        }
    }

    fn take(&mut self, index: usize) -> Option<Way> {
        let Place { peer, way, active } = self.all.get_mut(index)?.take()?;
        if active {
            self.active.retain(|other| *other != index);
        }
        if let Way::Datagram(datagram) = &way {
            self.addresses.remove(datagram.address());
            self.last = self.last.take().filter(|(_, last)| *last != peer);
        }
        Some(way)
    }

    pub(super) fn get_mut(&mut self, peer: PeerId) -> Option<&mut Way> {
        let place = self.all.get_mut(peer.index())?.as_mut()?;
        (place.peer == peer).then_some(&mut place.way)
    }

    pub(super) fn at_mut(&mut self, index: usize) -> Option<(PeerId, &mut Way)> {
        let place = self.all.get_mut(index)?.as_mut()?;
        Some((place.peer, &mut place.way))
    }

    /// The peer's link has just been heard, or is new: packets may lie in its memory without its
    /// bell having been rung.
    pub(super) fn heard(&mut self, index: usize) {
        if let Some(Some(place)) = self.all.get_mut(index)
            && !place.active
        {
            place.active = true;
            self.active.push(index);
        }
    }

    /// Whether any link is active.
    pub(super) fn has_active(&self) -> bool {
        !self.active.is_empty()
    }

    /// The active links in whose memory packets lie.
    pub(super) fn pending(&self) -> impl Iterator<Item = usize> {
        let is_pending = |index: &&usize| {
            let place = self.all.get(**index).and_then(Option::as_ref);
            matches!(place, Some(Place { way: Way::Link(link), .. }) if link.is_pending())
        };
        self.active.iter().filter(is_pending).copied()
    }

    /// To be called before waiting: what comes in a link from now on rings its bell, and the link
    /// is not active any more. Returns false if packets lie in one already, which remains active.
    pub(super) fn prepare_to_wait(&mut self) -> bool {
        let Self { all, active, .. } = self;
        active.retain(|index| {
            let Some(Some(place)) = all.get_mut(*index) else {
                return false;
            };
            place.active = match &mut place.way {
                Way::Link(link) => !link.prepare_to_wait(),
                Way::Datagram(_) => false,
            };
            place.active
        });
        active.is_empty()
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
