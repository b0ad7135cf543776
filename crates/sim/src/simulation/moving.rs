//! Packets, timers and applications.

use std::collections::VecDeque;
use std::ops::Deref;

use fairwater_edge::Direction;
use fairwater_net::{Ecn, Time};

use super::Simulation;
use super::control::{address, peer_address};
use crate::connection::{Connection, ConnectionController, PendingRequest};
use crate::events::{Alarm, Event};
use crate::guest::{Guest, Passing};
use crate::packet::{PacketHandle, size_bytes};
use crate::traffic::Action;
use crate::{Captured, EdgeId, Experiment, Observer, Request, Traffic};
use fairwater_tcp::{Receiver, Segment, Sender};

/// More than any simulation sends, and far from the end of the sequence space.
const ENDLESS: u64 = u64::MAX / 4;

impl<C: Deref<Target = Experiment>, O: Observer> Simulation<C, O> {
    /// Packets that are due come out of an edge.
    pub(super) fn let_out(&mut self, edge: u32) {
        while let Some(mut packet) =
            self.edges
                .leave(edge, self.now, &mut self.segments, &mut self.events)
        {
            if !self.config.measure.capture.is_empty() {
                self.capture(edge, &packet, false);
            }
            // Before it arrives, and perhaps ends its connection.
            self.tell_outcomes();
            packet.hop += 1;
            match self.routes.edge(packet.hop) {
                Some(next) => self.enter(next, packet),
                None => {
                    self.pass_receivebox(&packet);
                    self.arrive(packet);
                }
            }
        }
        self.tell_outcomes();
    }

    /// A packet comes to an edge, or to the sendbox in front of it.
    pub(super) fn enter(&mut self, edge: u32, packet: PacketHandle) {
        match self.sendboxes.before(edge, &packet) {
            Some(pair) => self.enter_sendbox(pair, packet),
            None => self.enter_edge(edge, packet),
        }
    }

    /// A packet enters an edge.
    pub(super) fn enter_edge(&mut self, edge: u32, packet: PacketHandle) {
        if !self.config.measure.capture.is_empty() {
            self.capture(edge, &packet, true);
        }
        self.edges
            .enter(edge, self.now, packet, &mut self.segments, &mut self.events);
        self.tell_outcomes();
    }

    /// Tells what became of packets of connections that are open.
    #[inline]
    fn tell_outcomes(&mut self) {
        if self.edges.outcomes.is_empty() {
            return;
        }
        for (packet, outcome) in self.edges.outcomes.drain(..) {
            let flow = match self.connections.named(packet.connection, packet.generation) {
                Some(connection) => Some(connection.flow),
                None => packet.is_datagram().then_some(packet.connection),
            };
            if let Some(flow) = flow {
                self.observer.packet_outcome(flow as usize, &outcome);
            }
        }
    }

    fn capture(&mut self, edge: u32, packet: &PacketHandle, leaves: bool) {
        let ends = &self.config.edges[edge as usize];
        let node = if leaves { ends.from } else { ends.to };
        if !self.config.measure.capture.contains(&node) {
            return;
        }
        let Some(connection) = self.connections.named(packet.connection, packet.generation) else {
            return;
        };
        self.observer.packet(&Captured {
            at: self.now,
            node,
            edge: EdgeId(edge),
            leaves,
            flow: connection.flow as usize,
            connection: connection.number,
            to_receiver: packet.to_receiver,
            size_bytes: packet.size_bytes,
            ecn: packet.ecn,
            segment: self.segments.get(packet.segment),
        });
    }

    /// A packet is there.
    fn arrive(&mut self, packet: PacketHandle) {
        if packet.is_datagram() {
            return self.datagram_arrives(&packet);
        }
        if packet.is_message() {
            return self.message_arrives(&packet);
        }
        let (now, slot) = (self.now, packet.connection);
        let segment = self.segments.get(packet.segment);
        if let Some(connection) = self.connections.named(slot, packet.generation) {
            if packet.to_receiver {
                let is_marked = packet.ecn == Ecn::Ce;
                connection.marked += u64::from(is_marked && segment.len > 0);
                connection.receiver.on_segment(now, segment, is_marked);
                self.segments.free(packet.segment);
                self.after_receiver(slot);
            } else {
                match &mut connection.guest {
                    None => connection.sender.on_segment(now, segment),
                    Some(guest) => {
                        let (mut segment, mut ecn) = (segment.clone(), packet.ecn);
                        let mut passing = Passing {
                            segment: &mut segment,
                            ecn: &mut ecn,
                            is_last: false,
                        };
                        let edge = (&mut self.plane, &mut self.wire);
                        if guest.pass(now, Direction::ToGuest, &mut passing, edge) {
                            self.boxes
                                .check_ack(guest.host, segment.ack, &connection.receiver);
                            connection.sender.on_segment(now, &segment);
                        }
                        if guest.is_held {
                            self.boxes.wake(guest.host);
                        }
                        self.wake_plane();
                    }
                }
                self.segments.free(packet.segment);
                self.after_sender(slot);
            }
        } else {
            self.segments.free(packet.segment);
        }
    }

