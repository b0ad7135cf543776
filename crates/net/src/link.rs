//! A link: loss, then a queue, then a bottleneck, then a delay.

use std::time::Duration;

use crate::delay::Delay;
use crate::flight::Flight;
use crate::service::{FixedCapacity, Server};
use crate::{
    Capacity, DropReason, Dropped, Ecn, Held, Jitter, Limit, Loss, LossConfig, Packet, Queue,
    QueueConfig, Rate, Reordering, Sink, Time,
};

/// What a link is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkConfig {
    /// The bottleneck.
    pub capacity: Capacity,
    /// The queue before it.
    pub queue: QueueConfig,
    /// Propagation delay after it, one way.
    pub delay: Duration,
    /// More delay, different for each packet.
    pub jitter: Option<Jitter>,
    /// Packets held back on their way.
    pub reordering: Option<Reordering>,
    /// Loss before the queue: a lost packet takes none of the capacity.
    pub loss: LossConfig,
    /// Seed of all that is random.
    pub seed: u64,
}

impl LinkConfig {
    /// A link that loses nothing but what its queue drops and keeps the order.
    pub const fn new(capacity: Capacity, queue: QueueConfig, delay: Duration) -> Self {
        LinkConfig {
            capacity,
            queue,
            delay,
            jitter: None,
            reordering: None,
            loss: LossConfig::None,
            seed: 0,
        }
    }
}

/// One direction of a path.
///
/// Every departure follows from the arrivals alone: a packet's service starts at the later of its
/// arrival and the end of service of the one before, and the queue is asked then which it is; so
/// polling late, or at odd times, changes nothing. Times given must not go backwards; one that
/// does is taken as the latest seen.
#[derive(Debug)]
pub struct Link<P> {
    loss: Loss,
    queue: Queue<P>,
    /// When the queue is asked for the next packet; `None` while it is empty.
    next_start: Option<Time>,
    server: Server,
    delay: Delay,
    flight: Flight<P>,
    /// Filled and emptied for each aggregate.
    frames: Vec<Held<P>>,
    sink: Sink<P>,
    now: Time,
    counters: Counters,
}

/// When a packet passed what. Times are virtual: what would be on an ideal machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketTimes {
    /// Size, bytes.
    pub size_bytes: u32,
    /// It arrived at the queue.
    pub enqueued: Time,
    /// It left the queue: its first bit was sent.
    pub served: Time,
    /// Its last bit left the bottleneck.
    pub departed: Time,
    /// It comes out at the other end: `departed` plus the delay.
    pub due: Time,
    /// It left the queue with a mark (ECN CE).
    pub marked: bool,
}

impl PacketTimes {
    /// Time spent in the queue, without the packet's own transmission.
    pub fn queueing_delay(&self) -> Duration {
        self.served.since(self.enqueued)
    }
}

/// A packet that came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered<P> {
    /// Its times.
    pub times: PacketTimes,
    /// The packet.
    pub packet: P,
}

/// Packets counted since the link was made. `arrived = delivered + dropped_full + dropped_aqm +
/// dropped_lost +` [`Link::in_transit`] at every moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets given to [`Link::enqueue`].
    pub arrived: u64,
    /// Packets that [`Link::poll`] gave out.
    pub delivered: u64,
    /// Packets dropped since the queue was full.
    pub dropped_full: u64,
    /// Packets that the discipline chose to drop.
    pub dropped_aqm: u64,
    /// Packets lost at random.
    pub dropped_lost: u64,
    /// Packets that the queue marked.
    pub marked: u64,
}

impl<P: Packet> Link<P> {
    /// An idle link.
    pub fn new(config: &LinkConfig) -> Self {
        Link {
            loss: Loss::new(config.loss, config.seed),
            queue: Queue::new(&config.queue, config.seed),
            next_start: None,
            server: Server::new(&config.capacity, config.seed),
            delay: Delay::new(config),
            flight: Flight::new(),
            frames: Vec::new(),
            sink: Sink::default(),
            now: Time::ZERO,
            counters: Counters::default(),
        }
    }

    /// A packet arrives. What is dropped, this packet or another, [`Link::drain_dropped`] tells.
    #[inline]
    pub fn enqueue(&mut self, now: Time, packet: P) {
        self.advance(now);
        self.counters.arrived += 1;
        if self.loss.strikes() {
            self.counters.dropped_lost += 1;
            self.sink.dropped.push(Dropped {
                at: self.now,
                enqueued: self.now,
                reason: DropReason::RandomLoss,
                packet,
            });
            return;
        }
        let dropped = self.sink.dropped.len();
        self.queue.enqueue(self.now, packet, &mut self.sink);
        self.count_drops(dropped);
        if self.next_start.is_none() && !self.queue.is_empty() {
            self.next_start = Some(self.server.next_start(self.now));
            self.advance(now);
        }
    }

    /// The link serves at another rate from `now` on, a packet in the middle of its service
    /// included; one that follows a schedule leaves it. The queue and what waits in it stay as they
    /// are, and so does what a token bucket holds: no change of rate gives anything away. What
    /// [`Link::next_departure`] said before may be wrong afterwards. The queue's limit stays: a
    /// [`crate::Buffer`] in time or in bandwidth-delay products gives another one for another rate,
    /// for [`Link::set_limit`].
    ///
    /// # Errors
    /// [`FixedCapacity`] for a link without a rate: a delivery trace, aggregates, or unlimited.
    pub fn set_rate(&mut self, now: Time, rate: Rate) -> Result<(), FixedCapacity> {
        self.advance(now);
        if let Some(departed) = self.server.set_rate(self.now, rate)? {
            let due = self.flight.move_last(departed, self.delay.reorders());
            self.delay.move_last(due.unwrap_or(departed));
        }
        if self.next_start.is_some() {
            self.next_start = Some(self.server.next_start(self.now));
        }
        self.advance(now);
        Ok(())
    }

