//! A link: loss, then a queue, then a bottleneck, then a delay.

use std::collections::VecDeque;
use std::time::Duration;

use crate::service::{Server, Service};
use crate::{Capacity, DropTail, Limit, LossRate, RandomLoss, Time};

/// What a link is made of.
#[derive(Debug, Clone)]
pub struct LinkConfig {
    /// The bottleneck.
    pub capacity: Capacity,
    /// The queue before it.
    pub limit: Limit,
    /// Propagation delay after it, one way.
    pub delay: Duration,
    /// Random loss before the queue: a lost packet takes none of the capacity.
    pub loss: LossRate,
    /// Seed of the loss.
    pub seed: u64,
}

/// One direction of a path. `P` is whatever a packet is to the caller; only its size matters here.
///
/// Every departure follows from the arrivals alone: service of packet n starts at the later of
/// its arrival and the end of service of packet n−1, so that polling late, or at odd times,
/// changes nothing. Times given must not go backwards; one that does is taken as the latest seen.
#[derive(Debug)]
pub struct Link<P> {
    loss: RandomLoss,
    queue: DropTail<Waiting<P>>,
    /// The service of the packet at the queue's head, once it is the head.
    head: Option<Service>,
    server: Server,
    delay: Duration,
    flying: VecDeque<Delivered<P>>,
    now: Time,
    counters: Counters,
}

#[derive(Debug)]
struct Waiting<P> {
    enqueued: Time,
    packet: P,
}

/// When a packet passed what. Times are virtual: what would be on an ideal machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passage {
    /// Size, bytes.
    pub size_bytes: u32,
    /// It arrived at the queue.
    pub enqueued: Time,
    /// It left the queue: its first bit was sent. On a trace, the opportunity that carried its
    /// last byte.
    pub served: Time,
    /// Its last bit left the bottleneck.
    pub departed: Time,
    /// It comes out at the other end: `departed` plus the delay.
    pub due: Time,
}

impl Passage {
    /// Time spent in the queue, without the packet's own transmission.
    pub fn queueing_delay(&self) -> Duration {
        self.served.since(self.enqueued)
    }
}

/// A packet that came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered<P> {
    /// Its times.
    pub passage: Passage,
    /// The packet.
    pub packet: P,
}

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The queue was full.
    QueueFull,
    /// Random loss.
    RandomLoss,
}

/// What became of a packet that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Verdict<P> {
    /// It will come out.
    Queued,
    /// It was dropped; the caller has it back.
    Dropped {
        /// Why.
        reason: DropReason,
        /// The packet.
        packet: P,
    },
}

/// Packets counted since the link was made. `arrived = delivered + dropped_full + dropped_lost +`
/// [`Link::in_transit`] at every moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets given to [`Link::enqueue`].
    pub arrived: u64,
    /// Packets that [`Link::poll`] gave out.
    pub delivered: u64,
    /// Packets that found the queue full.
    pub dropped_full: u64,
    /// Packets lost at random.
    pub dropped_lost: u64,
}

impl<P> Link<P> {
    /// An idle link.
    pub fn new(config: &LinkConfig) -> Self {
        Link {
            loss: RandomLoss::new(config.loss, config.seed),
            queue: DropTail::new(config.limit),
            head: None,
            server: Server::new(&config.capacity),
            delay: config.delay,
            flying: VecDeque::new(),
            now: Time::ZERO,
            counters: Counters::default(),
        }
    }

    /// A packet of `size_bytes` arrives.
    pub fn enqueue(&mut self, now: Time, size_bytes: u32, packet: P) -> Verdict<P> {
        self.advance(now);
        self.counters.arrived += 1;
        if self.loss.strikes() {
            self.counters.dropped_lost += 1;
            let reason = DropReason::RandomLoss;
            return Verdict::Dropped { reason, packet };
        }
        let waiting = Waiting {
            enqueued: self.now,
            packet,
        };
        if let Err(waiting) = self.queue.push(size_bytes, waiting) {
            self.counters.dropped_full += 1;
            return Verdict::Dropped {
                reason: DropReason::QueueFull,
                packet: waiting.packet,
            };
        }
        self.schedule_head();
        Verdict::Queued
    }

    /// When the next packet comes out; `None` when the link is empty.
    pub fn next_departure(&self) -> Option<Time> {
        match self.flying.front() {
            Some(next) => Some(next.passage.due),
            None => self.head.map(|service| service.end + self.delay),
        }
    }

    /// The next packet that is due by `now`, in order; call until `None`.
    pub fn poll(&mut self, now: Time) -> Option<Delivered<P>> {
        self.advance(now);
        if self.flying.front()?.passage.due > self.now {
            return None;
        }
        self.counters.delivered += 1;
        self.flying.pop_front()
    }

    /// Packets that wait in the queue; the one in service has left it.
    pub fn queued_packets(&self) -> usize {
        self.queue.len()
    }

    /// Bytes that wait in the queue.
    pub fn queued_bytes(&self) -> u64 {
        self.queue.bytes()
    }

    /// Packets that arrived and neither came out nor were dropped.
    pub fn in_transit(&self) -> usize {
        self.queue.len() + self.flying.len()
    }

    /// Packets counted so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Takes out of the queue all that started service by `now`.
    fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        while let Some(service) = self.head.filter(|service| service.start <= self.now) {
            self.head = None;
            if let Some((size_bytes, waiting)) = self.queue.pop() {
                self.flying.push_back(Delivered {
                    passage: Passage {
                        size_bytes,
                        enqueued: waiting.enqueued,
                        served: service.start,
                        departed: service.end,
                        due: service.end + self.delay,
                    },
                    packet: waiting.packet,
                });
            }
            self.schedule_head();
        }
    }

    fn schedule_head(&mut self) {
        if self.head.is_none()
            && let Some((size_bytes, waiting)) = self.queue.head()
        {
            self.head = Some(self.server.serve(waiting.enqueued, size_bytes));
        }
    }
}
