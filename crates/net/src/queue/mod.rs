//! Queue disciplines: one file each. What packets they drop or mark, and when, is decided by the
//! packets and the times alone; every chance is drawn from a seed.

mod codel;
mod drop_tail;
mod drr;
mod flows;
mod fq_codel;
mod pie;
mod priority;
mod red;
mod sfq;
mod step;

pub use codel::CoDelConfig;
pub use drr::DrrConfig;
pub use fq_codel::FqCoDelConfig;
pub use pie::PieConfig;
pub use red::RedConfig;
pub use sfq::SfqConfig;
pub use step::StepConfig;

use codel::CoDel;
use drop_tail::DropTail;
use drr::Drr;
use fq_codel::FqCoDel;
use pie::Pie;
use priority::Priority;
use red::Red;
use sfq::Sfq;
use step::Step;

use crate::probability::Draws;
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
    #[inline]
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
    /// Random early detection.
    Red(RedConfig),
    /// Controlled delay.
    CoDel(CoDelConfig),
    /// Fair queueing with controlled delay.
    FqCoDel(FqCoDelConfig),
    /// Stochastic fairness queueing.
    Sfq(SfqConfig),
    /// Deficit round robin.
    Drr(DrrConfig),
    /// Strict priority: a queue for each [`Packet::priority`], the first served first; the last is
    /// for all that are greater, too. With no queue all packets are dropped.
    Priority(Vec<QueueConfig>),
    /// Proportional integral controller, enhanced.
    Pie(PieConfig),
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
    Red(Box<Red<P>>),
    CoDel(CoDel<P>),
    FqCoDel(Box<FqCoDel<P>>),
    Sfq(Box<Sfq<P>>),
    Drr(Box<Drr<P>>),
    Priority(Priority<P>),
    Pie(Box<Pie<P>>),
}

/// The stream of a seed that queues draw from.
const STREAM: u64 = 2;

impl<P: Packet> Queue<P> {
    /// An empty queue. What it draws, if it draws, and how it hashes flows follow from `seed`.
    pub fn new(config: &QueueConfig, seed: u64) -> Self {
        let draws = || Draws::new(seed, STREAM);
        Queue(match config {
            QueueConfig::DropTail(limit) => Kind::DropTail(DropTail::new(*limit)),
            QueueConfig::Step(config) => Kind::Step(Step::new(*config)),
            QueueConfig::Red(config) => Kind::Red(Box::new(Red::new(*config, draws()))),
            QueueConfig::CoDel(config) => Kind::CoDel(CoDel::new(*config)),
            QueueConfig::FqCoDel(config) => {
                let salt = draws().up_to(u64::MAX);
                Kind::FqCoDel(Box::new(FqCoDel::new(*config, salt)))
            }
            QueueConfig::Sfq(config) => Kind::Sfq(Box::new(Sfq::new(*config, draws()))),
            QueueConfig::Drr(config) => {
                let salt = draws().up_to(u64::MAX);
                Kind::Drr(Box::new(Drr::new(*config, salt)))
            }
            QueueConfig::Priority(bands) => Kind::Priority(Priority::new(bands, seed)),
            QueueConfig::Pie(config) => Kind::Pie(Box::new(Pie::new(*config, draws()))),
        })
    }

    /// A packet arrives. It, or another, is dropped if the discipline says so.
    #[inline]
    pub fn enqueue(&mut self, now: Time, packet: P, sink: &mut Sink<P>) {
        let held = Held {
            enqueued: now,
            size_bytes: packet.size_bytes(),
            packet,
        };
        self.put(now, held, sink);
    }

    #[inline]
    fn put(&mut self, now: Time, held: Held<P>, sink: &mut Sink<P>) {
        match &mut self.0 {
            Kind::DropTail(queue) => queue.enqueue(now, held, sink),
            Kind::Step(queue) => queue.enqueue(now, held, sink),
            Kind::Red(queue) => queue.enqueue(now, held, sink),
            Kind::CoDel(queue) => queue.enqueue(now, held, sink),
            Kind::FqCoDel(queue) => queue.enqueue(now, held, sink),
            Kind::Sfq(queue) => queue.enqueue(now, held, sink),
            Kind::Drr(queue) => queue.enqueue(now, held, sink),
            Kind::Priority(queue) => queue.enqueue(now, held, sink),
            Kind::Pie(queue) => queue.enqueue(now, held, sink),
        }
    }

    /// Takes the packet that is served next; may drop others on the way to it.
    #[inline]
    pub fn dequeue(&mut self, now: Time, sink: &mut Sink<P>) -> Option<Held<P>> {
        match &mut self.0 {
            Kind::DropTail(queue) => queue.fifo.pop(),
            Kind::Step(queue) => queue.fifo.pop(),
            Kind::Red(queue) => queue.dequeue(now),
            Kind::CoDel(queue) => queue.dequeue(now, sink),
            Kind::FqCoDel(queue) => queue.dequeue(now, sink),
            Kind::Sfq(queue) => queue.dequeue(),
            Kind::Drr(queue) => queue.dequeue(),
            Kind::Priority(queue) => queue.dequeue(now, sink),
            Kind::Pie(queue) => queue.dequeue(now),
        }
    }

    /// Packets that wait.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.0 {
            Kind::DropTail(queue) => queue.fifo.len(),
            Kind::Step(queue) => queue.fifo.len(),
            Kind::Red(queue) => queue.fifo.len(),
            Kind::CoDel(queue) => queue.fifo.len(),
            Kind::FqCoDel(queue) => queue.len(),
            Kind::Sfq(queue) => queue.len(),
            Kind::Drr(queue) => queue.len(),
            Kind::Priority(queue) => queue.len(),
            Kind::Pie(queue) => queue.fifo.len(),
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
            Kind::Red(queue) => queue.fifo.bytes(),
            Kind::CoDel(queue) => queue.fifo.bytes(),
            Kind::FqCoDel(queue) => queue.bytes(),
            Kind::Sfq(queue) => queue.bytes(),
            Kind::Drr(queue) => queue.bytes(),
            Kind::Priority(queue) => queue.bytes(),
            Kind::Pie(queue) => queue.fifo.bytes(),
        }
    }
}
