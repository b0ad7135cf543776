//! Queue disciplines: one file each. Which packets a discipline drops or marks, and when, follows
//! from the packets and the times alone; every chance is drawn from a seed.
//!
//! A new discipline is a file here and a line in the list `disciplines!`: see `docs/queues.md`.

mod classes;
mod codel;
mod discipline;
mod drop_tail;
mod drr;
mod field;
mod flows;
mod fq_codel;
mod longest;
mod pie;
mod priority;
mod red;
mod sfq;
mod step;
mod turns;
mod wdrr;

pub use codel::CoDelConfig;
pub use drr::DrrConfig;
pub use fq_codel::FqCoDelConfig;
pub use longest::JointLimit;
pub use pie::PieConfig;
pub use priority::PriorityConfig;
pub use red::RedConfig;
pub use sfq::SfqConfig;
pub use step::StepConfig;
pub use wdrr::{MAX_WEIGHT, WdrrConfig};

pub use discipline::{
    Discipline, MAX_CLASSES, ParameterDescription, QueueContext, QueueError, QueueSpec,
    QueueSpecError,
};

use codel::CoDel;
use discipline::{Configuration, Variant};
use drop_tail::DropTail;
use drr::Drr;
use fq_codel::FqCoDel;
use pie::Pie;
use priority::Priority;
use red::Red;
use sfq::Sfq;
use step::Step;
use wdrr::Wdrr;

use crate::probability::Draws;
use crate::{Packet, Time, packet};

/// How much a queue holds. The packet being sent has left the queue and does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// A number of packets.
    Packets(u64),
    /// A number of bytes of IP packets.
    Bytes(u64),
    /// No limit.
    Unlimited,
}

impl Limit {
    /// Whether this many packets and bytes are within the limit.
    #[inline]
    fn holds(self, packets: usize, bytes: u64) -> bool {
        match self {
            Limit::Packets(limit) => packets as u64 <= limit,
            Limit::Bytes(limit) => bytes <= limit,
            Limit::Unlimited => true,
        }
    }

    /// Whether nothing is within the limit.
    pub fn is_zero(self) -> bool {
        matches!(self, Limit::Packets(0) | Limit::Bytes(0))
    }
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

