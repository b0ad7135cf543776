//! Detects a silent plane, and puts its flows under the fallback.
//!
//! **Our dialect.** A plane that has said Welcome speaks at least every `alive_us`. When nothing
//! came for [`crate::Config::silence_us`], or twice `alive_us` if that is more, it is silent.
//!
//! **libccp's.** An agent has nothing to say unless it wants something, so its silence means
//! nothing until it owes an answer: it was told of a flow or sent a report, and nothing came for
//! half of `silence_us`. Then it is *probed*; when the other half brings nothing, it is silent.
//!
//! What a probe does was read in portus 0.9. READY makes a running agent forget every flow of the
//! datapath, so that no flow is controlled until it is created again: READY is no probe. CREATE makes it
//! start the algorithm of that flow afresh, and answer with CHANGE_PROG; an agent that was
//! restarted, and does not know the datapath, sends its INSTALLs first. So the probe is the CREATE of a
//! flow that does not exist, in the slot after the last ([`crate::Config::max_flows`]), closed
//! again when anything comes. It harms no flow, and an INSTALL while it is out tells that the
//! agent is a new one. An agent that is silent has READY repeated to it, since all of its flows
//! are to be created again in any case when it comes back.
//!
//! **While a plane is silent** its flows go under the fallback, each at its next ACK. When it
//! speaks again, each is announced at its next ACK, and stays under the fallback until it is
//! switched to a program. A plane that is a *new* one (another instance, or an INSTALL where none
//! was due) knows no flow: all of its flows go under the fallback and are announced at once.

use fairwater_proto::Dialect;

use crate::flow::{Arrival, PendingAnnouncements};
use crate::peer::{Liveness, Peer, Probe};
use crate::{Datapath, FlowState, PeerId};

impl Peer {
    /// Notes that the peer was sent a message that it should answer.
    pub(crate) fn expect_answer(&self, wake: &mut u64, now_us: u64) {
        if self.liveness == Liveness::Alive && self.probe == Probe::None {
            *wake = (*wake).min(now_us.saturating_add(self.silence_us / 2));
        }
    }
}

impl Datapath {
    /// Lets time pass for peers: silence, probes, greetings. Call it as often as
    /// [`Datapath::next_timeout`] says, or every few tens of milliseconds. `now_us` is the
    /// datapath's time.
    pub fn tick(&mut self, now_us: u64) {
        self.unsent = true;
        self.now_us = self.now_us.max(now_us);
        for peer in 0..self.peers.len() {
            self.check_silence(peer, now_us);
            let greet = self.peers.at(peer).and_then(next_greeting);
            if greet.is_some_and(|at| now_us >= at) {
                self.greet(peer, now_us);
            }
        }
    }

    /// When [`Datapath::tick`] next has something to do, µs, as far as is known now.
    #[must_use]
    pub fn next_timeout(&self) -> Option<u64> {
        (0..self.peers.len())
            .filter_map(|index| {
                let peer = self.peers.at(index)?;
                let wake = (peer.liveness == Liveness::Alive).then_some(self.wake[index]);
                wake.into_iter().chain(next_greeting(peer)).min()
            })
            .min()
            .filter(|at| *at != u64::MAX)
    }

    /// The transport did not run for a while, and what the peer said meanwhile may be unread: the peer
    /// has half of the time in which it may be silent for more to come.
    pub fn excuse_silence(&mut self, peer: PeerId, now_us: u64) {
        let Some(index) = self.peers.index(peer) else {
            return;
        };
        if let Some(peer) = self.peers.at(index) {
            let until = now_us.saturating_add(peer.silence_us / 2);
            self.wake[index] = self.wake[index].max(until);
        }
    }

    /// Checks whether the peer is silent, once its time has come.
    pub(crate) fn check_silence(&mut self, index: usize, now_us: u64) {
        let Some(peer) = self.peers.at_mut(index) else {
            return;
        };
        if peer.liveness != Liveness::Alive || now_us < self.wake[index] {
            return;
        }
        if peer.dialect == Dialect::Ccp && peer.probe == Probe::None {
            peer.probe = Probe::Due;
            peer.probe_generation = peer.probe_generation.wrapping_add(1);
            self.wake[index] = now_us.saturating_add((peer.silence_us / 2).max(1));
            return;
        }
        peer.liveness = Liveness::Silent;
        peer.probe = Probe::None;
        peer.greeted_us = now_us;
        peer.hello = true;
        peer.hellos = 1;
        self.wake[index] = 0;
        self.statistics.silences += 1;
    }

    /// Notes that something came from the peer.
    pub(crate) fn on_sign_of_life(&mut self, index: usize, now_us: u64) {
        let Some(peer) = self.peers.at_mut(index) else {
            return;
        };
        let (was, hellos) = (peer.liveness, peer.hellos);
        peer.liveness = Liveness::Alive;
        peer.hellos = 0;
        if peer.dialect == Dialect::Own {
            self.wake[index] = now_us.saturating_add(peer.silence_us);
            return;
        }
        self.wake[index] = u64::MAX;
        peer.probe = match peer.probe {
            Probe::Sent => Probe::Over,
            Probe::Due => Probe::None,
            other => other,
        };
        // Each READY but the first made the agent forget what it was told before.
        if was == Liveness::Silent || (was == Liveness::Greeted && hellos > 1) {
            self.forget(index);
        }
    }

    /// The peer has forgotten its flows: they go under the fallback and are announced again.
    pub(crate) fn forget(&mut self, index: usize) {
        for slot in 0..self.flows.hot.len() {
            if self.flows.hot[slot].peer as usize != index {
                continue;
            }
            let cold = &mut self.flows.cold[slot];
            let was_known = cold.announcements.known;
            cold.announcements = PendingAnnouncements {
                arrival: cold.announcements.arrival,
                ..PendingAnnouncements::default()
            };
            if cold.is_open && cold.state.may_switch() && was_known {
                self.flows.drop_program(slot, FlowState::Waiting);
                self.announce(slot, Arrival::Resumed);
            }
        }
    }

    /// Says Hello again.
    pub(crate) fn greet(&mut self, index: usize, now_us: u64) {
        if let Some(peer) = self.peers.at_mut(index) {
            if peer.liveness == Liveness::Alive {
                peer.liveness = Liveness::Greeted;
                self.wake[index] = u64::MAX;
            }
            peer.hello = true;
            peer.hellos = peer.hellos.saturating_add(1);
            peer.greeted_us = now_us;
        }
    }
}

/// When a peer that does not answer is greeted again, µs.
fn next_greeting(peer: &Peer) -> Option<u64> {
    (peer.liveness != Liveness::Alive).then(|| peer.greeted_us.saturating_add(peer.silence_us))
}