    /// A connection's timer.
    pub(super) fn timer(&mut self, slot: u32) {
        let now = self.now;
        let Some(connection) = self.connections.get(slot) else {
            return;
        };
        if !connection.alarm.rings(now) {
            return;
        }
        let due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        let sender = due(connection.sender.next_timer()) && !connection.is_dead;
        let receiver = due(connection.receiver.next_timer());
        if receiver {
            connection.receiver.on_timer(now);
            self.after_receiver(slot);
        }
        if sender && let Some(connection) = self.connections.get(slot) {
            connection.sender.on_timer(now);
            self.after_sender(slot);
        }
        if !sender && !receiver {
            self.set_alarm(slot);
        }
    }

    fn set_alarm(&mut self, slot: u32) {
        if let Some(connection) = self.connections.get(slot) {
            let at = connection.next_timer();
            connection
                .alarm
                .set(at, Event::Connection(slot), &mut self.events);
        }
    }

    /// The receiver has something to say, or to hand to its application.
    fn after_receiver(&mut self, slot: u32) {
        self.send(slot, false, |connection, now| {
            connection.receiver.poll_transmit(now)
        });
        self.set_alarm(slot);
        while let Some(connection) = self.connections.get(slot)
            && let Some(asked) = connection.requests.front()
            && connection.receiver.delivered() >= asked.end
            && let Some(asked) = connection.requests.pop_front()
        {
            let flow = connection.flow;
            self.answered(flow, &asked);
        }
    }

    /// A request is done.
    fn answered(&mut self, index: u32, asked: &PendingRequest) {
        let flow = &mut self.flows[index as usize];
        if asked.start >= self.config.measure.from {
            flow.measured.requests.push(Request {
                start: asked.start,
                took: self.now.since(asked.start),
                bytes: asked.bytes,
                ideal: asked.ideal,
            });
        }
        let back = self.now + flow.answer_time(&self.config, &self.routes);
        let turn = flow.source.answered(back);
        flow.alarm.set(turn, Event::Flow(index), &mut self.events);
    }

    /// The sender has taken in an event.
    pub(super) fn after_sender(&mut self, slot: u32) {
        if self.connections.get(slot).is_none_or(|it| it.is_dead) {
            return;
        }
        self.run_controller(slot);
        self.send(slot, true, |connection, now| {
            connection.sender.poll_transmit(now)
        });
        self.set_alarm(slot);
        let finished = |connection: &mut Connection| connection.sender.is_finished();
        if self.connections.get(slot).is_some_and(finished) {
            self.close(slot);
        }
    }

    /// Sends all that one end has to send.
    #[inline]
    fn send(
        &mut self,
        slot: u32,
        to_receiver: bool,
        next: impl Fn(&mut Connection, Time) -> Option<Segment>,
    ) {
        let now = self.now;
        loop {
            let Some(connection) = self.connections.get(slot) else {
                return;
            };
            let Some(mut segment) = next(connection, now) else {
                return;
            };
            let mut ecn = if segment.ect { Ecn::Ect0 } else { Ecn::NotEct };
            if to_receiver && let Some(guest) = &mut connection.guest {
                let is_last = segment.end() >= connection.sender.written();
                let mut passing = Passing {
                    segment: &mut segment,
                    ecn: &mut ecn,
                    is_last,
                };
                let edge = (&mut self.plane, &mut self.wire);
                let goes_on = guest.pass(now, Direction::FromGuest, &mut passing, edge);
                if guest.is_held {
                    self.boxes.wake(guest.host);
                }
                self.wake_plane();
                if !goes_on {
                    continue;
                }
            }
            self.launch(slot, to_receiver, segment, ecn);
        }
    }

    /// A packet of a connection enters the network.
    #[inline]
    pub(super) fn launch(&mut self, slot: u32, to_receiver: bool, segment: Segment, ecn: Ecn) {
        let Some(connection) = self.connections.get(slot) else {
            return;
        };
        let flow = &self.flows[connection.flow as usize];
        let Some(hop) = flow.path(to_receiver, &mut connection.turns) else {
            return;
        };
        let packet = PacketHandle {
            connection: slot,
            generation: connection.generation,
            hop,
            size_bytes: size_bytes(&segment),
            ecn,
            priority: self.config.flows[connection.flow as usize].priority,
            to_receiver,
            bundle: flow.bundle,
            segment: self.segments.put(segment),
        };
        match self.routes.edge(hop) {
            Some(edge) => self.enter(edge, packet),
            None => self.segments.free(packet.segment),
        }
    }