    /// Sets how much the queue holds: see [`Queue::set_limit`].
    pub fn set_limit(&mut self, limit: Limit) {
        self.queue.set_limit(limit);
    }

    /// Drops one packet that waits, as for a queue that is too long: see [`Queue::evict`]. Whether
    /// there was one. For owners of several links with a [`crate::JointLimit`].
    pub fn evict(&mut self, now: Time) -> bool {
        self.advance(now);
        let dropped = self.sink.dropped.len();
        let is_dropped = self.queue.evict(self.now, &mut self.sink);
        self.count_drops(dropped);
        if self.queue.is_empty() {
            self.next_start = None;
        }
        is_dropped
    }

    /// When to [`Link::poll`] next; `None` when the link is empty. A packet comes out then, or
    /// (when a delivery trace keeps the first in the queue waiting, or packets overtake) no packet
    /// comes out before.
    #[inline]
    pub fn next_departure(&self) -> Option<Time> {
        let flying = self.flight.next_due();
        let waiting = self.next_start.map(|start| self.delay.earliest(start));
        match (flying, waiting) {
            (Some(due), Some(earliest)) if self.delay.reorders() => Some(due.min(earliest)),
            _ => flying.or(waiting),
        }
    }

    /// The next packet that is due by `now`, in the order they come out; call until `None`.
    #[inline]
    pub fn poll(&mut self, now: Time) -> Option<Delivered<P>> {
        self.advance(now);
        let delivered = self.flight.land(self.now)?;
        self.counters.delivered += 1;
        Some(delivered)
    }

    /// Packets dropped since this was last called, in the order of their drops. A caller that
    /// never calls it keeps them all.
    #[inline]
    pub fn drain_dropped(&mut self) -> std::vec::Drain<'_, Dropped<P>> {
        self.sink.dropped.drain(..)
    }

    /// Packets that wait in the queue; the one in service has left it.
    pub fn queued_packets(&self) -> usize {
        self.queue.len()
    }

    /// Bytes that wait in the queue.
    pub fn queued_bytes(&self) -> u64 {
        self.queue.bytes()
    }

    /// Times of the packets that have left the queue and not come out, in no order. A packet that
    /// is still being sent is among them: its `departed` lies ahead.
    pub fn in_flight(&self) -> impl Iterator<Item = &PacketTimes> {
        self.flight.packets().map(|packet| &packet.times)
    }

    /// The packets that have left the queue and not come out, with their times, in no order.
    pub fn in_flight_packets(&self) -> impl Iterator<Item = &Delivered<P>> {
        self.flight.packets()
    }

    /// Packets that arrived and neither came out nor were dropped.
    pub fn in_transit(&self) -> usize {
        self.queue.len() + self.flight.len()
    }

    /// Packets counted so far.
    pub fn counters(&self) -> Counters {
        Counters {
            marked: self.sink.marked,
            ..self.counters
        }
    }

    /// Takes out of the queue all that started service by `now`. [`Link::enqueue`] and
    /// [`Link::poll`] do so by themselves: this is for who looks at the queue in between.
    #[inline]
    pub fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        while let Some(start) = self.next_start.filter(|&start| start <= self.now) {
            let free = if self.server.aggregates() {
                self.send_aggregate(start)
            } else {
                match self.dequeue(start) {
                    Some(held) => {
                        let departed = self.server.serve(start, held.size_bytes);
                        self.depart(start, departed, held);
                        departed
                    }
                    None => start,
                }
            };
            self.next_start = (!self.queue.is_empty()).then(|| self.server.next_start(free));
        }
    }

    /// Sends one aggregate of what waits at `start`; returns when the medium is free again.
    fn send_aggregate(&mut self, start: Time) -> Time {
        let mut frames = std::mem::take(&mut self.frames);
        let mut bytes = 0;
        while self.server.aggregate_takes(frames.len(), bytes)
            && let Some(held) = self.dequeue(start)
        {
            bytes += u64::from(held.size_bytes);
            frames.push(held);
        }
        let departed = self.server.serve_aggregate(start, bytes);
        for held in frames.drain(..) {
            self.depart(start, departed, held);
        }
        self.frames = frames;
        departed
    }

    /// Takes a packet out of the queue, and counts what the queue dropped on the way to it.
    #[inline]
    fn dequeue(&mut self, now: Time) -> Option<Held<P>> {
        let dropped = self.sink.dropped.len();
        let held = self.queue.dequeue(now, &mut self.sink);
        self.count_drops(dropped);
        held
    }

    /// A packet whose first bit is sent at `served` leaves the bottleneck at `departed`.
    #[inline]
    fn depart(&mut self, served: Time, departed: Time, held: Held<P>) {
        self.flight.take_off(Delivered {
            times: PacketTimes {
                size_bytes: held.size_bytes,
                enqueued: held.enqueued,
                served,
                departed,
                due: self.delay.due(departed),
                marked: held.packet.ecn() == Ecn::Ce,
            },
            packet: held.packet,
        });
    }

    /// Counts the drops that the queue told after the first `known`.
    #[inline]
    fn count_drops(&mut self, known: usize) {
        for dropped in &self.sink.dropped[known..] {
            match dropped.reason {
                DropReason::QueueFull => self.counters.dropped_full += 1,
                DropReason::Aqm => self.counters.dropped_aqm += 1,
                DropReason::RandomLoss => self.counters.dropped_lost += 1,
            }
        }
    }
}
