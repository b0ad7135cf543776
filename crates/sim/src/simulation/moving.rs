//! Packets, timers and applications.

use std::ops::Deref;

use fairwater_net::{Ecn, Time};

use super::Simulation;
use crate::connection::{Asked, Connection, Governing};
use crate::events::{Alarm, Event};
use crate::packet::{Parcel, size_bytes};
use crate::tcp::{Receiver, Segment, Sender};
use crate::traffic::Act;
use crate::{Captured, Config, EdgeId, Observer, Request};

/// More than any simulation sends, and far from the end of the sequence space.
const ENDLESS: u64 = u64::MAX / 4;

impl<C: Deref<Target = Config>, O: Observer> Simulation<C, O> {
    /// Packets that are due come out of an edge.
    pub(super) fn let_out(&mut self, edge: u32) {
        while let Some(mut parcel) =
            self.edges
                .leave(edge, self.now, &mut self.segments, &mut self.events)
        {
            if self.config.measure.capture.is_some() {
                self.capture(edge, &parcel, false);
            }
            // Before it arrives, and perhaps ends its connection.
            self.tell_fates();
            parcel.hop += 1;
            match self.routes.edge(parcel.hop) {
                Some(next) => self.enter(next, parcel),
                None => self.arrive(parcel),
            }
        }
        self.tell_fates();
    }

    fn enter(&mut self, edge: u32, parcel: Parcel) {
        if self.config.measure.capture.is_some() {
            self.capture(edge, &parcel, true);
        }
        self.edges
            .enter(edge, self.now, parcel, &mut self.segments, &mut self.events);
        self.tell_fates();
    }

    /// Tells what became of packets of connections that are open.
    #[inline]
    fn tell_fates(&mut self) {
        if self.edges.fates.is_empty() {
            return;
        }
        for (parcel, fate) in self.edges.fates.drain(..) {
            if let Some(connection) = self.connections.named(parcel.connection, parcel.generation) {
                self.observer.fate(connection.flow as usize, &fate);
            }
        }
    }

    fn capture(&mut self, edge: u32, parcel: &Parcel, leaves: bool) {
        let ends = &self.config.edges[edge as usize];
        let node = if leaves { ends.from } else { ends.to };
        if self.config.measure.capture != Some(node) {
            return;
        }
        let Some(connection) = self.connections.named(parcel.connection, parcel.generation) else {
            return;
        };
        self.observer.packet(&Captured {
            at: self.now,
            edge: EdgeId(edge),
            leaves,
            flow: connection.flow as usize,
            connection: connection.number,
            to_receiver: parcel.to_receiver,
            size_bytes: parcel.size_bytes,
            ecn: parcel.ecn,
            segment: self.segments.get(parcel.segment),
        });
    }

    /// A packet is there.
    fn arrive(&mut self, parcel: Parcel) {
        let (now, place) = (self.now, parcel.connection);
        let segment = self.segments.get(parcel.segment);
        if let Some(connection) = self.connections.named(place, parcel.generation) {
            if parcel.to_receiver {
                let is_marked = parcel.ecn == Ecn::Ce;
                connection.marked += u64::from(is_marked && segment.len > 0);
                connection.receiver.on_segment(now, segment, is_marked);
                self.segments.free(parcel.segment);
                self.after_receiver(place);
            } else {
                connection.sender.on_segment(now, segment);
                self.segments.free(parcel.segment);
                self.after_sender(place);
            }
        } else {
            self.segments.free(parcel.segment);
        }
    }

    /// A connection's timer.
    pub(super) fn timer(&mut self, place: u32) {
        let now = self.now;
        let Some(connection) = self.connections.get(place) else {
            return;
        };
        if !connection.alarm.rings(now) {
            return;
        }
        let due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        let sender = due(connection.sender.next_timer());
        let receiver = due(connection.receiver.next_timer());
        if receiver {
            connection.receiver.on_timer(now);
            self.after_receiver(place);
        }
        if sender && let Some(connection) = self.connections.get(place) {
            connection.sender.on_timer(now);
            self.after_sender(place);
        }
        if !sender && !receiver {
            self.set_alarm(place);
        }
    }

    fn set_alarm(&mut self, place: u32) {
        if let Some(connection) = self.connections.get(place) {
            let at = connection.next_timer();
            connection
                .alarm
                .set(at, Event::Connection(place), &mut self.events);
        }
    }

