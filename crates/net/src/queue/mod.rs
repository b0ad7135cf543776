//! Queue disciplines: one file each. What packets they drop or mark, and when, is decided by the
//! packets and the times alone; every chance is drawn from a seed.

mod drop_tail;
mod step;

use drop_tail::DropTail;
use step::Step;
pub use step::StepConfig;

use crate::{Packet, Time, packet};

/// How much a queue holds. The packet being sent has left the queue and does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// So many packets.
    Packets(u64),
    /// So many bytes of IP packets.
    Bytes(u64),
    /// Everything.
    Unlimited,
}

impl Limit {
    /// Whether so much is within it.
    fn holds(self, packets: usize, bytes: u64) -> bool {
        match self {
            Limit::Packets(limit) => packets as u64 <= limit,
            Limit::Bytes(limit) => bytes <= limit,
            Limit::Unlimited => true,
        }
    }
}

/// A queue discipline and its parameters.
#[derive(Debug, Clone, PartialEq)]
pub enum QueueConfig {
    /// First in, first out; what does not fit is dropped on arrival.
    DropTail(Limit),
    /// Drop-tail that marks above a threshold.
    Step(StepConfig),
}

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The queue was full.
    QueueFull,
    /// The discipline chose to, with room left, so that its sender slows down.
    Aqm,
    /// Loss before the queue.
    RandomLoss,
}

/// A packet that was dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped<P> {
    /// When. Virtual: when it would be on an ideal machine.
    pub at: Time,
    /// It arrived; earlier than `at` when it was dropped out of the queue.
    pub enqueued: Time,
    /// Why.
    pub reason: DropReason,
    /// The packet.
    pub packet: P,
}

/// Where a queue tells what it did to packets; whoever owns it takes them out.
#[derive(Debug)]
pub struct Sink<P> {
    /// Packets dropped, in the order of their drops.
    pub dropped: Vec<Dropped<P>>,
    /// How many packets were marked, those counted that some queue before had marked.
    pub marked: u64,
}

impl<P> Default for Sink<P> {
    fn default() -> Self {
        Sink {
            dropped: Vec::new(),
            marked: 0,
        }
    }
}

impl<P: Packet> Sink<P> {
    fn drop(&mut self, at: Time, reason: DropReason, held: Held<P>) {
        self.dropped.push(Dropped {
            at,
            enqueued: held.enqueued,
            reason,
            packet: held.packet,
        });
    }

    /// Marks a packet that understands it; whether it does.
    fn mark(&mut self, held: &mut Held<P>) -> bool {
        let marked = packet::mark(&mut held.packet);
        self.marked += u64::from(marked);
        marked
    }
}

/// A packet in a queue.
#[derive(Debug)]
pub struct Held<P> {
    /// It arrived.
    pub enqueued: Time,
    /// Its size.
    pub size_bytes: u32,
    /// The packet.
    pub packet: P,
}

/// A queue. Times given must not go backwards, and [`Queue::dequeue`] must be called at the very
/// time that a packet's service starts: some disciplines decide then.
#[derive(Debug)]
pub struct Queue<P>(Kind<P>);

#[derive(Debug)]
enum Kind<P> {
    DropTail(DropTail<P>),
    Step(Step<P>),
}

impl<P: Packet> Queue<P> {
    /// An empty queue. What it draws, if it draws, follows from `seed`.
    pub fn new(config: &QueueConfig, seed: u64) -> Self {
        let _ = seed;
        Queue(match config {
            QueueConfig::DropTail(limit) => Kind::DropTail(DropTail::new(*limit)),
            QueueConfig::Step(config) => Kind::Step(Step::new(*config)),
        })
    }

    /// A packet arrives. It, or another, is dropped if the discipline says so.
    pub fn enqueue(&mut self, now: Time, packet: P, sink: &mut Sink<P>) {
        let held = Held {
            enqueued: now,
            size_bytes: packet.size_bytes(),
            packet,
        };
        match &mut self.0 {
            Kind::DropTail(queue) => queue.enqueue(now, held, sink),
            Kind::Step(queue) => queue.enqueue(now, held, sink),
        }
    }

    /// Takes the packet that is served next; may drop others on the way to it.
    pub fn dequeue(&mut self, now: Time, sink: &mut Sink<P>) -> Option<Held<P>> {
        let _ = (now, sink);
        match &mut self.0 {
            Kind::DropTail(queue) => queue.fifo.pop(),
            Kind::Step(queue) => queue.fifo.pop(),
        }
    }

    /// Packets that wait.
    pub fn len(&self) -> usize {
        match &self.0 {
            Kind::DropTail(queue) => queue.fifo.len(),
            Kind::Step(queue) => queue.fifo.len(),
        }
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> u64 {
        match &self.0 {
            Kind::DropTail(queue) => queue.fifo.bytes(),
            Kind::Step(queue) => queue.fifo.bytes(),
        }
    }
}
