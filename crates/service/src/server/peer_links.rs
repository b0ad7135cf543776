//! The links to a server's peers.

use std::collections::HashMap;

use fairwater_proto::link::datagram::{self, Address, Sender};
use fairwater_proto::link::{Link, LinkError};

use crate::peer::PeerId;

/// How a peer is reached.
pub(super) enum PeerLink {
    Datagram(datagram::Peer),
    Link(Box<dyn Link>),
}

impl std::fmt::Debug for PeerLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Datagram(peer) => f.debug_tuple("Datagram").field(peer.sender()).finish(),
            Self::Link(_) => f.debug_tuple("Link").finish_non_exhaustive(),
        }
    }
}

impl PeerLink {
    pub(super) fn send(&mut self, packet: &[u8]) -> Result<(), LinkError> {
        match self {
            Self::Datagram(peer) => peer.send(packet),
            Self::Link(link) => link.send(packet),
        }
    }
}

/// The link to one peer.
#[derive(Debug)]
struct Entry {
    peer: PeerId,
    link: PeerLink,
    /// Whether the link is in the list of active links.
    active: bool,
    /// Sends in a row that failed because the link had no room.
    failures: u32,
}

/// The peer that has a datagram address.
#[derive(Debug, Clone, Copy)]
struct AddressHolder {
    user: u32,
    peer: PeerId,
}

/// The link to each peer, by index, and the peer of each datagram address.
#[derive(Debug, Default)]
pub(super) struct PeerLinks {
    all: Vec<Option<Entry>>,
    /// Indices of links that were active since the last wait, each once.
    active: Vec<usize>,
    addresses: HashMap<Address, AddressHolder>,
    /// Who sent the last datagram: most often the next is theirs too.
    last: Option<(Sender, PeerId)>,
}

impl PeerLinks {
    /// Indices are below this.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// A send to the peer failed because its link had no room: how often that happened in a row.
    pub(super) fn count_failure(&mut self, peer: PeerId) -> u32 {
        let Some(Some(entry)) = self.all.get_mut(peer.index()) else {
            return 0;
        };
        entry.failures = entry.failures.saturating_add(1);
        entry.failures
    }

    /// Sends a packet to the peer.
    #[inline]
    pub(super) fn send(&mut self, peer: PeerId, packet: &[u8]) -> Result<(), LinkError> {
        let entry = self.all.get_mut(peer.index()).and_then(Option::as_mut);
        let Some(entry) = entry.filter(|entry| entry.peer == peer) else {
            return Err(LinkError::Gone);
        };
        let sent = entry.link.send(packet);
        if sent.is_ok() {
            entry.failures = 0;
        }
        sent
    }

    /// Sets the link to a peer; returns that to the one that had its index before.
    pub(super) fn insert(&mut self, peer: PeerId, link: PeerLink) -> Option<PeerLink> {
        let former = self.take(peer.index());
        if let PeerLink::Datagram(datagram) = &link {
            let Sender { address, user } = datagram.sender().clone();
            self.addresses.insert(address, AddressHolder { user, peer });
        }
        if self.all.len() <= peer.index() {
            self.all.resize_with(peer.index() + 1, || None);
        }
        if let Some(entry) = self.all.get_mut(peer.index()) {
            *entry = Some(Entry {
                peer,
                link,
                active: false,
                failures: 0,
            });
        }
        former
    }

    pub(super) fn remove(&mut self, peer: PeerId) -> Option<PeerLink> {
        let entry = self.all.get(peer.index())?.as_ref();
        if entry.is_some_and(|entry| entry.peer == peer) {
            self.take(peer.index())
        } else {
            None
        }
    }

    fn take(&mut self, index: usize) -> Option<PeerLink> {
        let Entry {
            peer, link, active, ..
        } = self.all.get_mut(index)?.take()?;
        if active {
            self.active.retain(|other| *other != index);
        }
        if let PeerLink::Datagram(datagram) = &link {
            let address = &datagram.sender().address;
            if self.address_holder(address) == Some(peer) {
                self.addresses.remove(address);
            }
            self.last = self.last.take().filter(|(_, last)| *last != peer);
        }
        Some(link)
    }

    pub(super) fn at_mut(&mut self, index: usize) -> Option<(PeerId, &mut PeerLink)> {
        let entry = self.all.get_mut(index)?.as_mut()?;
        Some((entry.peer, &mut entry.link))
    }

    /// The peer's link has just been heard, or is new: packets may lie in its memory without its
    /// wake-up having been signalled.
    pub(super) fn mark_active(&mut self, index: usize) {
        if let Some(Some(entry)) = self.all.get_mut(index)
            && !entry.active
        {
            entry.active = true;
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
            let entry = self.all.get(**index).and_then(Option::as_ref);
            matches!(entry, Some(Entry { link: PeerLink::Link(link), .. }) if link.is_pending())
        };
        self.active.iter().filter(is_pending).copied()
    }

    /// To be called before waiting: from now on a packet in a link's memory wakes the server, and the
    /// link is not active any more. Returns false if packets lie in a link already, which remains
    /// active.
    pub(super) fn prepare_to_wait(&mut self) -> bool {
        let Self { all, active, .. } = self;
        active.retain(|index| {
            let Some(Some(entry)) = all.get_mut(*index) else {
                return false;
            };
            entry.active = match &mut entry.link {
                PeerLink::Link(link) => !link.prepare_to_wait(),
                PeerLink::Datagram(_) => false,
            };
            entry.active
        });
        active.is_empty()
    }

    #[inline]
    pub(super) fn by_sender(&mut self, sender: &Sender) -> Option<PeerId> {
        if let Some((last, peer)) = &self.last
            && last == sender
        {
            return Some(*peer);
        }
        let holder = self.addresses.get(&sender.address)?;
        let peer = (holder.user == sender.user).then_some(holder.peer)?;
        self.last = Some((sender.clone(), peer));
        Some(peer)
    }

    /// The peer of an address, whatever its user.
    pub(super) fn address_holder(&self, address: &Address) -> Option<PeerId> {
        self.addresses.get(address).map(|holder| holder.peer)
    }
}
