//! Newcomers: peers that connect, and those that are turned away because the service is full.

use std::collections::VecDeque;
use std::io;

use fairwater_proto::Dialect;
use fairwater_proto::link::datagram::Sender;
use fairwater_proto::link::{Link, LinkError, Listener};

use super::peer_links::PeerLink;
use super::{BUDGET, FIRST_LINK, RING, SEQPACKET, Server, discard};
use crate::peer::PeerId;
use crate::service::ServiceFull;

/// Links of peers that were turned away, until the peers have read why.
#[derive(Debug)]
pub(super) struct TurnedAway {
    links: VecDeque<(u64, RefusedLink)>,
    /// Refusals that may still be sent as datagrams before the next heartbeat.
    datagrams: u32,
}

struct RefusedLink(Box<dyn Link>);

impl std::fmt::Debug for RefusedLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RefusedLink").finish_non_exhaustive()
    }
}

impl Default for TurnedAway {
    fn default() -> Self {
        Self {
            links: VecDeque::new(),
            datagrams: Self::DATAGRAMS,
        }
    }
}

impl TurnedAway {
    /// The most links that are kept open for peers to read why.
    const MOST: usize = 64;

    /// How long such a link is kept open, µs.
    const KEPT_US: u64 = 200_000;

    /// Refusals sent as datagrams between two heartbeats: each costs system calls.
    const DATAGRAMS: u32 = 16;

    /// Says why, and keeps the link open: a socket that is closed with something unread in it
    /// takes what it sent with it.
    fn refuse(&mut self, mut link: Box<dyn Link>, refusal: &[u8], now_us: u64) {
        // Whoever cannot be told sees the link's end.
        let _ = link.send(refusal);
        if self.links.len() == Self::MOST {
            self.links.pop_front();
        }
        let until_us = now_us.saturating_add(Self::KEPT_US);
        self.links.push_back((until_us, RefusedLink(link)));
    }

    /// Drops the links that were kept for long enough.
    fn tick(&mut self, now_us: u64, buffer: &mut [u8]) {
        self.datagrams = Self::DATAGRAMS;
        for (_, RefusedLink(link)) in &mut self.links {
            for _ in 0..BUDGET {
                match link.receive(buffer) {
                    Ok(_) | Err(LinkError::TooLong) => {}
                    Err(_) => break,
                }
            }
        }
        while self
            .links
            .front()
            .is_some_and(|(until_us, _)| *until_us <= now_us)
        {
            self.links.pop_front();
        }
    }
}

impl Server {
    pub(super) fn accept_seqpacket(&mut self) {
        for _ in 0..BUDGET {
            let accepted = self.seqpacket.as_mut().map(Listener::accept);
            match accepted {
                Some(Ok(Some(link))) => self.add_link(Box::new(link)),
                Some(Err(error)) if self.is_out_of_files(&error) => return,
                // A peer that could not be set up; the next may be.
                Some(Err(_)) => {}
                _ => return,
            }
        }
    }

    pub(super) fn accept_ring(&mut self) {
        for _ in 0..BUDGET {
            let accepted = self.ring.as_mut().map(Listener::accept);
            match accepted {
                Some(Ok(Some(link))) => self.add_link(Box::new(link)),
                Some(Err(error)) if self.is_out_of_files(&error) => return,
                Some(Err(_)) => {}
                _ => return,
            }
        }
    }

    /// Serves a datapath at the other end of a link, as if it had connected: for one in this process
    /// ([`in_process`](fairwater_proto::link::in_process)).
    pub fn add_link(&mut self, link: Box<dyn Link>) {
        let now_us = self.now_us();
        let peer = match self.admit(now_us) {
            Ok(peer) => peer,
            Err(full) => return self.turned_away.refuse(link, &full.packet(), now_us),
        };
        let token = FIRST_LINK + peer.index() as u64;
        if self.poller.add(&*link, token).is_err() {
            return self.service.peer_gone(peer);
        }
        discard(&self.poller, self.links.insert(peer, PeerLink::Link(link)));
        self.links.mark_active(peer.index());
    }

    /// The peer of a new sender; `None` if it cannot be served, or if its address is another
    /// user's.
    pub(super) fn add_datagram_peer(
        &mut self,
        newcomer: &Sender,
        packet: &[u8],
        now_us: u64,
    ) -> Option<PeerId> {
        let socket = self.datagram.as_ref()?;
        let mut sender = match socket.peer(newcomer) {
            Ok(sender) => sender,
            Err(error) => {
                self.is_out_of_files(&error);
                return None;
            }
        };
        if let Some(holder) = self.links.address_holder(&newcomer.address) {
            if !self.has_left(holder, now_us) {
                return None;
            }
            self.lose(holder);
        }
        match self.admit(now_us) {
            Ok(peer) => {
                let former = self.links.insert(peer, PeerLink::Datagram(sender));
                discard(&self.poller, former);
                Some(peer)
            }
            Err(full) => {
                // libccp's encoding has no refusal.
                if Dialect::of(packet) == Some(Dialect::Own) && self.turned_away.datagrams > 0 {
                    self.turned_away.datagrams -= 1;
                    let _ = sender.send(&full.packet());
                }
                None
            }
        }
    }

    /// A place for a newcomer, after a look for peers that have died if there is none.
    fn admit(&mut self, now_us: u64) -> Result<PeerId, ServiceFull> {
        if self.service.is_full() {
            self.drop_dead_peers(now_us);
        }
        self.service.connect(now_us)
    }

    /// Whether this process or the system has no file descriptor for a newcomer. Then the
    /// listeners rest until the next heartbeat: they would wake the server again and again.
    fn is_out_of_files(&mut self, error: &io::Error) -> bool {
        const ENFILE: i32 = 23;
        const EMFILE: i32 = 24;
        let out = matches!(error.raw_os_error(), Some(ENFILE | EMFILE));
        if out {
            self.service.cannot_admit(error, self.now_us());
            self.pause_listeners();
        }
        out
    }

    fn pause_listeners(&mut self) {
        if self.listeners_paused {
            return;
        }
        self.listeners_paused = true;
        if let Some(listener) = &self.seqpacket {
            let _ = self.poller.remove(listener);
        }
        if let Some(listener) = &self.ring {
            let _ = self.poller.remove(listener);
        }
    }

    /// Lets newcomers in again, and forgets those that were turned away.
    pub(super) fn tick_admission(&mut self, now_us: u64) -> io::Result<()> {
        self.turned_away.tick(now_us, &mut self.buffer);
        if std::mem::take(&mut self.listeners_paused) {
            if let Some(listener) = &self.seqpacket {
                self.poller.add(listener, SEQPACKET)?;
            }
            if let Some(listener) = &self.ring {
                self.poller.add(listener, RING)?;
            }
        }
        Ok(())
    }
}
