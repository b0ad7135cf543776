//! Messages to peers, and their order.
//!
//! Reports are queued as they are made, up to a bound. An announcement, which must not be lost, is
//! kept as a mark in its flow and becomes a message when there is room: behind the reports that were
//! made before it, never more than a few at a time.

use fairwater_proto::{Dialect, FlowId, FlowInfo, Hello, ToPlane};

use crate::flow::Arrival;
use crate::outgoing::NotQueued;
use crate::peer::{Peer, Probe};
use crate::{Datapath, DatapathStatistics, FlowState, PeerId};

/// A packet should have room for any one message but the largest reports, bytes.
pub const MIN_PACKET: usize = 512;

impl Datapath {
    /// The next packet for a peer: whole messages, at most `max_bytes` of them (no less than
    /// [`MIN_PACKET`]; larger reports are dropped and counted). In libccp's dialect a packet is
    /// one message. The peers take turns. `None` when nothing is to be sent.
    #[inline]
    pub fn poll_transmit(&mut self, max_bytes: usize) -> Option<(PeerId, &[u8])> {
        if !self.unsent {
            return None;
        }
        self.next_packet(max_bytes)
    }

    fn next_packet(&mut self, max_bytes: usize) -> Option<(PeerId, &[u8])> {
        let peers = self.peers.len();
        for step in 0..peers {
            let index = (self.turn + step) % peers;
            let length = self.take_packet(index, max_bytes);
            if length > 0 {
                self.turn = index + 1;
                let packet = self.peers.at(index)?.outgoing.taken(length);
                return Some((self.peers.id(index)?, packet));
            }
        }
        self.unsent = false;
        None
    }

    /// The next packet for that peer, likewise: for a caller whose link to another peer is full.
    pub fn poll_transmit_to(&mut self, peer: PeerId, max_bytes: usize) -> Option<&[u8]> {
        let index = self.peers.index(peer)?;
        let length = self.take_packet(index, max_bytes);
        let packet = self.peers.at(index)?.outgoing.taken(length);
        (length > 0).then_some(packet)
    }

    fn take_packet(&mut self, index: usize, max_bytes: usize) -> usize {
        self.write_announcements(index, max_bytes);
        let Some(peer) = self.peers.at_mut(index) else {
            return 0;
        };
        let (length, dropped) = peer.outgoing.take(max_bytes, peer.dialect);
        self.statistics.unsendable += dropped;
        length
    }

    /// Lists the flow to be announced to its peer.
    pub(crate) fn announce(&mut self, slot: usize, arrival: Arrival) {
        self.flows.cold[slot].announcements.arrival = Some(arrival);
        self.list_announcement(slot);
    }

    pub(crate) fn list_announcement(&mut self, slot: usize) {
        self.unsent = true;
        let peer = self.flows.hot[slot].peer as usize;
        if let Some(peer) = self.peers.at_mut(peer) {
            peer.announcements.push(&mut self.flows.cold, slot);
        }
    }

    /// Turns pending announcements into messages until about a packet of messages waits.
    fn write_announcements(&mut self, index: usize, max_bytes: usize) {
        let Some(peer) = self.peers.at_mut(index) else {
            return;
        };
        if !peer.write_own_announcements(&self.config, &mut self.statistics) {
            return;
        }
        // At least one, so that reports never displace announcements. What lies behind a packet's worth
        // would only wait longer, and a flow may end by then.
        while let Some(slot) = self.first_announcement(index) {
            if !self.write_flow_announcements(index, slot) {
                return;
            }
            let Some(peer) = self.peers.at_mut(index) else {
                return;
            };
            peer.announcements.remove(&mut self.flows.cold, slot);
            if peer.outgoing.waiting() >= max_bytes {
                return;
            }
        }
    }

    fn first_announcement(&self, index: usize) -> Option<usize> {
        let first = self.peers.at(index)?.announcements.first()?;
        Some(first as usize)
    }

