//! Two sides and what lies between them: each packet is impaired as a test says.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use fairwater_net::Time;
use fairwater_sim::Native;
use fairwater_sim::native::NativeController;
use fairwater_tcp::{Invocation, Receiver, Segment, Sender, TcpConfig};

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Impairment {
    pub(crate) drop: bool,
    /// Later than the wire's delay.
    pub(crate) late: Duration,
    /// Arrives once more, so much after the first.
    pub(crate) again: Option<Duration>,
    pub(crate) mark: bool,
}

pub(crate) type Impairments = Box<dyn FnMut(u64, &Segment) -> Impairment>;

enum Event {
    ToReceiver(Segment, bool),
    ToSender(Segment),
}

/// A sender, a receiver, and a wire of a fixed delay and rate each way.
pub(crate) struct Wire {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) controller: NativeController,
    pub(crate) now: Time,
    pub(crate) delay: Duration,
    /// A segment's time on the wire, data only.
    pub(crate) serialisation: Duration,
    /// Segments that may wait for the wire; more are dropped.
    pub(crate) buffer: u32,
    pub(crate) overflowed: u64,
    pub(crate) forward: Impairments,
    pub(crate) reverse: Impairments,
    /// Everything that was sent, with the time: data, and ACKs.
    pub(crate) sent: Vec<(Time, Segment)>,
    pub(crate) acks: Vec<(Time, Segment)>,
    pub(crate) invocations: Vec<Invocation>,
    /// The receiver's pauses are scripted: from, to.
    pub(crate) pause: Option<(Time, Time)>,
    free: Time,
    events: BinaryHeap<Reverse<(Time, u64)>>,
    payloads: Vec<Option<Event>>,
}

pub(crate) fn as_is() -> Impairments {
    Box::new(|_, _| Impairment::default())
}

impl Wire {
    pub(crate) fn new(config: &TcpConfig, native: Native) -> Self {
        Self {
            sender: Sender::new(config, Time::ZERO),
            receiver: Receiver::new(config, Time::ZERO),
            controller: NativeController::new(native, config),
            now: Time::ZERO,
            delay: Duration::from_millis(10),
            serialisation: Duration::ZERO,
            buffer: u32::MAX,
            overflowed: 0,
            forward: as_is(),
            reverse: as_is(),
            sent: Vec::new(),
            acks: Vec::new(),
            invocations: Vec::new(),
            pause: None,
            free: Time::ZERO,
            events: BinaryHeap::new(),
            payloads: Vec::new(),
        }
    }

    fn schedule(&mut self, at: Time, event: Event) {
        self.payloads.push(Some(event));
        self.events
            .push(Reverse((at, self.payloads.len() as u64 - 1)));
    }

    /// Lets both sides send what they may.
    pub(crate) fn pump(&mut self) {
        while let Some(invocation) = self.sender.poll_invocation() {
            let controls = self.controller.on_invocation(&invocation);
            self.sender.set_controls(controls);
            self.invocations.push(invocation);
        }
        while let Some(segment) = self.sender.poll_transmit(self.now) {
            let impairment = (self.forward)(self.sent.len() as u64, &segment);
            self.sent.push((self.now, segment.clone()));
            if self.free.since(self.now) > self.serialisation.saturating_mul(self.buffer) {
                self.overflowed += 1;
                continue;
            }
            self.free = self.free.max(self.now) + self.serialisation;
            let at = self.free + self.delay + impairment.late;
            if let Some(again) = impairment.again {
                self.schedule(
                    at + again,
                    Event::ToReceiver(segment.clone(), impairment.mark),
                );
            }
            if !impairment.drop {
                self.schedule(at, Event::ToReceiver(segment, impairment.mark));
            }
        }
        while let Some(ack) = self.receiver.poll_transmit(self.now) {
            let impairment = (self.reverse)(self.acks.len() as u64, &ack);
            self.acks.push((self.now, ack.clone()));
            let at = self.now + self.delay + impairment.late;
            if let Some(again) = impairment.again {
                self.schedule(at + again, Event::ToSender(ack.clone()));
            }
            if !impairment.drop {
                self.schedule(at, Event::ToSender(ack));
            }
        }
    }

    /// One event; `false` when nothing more will ever happen.
    pub(crate) fn step(&mut self) -> bool {
        self.pump();
        let arrival = self.events.peek().map(|Reverse((at, _))| *at);
        let next = [
            arrival,
            self.sender.next_timer(),
            self.receiver.next_timer(),
            self.pause.map(|(from, _)| from).filter(|at| *at > self.now),
            self.pause.map(|(_, to)| to).filter(|at| *at > self.now),
        ]
        .into_iter()
        .flatten()
        .min();
        let Some(at) = next else {
            return false;
        };
        self.now = self.now.max(at);
        if let Some((from, to)) = self.pause {
            if self.now >= to {
                self.receiver.resume();
                self.pause = None;
            } else if self.now >= from {
                self.receiver.pause();
            }
        }
        if arrival.is_some_and(|at| at <= self.now) {
            if let Some(Reverse((_, index))) = self.events.pop() {
                match self.payloads[index as usize].take() {
                    Some(Event::ToReceiver(segment, mark)) => {
                        self.receiver.on_segment(self.now, &segment, mark);
                    }
                    Some(Event::ToSender(ack)) => self.sender.on_segment(self.now, &ack),
                    None => {}
                }
            }
        } else {
            self.sender.on_timer(self.now);
            self.receiver.on_timer(self.now);
        }
        self.pump();
        true
    }

    /// Until the time, or until nothing more will happen.
    pub(crate) fn run_until(&mut self, end: Time) {
        while self.now < end && self.step() {}
    }

    pub(crate) fn run_to_completion(&mut self, limit: Time) {
        while !self.sender.is_finished() {
            assert!(self.now < limit, "not done at {:?}", self.now);
            assert!(self.step(), "stalled at {:?}: {:#?}", self.now, self.sender);
        }
    }

    /// Data segments sent, without SYNs.
    pub(crate) fn data(&self) -> impl Iterator<Item = &(Time, Segment)> {
        self.sent.iter().filter(|(_, s)| s.len > 0)
    }
}