    /// Drops a packet, if there is one, since the queue is full; whether there was one.
    fn evict(&mut self, now: Time, held: Option<Held<P>>) -> bool {
        let is_some = held.is_some();
        if let Some(held) = held {
            self.drop(now, DropReason::QueueFull, held);
        }
        is_some
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

/// The stream of a seed that queues draw from.
const STREAM: u64 = 2;

/// What a queue draws, if it draws, and how it hashes flows.
fn draws(seed: u64) -> Draws {
    Draws::new(seed, STREAM)
}

/// A discipline at work.
trait Scheduler<P: Packet> {
    /// The discipline's configuration.
    type Config;

    /// An empty queue.
    fn new(config: &Self::Config, seed: u64) -> Self;

    /// A packet arrives. The discipline drops it, or another, as it sees fit.
    fn enqueue(&mut self, now: Time, held: Held<P>, sink: &mut Sink<P>);

    /// Takes the packet that is served next; may drop others on the way to it.
    fn dequeue(&mut self, now: Time, sink: &mut Sink<P>) -> Option<Held<P>>;

    /// Drops the packet that is missed least ([`Queue::evict`]); whether there was one.
    fn evict(&mut self, now: Time, sink: &mut Sink<P>) -> bool;

    /// See [`Queue::set_limit`].
    fn set_limit(&mut self, limit: Limit);

    /// Packets that wait.
    fn len(&self) -> usize;

    /// Bytes that wait.
    fn bytes(&self) -> u64;
}

/// Disciplines with large states are boxed, so that a drop-tail queue stays small.
impl<P: Packet, S: Scheduler<P>> Scheduler<P> for Box<S> {
    type Config = S::Config;

    fn new(config: &Self::Config, seed: u64) -> Self {
        Box::new(S::new(config, seed))
    }

    #[inline]
    fn enqueue(&mut self, now: Time, held: Held<P>, sink: &mut Sink<P>) {
        S::enqueue(self, now, held, sink);
    }

    #[inline]
    fn dequeue(&mut self, now: Time, sink: &mut Sink<P>) -> Option<Held<P>> {
        S::dequeue(self, now, sink)
    }

    fn evict(&mut self, now: Time, sink: &mut Sink<P>) -> bool {
        S::evict(self, now, sink)
    }

    fn set_limit(&mut self, limit: Limit) {
        S::set_limit(self, limit);
    }

    #[inline]
    fn len(&self) -> usize {
        S::len(self)
    }

    #[inline]
    fn bytes(&self) -> u64 {
        S::bytes(self)
    }
}

/// Makes [`QueueConfig`], the dispatch of [`Queue`] and the list of [`Discipline::all`] from one
/// list of disciplines.
macro_rules! disciplines {
    ($($(#[$doc:meta])* $name:ident($config:ty) => $queue:ty;)*) => {
        /// A queue discipline and its parameters.
        #[derive(Debug, Clone, PartialEq)]
        pub enum QueueConfig {
            $($(#[$doc])* $name($config),)*
        }

        #[derive(Debug)]
        enum Kind<P> {
            $($name($queue),)*
        }

        /// See [`Discipline::all`].
        const DISCIPLINES: &[Discipline] = &[$(Discipline::of::<$config>(),)*];

        $(impl Variant for $config {
            fn into_queue_config(self) -> QueueConfig {
                QueueConfig::$name(self)
            }

            fn of(config: &mut QueueConfig) -> Option<&mut Self> {
                match config {
                    QueueConfig::$name(config) => Some(config),
                    _ => None,
                }
            }
        })*

        impl QueueConfig {
            /// Refuses values that the discipline cannot work with, such as a limit of nothing.
            ///
            /// # Errors
            /// [`QueueError`] with the first such value.
            pub fn check(&self) -> Result<(), QueueError> {
                match self {
                    $(QueueConfig::$name(config) => config.check(),)*
                }
            }

            /// Whether the queue marks ECN-capable packets (CE), so that senders profit from ECN.
            pub fn marks(&self) -> bool {
                match self {
                    $(QueueConfig::$name(config) => config.marks(),)*
                }
            }
        }

        impl<P: Packet> Queue<P> {
            /// An empty queue. What it draws, if it draws, and how it hashes flows follow from
            /// `seed`.
            pub fn new(config: &QueueConfig, seed: u64) -> Self {
                Queue(match config {
                    $(QueueConfig::$name(config) => {
                        Kind::$name(<$queue as Scheduler<P>>::new(config, seed))
                    })*
                })
            }

            #[inline]
            fn put(&mut self, now: Time, held: Held<P>, sink: &mut Sink<P>) {
                match &mut self.0 {
                    $(Kind::$name(queue) => queue.enqueue(now, held, sink),)*
                }
            }

            /// Takes the packet that is served next; may drop others on the way to it.
            #[inline]
            pub fn dequeue(&mut self, now: Time, sink: &mut Sink<P>) -> Option<Held<P>> {
                match &mut self.0 {
                    $(Kind::$name(queue) => queue.dequeue(now, sink),)*
                }
            }

            /// Drops one packet, as for a queue that is too long: the last of a queue in one
            /// order; of queues by flow, the longest's last (`fq_codel`: its first, RFC 8290
            /// §4.1); of classes, one of that class which the discipline takes from when the
            /// classes hold too much. Whether there was a packet.
            pub fn evict(&mut self, now: Time, sink: &mut Sink<P>) -> bool {
                match &mut self.0 {
                    $(Kind::$name(queue) => queue.evict(now, sink),)*
                }
            }

            /// Sets how much the queue holds; of classes, all together and each of them. What
            /// waits beyond a lower limit stays until the next packet arrives, which the queue
            /// then treats as any packet that does not fit.
            pub fn set_limit(&mut self, limit: Limit) {
                match &mut self.0 {
                    $(Kind::$name(queue) => queue.set_limit(limit),)*
                }
            }

            /// Packets that wait.
            #[inline]
            pub fn len(&self) -> usize {
                match &self.0 {
                    $(Kind::$name(queue) => queue.len(),)*
                }
            }

            /// Bytes that wait.
            pub fn bytes(&self) -> u64 {
                match &self.0 {
                    $(Kind::$name(queue) => queue.bytes(),)*
                }
            }
        }
    };
}

disciplines! {
    /// First in, first out; a packet that does not fit is dropped on arrival.
    DropTail(Limit) => DropTail<P>;
    /// Drop-tail that marks above a threshold.
    Step(StepConfig) => Step<P>;
    /// Random early detection.
    Red(RedConfig) => Box<Red<P>>;
    /// Controlled delay.
    CoDel(CoDelConfig) => CoDel<P>;
    /// Fair queueing with controlled delay.
    FqCoDel(FqCoDelConfig) => Box<FqCoDel<P>>;
    /// Stochastic fairness queueing.
    Sfq(SfqConfig) => Box<Sfq<P>>;
    /// Deficit round robin.
    Drr(DrrConfig) => Box<Drr<P>>;
    /// Proportional integral controller, enhanced.
    Pie(PieConfig) => Box<Pie<P>>;
    /// Strict priority.
    Priority(PriorityConfig) => Priority<P>;
    /// Weighted deficit round robin between classes.
    Wdrr(WdrrConfig) => Box<Wdrr<P>>;
}

impl<P: Packet> Queue<P> {
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

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