    /// An application's turn.
    pub(super) fn application_turn(&mut self, index: u32) {
        if self.flows[index as usize].datagrams.is_some() {
            return self.datagram_turn(index);
        }
        let mut actions = std::mem::take(&mut self.actions);
        let flow = &mut self.flows[index as usize];
        let next = flow.source.turn(self.now, &mut actions);
        flow.alarm.set(next, Event::Flow(index), &mut self.events);
        for action in actions.drain(..) {
            match action {
                Action::Open => self.open(index),
                Action::Choose(number) => self.choose(index, number),
                action => self.perform(index, action),
            }
        }
        self.actions = actions;
        if let Some(slot) = self.flows[index as usize].connection {
            self.after_sender(slot);
        }
    }

    /// The actions that follow are about this connection of the flow's pool; those before were about
    /// another, which now sends what it was given.
    fn choose(&mut self, index: u32, number: u32) {
        let flow = &mut self.flows[index as usize];
        let before = flow.connection;
        flow.connection = flow.pool.get(number as usize).copied();
        if let Some(before) = before.filter(|before| flow.connection != Some(*before)) {
            self.after_sender(before);
        }
    }

    fn open(&mut self, index: u32) {
        let (config, now): (&Experiment, _) = (&self.config, self.now);
        let flow = &mut self.flows[index as usize];
        let tcp = &flow.tcp(&config.flows[index as usize]);
        let turns = flow.first_turns(config.seed, index);
        let receiver = &flow.receiver_tcp(tcp);
        let ends = &config.flows[index as usize];
        let slot = self.connections.open(|generation, number| Connection {
            flow: index,
            generation,
            number,
            sender: Sender::new(tcp, now),
            receiver: Receiver::new(receiver, now),
            controller: ConnectionController::Opening,
            is_dead: false,
            guest: flow.edge.as_mut().map(|edge| {
                let ends = (address(ends.from, number), peer_address(ends.to));
                let place = (edge.host, index, edge.is_held);
                Box::new(Guest::new(place, ends, tcp, &mut edge.numbers))
            }),
            alarm: Alarm::default(),
            requests: VecDeque::new(),
            marked: 0,
            turns,
        });
        flow.connection = Some(slot);
        if let Traffic::Pool { .. } = ends.traffic {
            flow.pool.push(slot);
        }
        if let Some(guest) = self.connections.get(slot).and_then(|it| it.guest.as_ref()) {
            self.boxes.open(&guest.key(), slot);
        }
    }

    fn perform(&mut self, index: u32, action: Action) {
        let flow = &mut self.flows[index as usize];
        let tcp = &self.config.flows[index as usize].tcp;
        let Some(connection) = flow.connection.and_then(|slot| self.connections.get(slot)) else {
            return;
        };
        let sender = &mut connection.sender;
        match action {
            Action::Open | Action::Choose(_) => {}
            Action::Ask(bytes) => {
                let handshake = tcp.handshake && sender.written() == 0;
                connection.requests.push_back(PendingRequest {
                    start: self.now,
                    end: sender.written().saturating_add(bytes),
                    bytes,
                    ideal: flow.ideal(&self.config, &self.routes, bytes, tcp.mss, handshake),
                });
                sender.write(bytes);
                let counts = self.now >= self.config.measure.from;
                flow.measured.asked += u64::from(counts);
            }
            Action::AskFromAfar(bytes) => {
                let way = flow.answer_time(&self.config, &self.routes);
                let start = Time::ZERO + self.now.since(Time::ZERO + way);
                connection.requests.push_back(PendingRequest {
                    start,
                    end: sender.written().saturating_add(bytes),
                    bytes,
                    ideal: flow.ideal_from_afar(&self.config, &self.routes, bytes, tcp.mss),
                });
                sender.write(bytes);
                let counts = start >= self.config.measure.from;
                flow.measured.asked += u64::from(counts);
            }
            Action::Write(bytes) => sender.write(bytes),
            Action::Flood => sender.write(ENDLESS),
            Action::Cut => sender.cut(),
            Action::Close => sender.close(),
        }
    }

    /// The receiver's own FIN passes the box, which then forgets the connection.
    fn end_guest(&mut self, mut guest: Guest, written: u64) {
        let mut fin = Segment {
            fin: true,
            ack: written + 1,
            ..Segment::default()
        };
        let mut passing = Passing {
            segment: &mut fin,
            ecn: &mut Ecn::NotEct,
            is_last: true,
        };
        let edge = (&mut self.plane, &mut self.wire);
        guest.pass(self.now, Direction::ToGuest, &mut passing, edge);
        self.boxes.close(&guest.key());
        self.wake_plane();
    }

    /// All that a connection had to do is done.
    fn close(&mut self, slot: u32) {
        let Some(mut closed) = self.connections.close(slot) else {
            return;
        };
        if let Some(guest) = closed.guest.take() {
            self.end_guest(*guest, closed.sender.written());
        }
        if let ConnectionController::Plane { host, flow, .. } = closed.controller {
            self.plane.close(host, flow, self.now);
            self.wake_plane();
        }
        let flow = &mut self.flows[closed.flow as usize];
        flow.measured.close(&closed.totals());
        if flow.connection == Some(slot) {
            flow.connection = None;
        }
    }
}
