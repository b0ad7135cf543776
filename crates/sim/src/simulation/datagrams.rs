//! UDP packets: they are sent, arrive, and some are answered.

use std::ops::Deref;

use fairwater_net::Ecn;

use super::Simulation;
use crate::datagrams::HEADERS;
use crate::events::Event;
use crate::packet::{DATAGRAM, PacketHandle};
use crate::{Experiment, Observer, Request};
use fairwater_tcp::Segment;

impl<C: Deref<Target = Experiment>, O: Observer> Simulation<C, O> {
    /// A turn of an application that sends UDP packets.
    pub(super) fn datagram_turn(&mut self, index: u32) {
        let flow = &mut self.flows[index as usize];
        let Some(datagrams) = &mut flow.datagrams else {
            return;
        };
        let turn = datagrams.turn(self.now);
        flow.measured.datagram_timeouts(u64::from(turn.timed_out));
        if let Some(number) = turn.send {
            let payload = u64::from(datagrams.packet_bytes().saturating_sub(HEADERS));
            flow.measured.datagram_sent(payload);
            if datagrams.is_answered() && self.now >= self.config.measure.from {
                flow.measured.asked += 1;
            }
            self.send_datagram(index, number, true);
        }
        self.set_datagram_alarm(index);
    }

    /// A UDP packet is there; those that are answered are answered at once.
    pub(super) fn datagram_arrives(&mut self, packet: &PacketHandle) {
        let index = packet.connection;
        let number = self.segments.get(packet.segment).seq;
        self.segments.free(packet.segment);
        let Some(flow) = self.flows.get_mut(index as usize) else {
            return;
        };
        let Some(datagrams) = &mut flow.datagrams else {
            return;
        };
        if packet.to_receiver {
            let payload = u64::from(packet.size_bytes.saturating_sub(HEADERS));
            flow.measured
                .datagram_arrived(payload, packet.ecn == Ecn::Ce);
            if datagrams.is_answered() {
                self.send_datagram(index, number, false);
            }
            return;
        }
        let Some((asked, took)) = datagrams.answered(number, self.now) else {
            return;
        };
        let bytes = u64::from(packet.size_bytes);
        if asked >= self.config.measure.from {
            let rtt_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            flow.measured.rtt.record(rtt_ns);
            let ideal = flow.round_trip(&self.config, &self.routes, bytes);
            flow.measured.requests.push(Request {
                start: asked,
                took,
                bytes,
                ideal,
            });
        }
        self.set_datagram_alarm(index);
    }

    fn set_datagram_alarm(&mut self, index: u32) {
        let flow = &mut self.flows[index as usize];
        let next = flow.datagrams.as_ref().and_then(|flow| flow.next_turn());
        flow.alarm.set(next, Event::Flow(index), &mut self.events);
    }

    fn send_datagram(&mut self, index: u32, number: u64, to_receiver: bool) {
        let flow = &mut self.flows[index as usize];
        let Some(mut datagrams) = flow.datagrams.take() else {
            return;
        };
        let hop = flow.path(to_receiver, &mut datagrams.turns);
        let size_bytes = datagrams.packet_bytes();
        flow.datagrams = Some(datagrams);
        let bundle = flow.bundle;
        let Some((hop, edge)) = hop.and_then(|hop| Some((hop, self.routes.edge(hop)?))) else {
            return;
        };
        let segment = Segment {
            seq: number,
            len: size_bytes.saturating_sub(HEADERS),
            ..Segment::default()
        };
        let packet = PacketHandle {
            segment: self.segments.put(segment),
            connection: index,
            generation: DATAGRAM,
            hop,
            size_bytes,
            ecn: Ecn::NotEct,
            priority: self.config.flows[index as usize].priority,
            to_receiver,
            bundle,
        };
        self.enter(edge, packet);
    }
}