    /// Writes the pending announcements of a slot; returns whether there was room for all.
    fn write_flow_announcements(&mut self, index: usize, slot: usize) -> bool {
        let in_force = self.in_force(slot);
        let Some(peer) = self.peers.at_mut(index) else {
            return false;
        };
        let hot = &self.flows.hot[slot];
        let cold = &mut self.flows.cold[slot];
        let flow = FlowId {
            slot: u32::try_from(slot).unwrap_or(u32::MAX),
            generation: hot.generation,
        };
        if let Some(generation) = cold.announcements.closed {
            let flow = FlowId { generation, ..flow };
            if !peer.tell(&ToPlane::Closed { flow }, &mut self.statistics) {
                return false;
            }
            cold.announcements.closed = None;
        }
        if let Some(arrival) = cold.announcements.arrival {
            let cwnd = in_force.cwnd;
            // A flow that is past its first slow start does not begin another under its next
            // algorithm.
            let ssthresh = match &cold.fallback {
                Some(controller) => controller.ssthresh(),
                None => hot.takeover(cold).ssthresh(cold.info.mss.into()),
            };
            let info = FlowInfo {
                cwnd,
                rate: in_force.rate,
                ssthresh: ssthresh.or(cold.info.ssthresh),
                now_us: self.now_us.max(cold.info.now_us),
                ..cold.info.clone()
            };
            let algorithm = &cold.algorithm;
            let message = match arrival {
                Arrival::Created => ToPlane::Created {
                    flow,
                    algorithm,
                    info,
                },
                Arrival::Resumed => ToPlane::Resumed {
                    flow,
                    algorithm,
                    info,
                },
            };
            if !peer.tell(&message, &mut self.statistics) {
                return false;
            }
            cold.announcements.arrival = None;
            // The arrival said it.
            cold.announcements.mss = false;
            cold.announcements.known = true;
            if peer.dialect == Dialect::Ccp {
                peer.expect_answer(&mut self.wake[index], self.now_us);
            }
        }
        if cold.announcements.mss {
            let mss = cold.info.mss;
            if !peer.tell(&ToPlane::MssChanged { flow, mss }, &mut self.statistics) {
                return false;
            }
            cold.announcements.mss = false;
        }
        if cold.announcements.fault {
            let fault = match cold.state {
                FlowState::Faulted(fault) => fault as u32,
                _ => 0,
            };
            if !peer.tell(&ToPlane::Faulted { flow, fault }, &mut self.statistics) {
                return false;
            }
            cold.announcements.fault = false;
            // In libccp's dialect a fault is the flow's end.
            cold.announcements.known = peer.dialect == Dialect::Own;
        }
        true
    }
}

impl Peer {
    /// Writes the pending announcements of the datapath itself; returns whether there was room for all.
    fn write_own_announcements(
        &mut self,
        config: &crate::Config,
        counts: &mut DatapathStatistics,
    ) -> bool {
        if self.hello {
            let hello = ToPlane::Hello(Hello {
                name: &config.name,
                instance: config.instance,
                capabilities: config.capabilities(),
            });
            if !self.tell(&hello, counts) {
                return false;
            }
            self.hello = false;
        }
        let flow = FlowId {
            slot: config.max_flows,
            generation: self.probe_generation,
        };
        match self.probe {
            Probe::Due => {
                let created = ToPlane::Created {
                    flow,
                    algorithm: "",
                    info: FlowInfo::default(),
                };
                if !self.tell(&created, counts) {
                    return false;
                }
                self.probe = Probe::Sent;
            }
            Probe::Over => {
                if !self.tell(&ToPlane::Closed { flow }, counts) {
                    return false;
                }
                self.probe = Probe::None;
            }
            Probe::None | Probe::Sent => {}
        }
        true
    }

    /// Queues a message that must not be lost; `false` when there is no room. A message that the
    /// dialect cannot express is counted and dropped.
    fn tell(&mut self, message: &ToPlane<'_>, counts: &mut DatapathStatistics) -> bool {
        match self.outgoing.push_control(self.dialect, message) {
            Ok(()) => true,
            Err(NotQueued::Full) => false,
            Err(NotQueued::Inexpressible) => {
                counts.unsendable += 1;
                true
            }
        }
    }
}
