//! Packets and messages of bundles pass their boxes.

use std::ops::Deref;

use fairwater_bundle::SendBundleStatus;
use fairwater_net::{DropReason, Ecn};
use fairwater_tcp::Segment;

use super::Simulation;
use crate::events::Event;
use crate::packet::{MESSAGE, PacketHandle};
use crate::sendboxes::{RECEIVERS, Sent};
use crate::{Experiment, Observer};

impl<C: Deref<Target = Experiment>, O: Observer> Simulation<C, O> {
    /// A bundle at its sendbox: `None` if no box shapes such a bundle.
    pub fn sendbox(&mut self, bundle: &str) -> Option<SendBundleStatus> {
        let (host, number) = self.sendboxes.named(bundle)?;
        self.plane.sendbox(host)?.status(number)
    }

    /// A packet comes to the sendbox in front of its next edge.
    pub(super) fn enter_sendbox(&mut self, index: u32, packet: PacketHandle) {
        let segment = self.segments.get(packet.segment);
        let carried = self.sendboxes.carried(self.now, packet, segment);
        let pair = self.sendboxes.get(index);
        let edge = pair.at;
        let Some(sendbox) = self.plane.sendbox(pair.host) else {
            return self.enter_edge(edge, packet);
        };
        if let Err(carried) = sendbox.enqueue(self.now, RECEIVERS, carried) {
            return self.enter_edge(edge, carried.packet);
        }
        pair.arrived();
        self.run_sendbox(index);
    }

    /// A packet at the end of its path passes the receivebox of its bundle.
    #[inline]
    pub(super) fn pass_receivebox(&mut self, packet: &PacketHandle) {
        if packet.bundle == 0 || !packet.to_receiver {
            return;
        }
        if let Some(index) = self.sendboxes.of(packet.bundle) {
            let segment = self.segments.get(packet.segment);
            self.sendboxes.receive(self.now, index, packet, segment);
            self.run_receivebox(index);
        }
    }

    /// The sendbox's timer, or a packet may leave.
    pub(super) fn sendbox_turn(&mut self, index: u32) {
        let pair = self.sendboxes.get(index);
        if !pair.alarm.rings(self.now) {
            return;
        }
        if let Some(sendbox) = self.plane.sendbox(pair.host) {
            sendbox.on_timer(self.now);
        }
        self.run_sendbox(index);
    }

    /// A message between boxes is there.
    pub(super) fn message_arrives(&mut self, packet: &PacketHandle) {
        let number = self.segments.get(packet.segment).seq;
        self.segments.free(packet.segment);
        let (now, index) = (self.now, packet.connection);
        let pair = self.sendboxes.get(index);
        if packet.to_receiver {
            pair.asked(now, number);
            return self.run_receivebox(index);
        }
        if let Some(sendbox) = self.plane.sendbox(pair.host) {
            pair.answered(now, number, sendbox);
        }
        self.run_sendbox(index);
    }

    /// Sends what the receivebox has to say.
    fn run_receivebox(&mut self, index: u32) {
        while let Some(sent) = self.sendboxes.get(index).answer() {
            self.send_message(index, sent, false);
        }
    }

    /// Takes what the sendbox lets out, and all else that it has to say.
    fn run_sendbox(&mut self, index: u32) {
        let (host, edge) = {
            let pair = self.sendboxes.get(index);
            (pair.host, pair.at)
        };
        while let Some(carried) = self
            .plane
            .sendbox(host)
            .and_then(|sendbox| sendbox.poll(self.now))
        {
            self.sendboxes.get(index).left(self.now, &carried);
            self.enter_edge(edge, carried.packet);
        }
        while let Some(sent) = self
            .plane
            .sendbox(host)
            .and_then(|sendbox| self.sendboxes.get(index).ask(sendbox))
        {
            self.send_message(index, sent, true);
        }
        let pair = self.sendboxes.get(index);
        if let Some(sendbox) = self.plane.sendbox(host) {
            for dropped in sendbox.drain_dropped() {
                pair.dropped(dropped.reason != DropReason::QueueFull);
                self.segments.free(dropped.packet.packet.segment);
            }
            let next = pair.tell(sendbox);
            pair.alarm
                .set(Some(next), Event::Sendbox(index), &mut self.events);
        }
        self.plane.transmit(host, self.now);
        self.wake_plane();
    }

    /// A message between boxes enters the network, past the sendbox's queue.
    fn send_message(&mut self, index: u32, sent: Sent, to_receiver: bool) {
        let Some(edge) = self.routes.edge(sent.path) else {
            return;
        };
        let segment = Segment {
            seq: sent.number,
            ..Segment::default()
        };
        let packet = PacketHandle {
            segment: self.segments.put(segment),
            connection: index,
            generation: MESSAGE,
            hop: sent.path,
            size_bytes: sent.bytes,
            ecn: Ecn::NotEct,
            priority: 0,
            to_receiver,
            bundle: 0,
        };
        self.enter_edge(edge, packet);
    }
}