    /// The receiver has something to say, or to hand to its application.
    fn after_receiver(&mut self, place: u32) {
        self.send(place, false, |connection, now| {
            connection.receiver.poll_transmit(now)
        });
        self.set_alarm(place);
        let Some(connection) = self.connections.get(place) else {
            return;
        };
        if let Some(asked) = connection.request
            && connection.receiver.delivered() >= asked.end
        {
            connection.request = None;
            let flow = connection.flow;
            self.answered(flow, &asked);
        }
    }

    /// A request is done.
    fn answered(&mut self, index: u32, asked: &Asked) {
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
    pub(super) fn after_sender(&mut self, place: u32) {
        self.govern(place);
        self.send(place, true, |connection, now| {
            connection.sender.poll_transmit(now)
        });
        self.set_alarm(place);
        let finished = |connection: &mut Connection| connection.sender.is_finished();
        if self.connections.get(place).is_some_and(finished) {
            self.close(place);
        }
    }

    /// Sends all that one end has to send.
    #[inline]
    fn send(
        &mut self,
        place: u32,
        to_receiver: bool,
        next: impl Fn(&mut Connection, Time) -> Option<Segment>,
    ) {
        let now = self.now;
        loop {
            let Some(connection) = self.connections.get(place) else {
                return;
            };
            let Some(segment) = next(connection, now) else {
                return;
            };
            let flow = &self.flows[connection.flow as usize];
            let Some(hop) = flow.way(to_receiver, &mut connection.turns) else {
                return;
            };
            let parcel = Parcel {
                connection: place,
                generation: connection.generation,
                hop,
                size_bytes: size_bytes(&segment),
                ecn: if segment.ect { Ecn::Ect0 } else { Ecn::NotEct },
                priority: self.config.flows[connection.flow as usize].priority,
                to_receiver,
                segment: self.segments.put(segment),
            };
            match self.routes.edge(hop) {
                Some(edge) => self.enter(edge, parcel),
                None => self.segments.free(parcel.segment),
            }
        }
    }

    /// An application's turn.
    pub(super) fn application_turn(&mut self, index: u32) {
        let mut acts = std::mem::take(&mut self.acts);
        let flow = &mut self.flows[index as usize];
        let next = flow.source.turn(self.now, &mut acts);
        flow.alarm.set(next, Event::Flow(index), &mut self.events);
        for act in acts.drain(..) {
            if act == Act::Open {
                self.open(index);
            } else {
                self.act(index, act);
            }
        }
        self.acts = acts;
        if let Some(place) = self.flows[index as usize].connection {
            self.after_sender(place);
        }
    }

    fn open(&mut self, index: u32) {
        let (config, now): (&Config, _) = (&self.config, self.now);
        let flow = &mut self.flows[index as usize];
        let tcp = &flow.tcp(&config.flows[index as usize]);
        let turns = flow.first_turns(config.seed, index);
        let place = self.connections.open(|generation, number| Connection {
            flow: index,
            generation,
            number,
            sender: Sender::new(tcp, now),
            receiver: Receiver::new(tcp, now),
            governing: Governing::Opening,
            alarm: Alarm::default(),
            request: None,
            marked: 0,
            turns,
        });
        flow.connection = Some(place);
    }

    fn act(&mut self, index: u32, act: Act) {
        let flow = &mut self.flows[index as usize];
        let tcp = &self.config.flows[index as usize].tcp;
        let Some(connection) = flow
            .connection
            .and_then(|place| self.connections.get(place))
        else {
            return;
        };
        let sender = &mut connection.sender;
        match act {
            Act::Open => {}
            Act::Ask(bytes) => {
                let handshake = tcp.handshake && sender.written() == 0;
                connection.request = Some(Asked {
                    start: self.now,
                    end: sender.written().saturating_add(bytes),
                    bytes,
                    ideal: flow.ideal(&self.config, &self.routes, bytes, tcp.mss, handshake),
                });
                sender.write(bytes);
                let counts = self.now >= self.config.measure.from;
                flow.measured.asked += u64::from(counts);
            }
            Act::Write(bytes) => sender.write(bytes),
            Act::Flood => sender.write(ENDLESS),
            Act::Cut => sender.cut(),
            Act::Close => sender.close(),
        }
    }

    /// All that a connection had to do is done.
    fn close(&mut self, place: u32) {
        let Some(closed) = self.connections.close(place) else {
            return;
        };
        if let Governing::Plane { host, flow, .. } = closed.governing {
            self.plane.close(host, flow, self.now);
            self.wake_plane();
        }
        let flow = &mut self.flows[closed.flow as usize];
        flow.measured.close(&closed.totals());
        if flow.connection == Some(place) {
            flow.connection = None;
        }
    }
}
