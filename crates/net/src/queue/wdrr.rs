//! Deficit round robin between classes that have weights: Shreedhar & Varghese 1996 §V, with the
//! surplus form of RFC 8290 §4.2, since what a class sends next is its own discipline's choice.

use super::classes::Classes;
use super::discipline::{DefaultValue, Parameter, QueueContext, QueueError, refuse_zeros};
use super::field::Field;
use super::flows::Index;
use super::priority::check_classes;
use super::turns::Turns;
use super::{Configuration, Held, Limit, Queue, QueueConfig, Scheduler, Sink};
use crate::{Packet, Time};

/// Weighted deficit round robin.
#[derive(Debug, Clone, PartialEq)]
pub struct WdrrConfig {
    /// A discipline for each [`Packet::priority`]; the last is for all that are greater, too. With
    /// none all packets are dropped.
    pub classes: Vec<QueueConfig>,
    /// The weight of each class, from 1 to [`MAX_WEIGHT`]; none at all are equal weights. Classes
    /// that always have packets share the bytes served by their weights.
    pub weights: Vec<u32>,
    /// Bytes that a class of weight 1 may send in each round; the packet that exceeds them is sent
    /// whole, and paid for in the next round.
    pub quantum_bytes: u32,
    /// What all classes hold together, whatever each of them may hold. What is too much is taken
    /// from the class that holds the most bytes for its weight.
    pub limit: Limit,
}

/// Greatest weight of a class.
pub const MAX_WEIGHT: u32 = 65_535;

impl Configuration for WdrrConfig {
    const NAME: &'static str = "wdrr";
    const SUMMARY: &'static str = "Deficit round robin between classes, by weight";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter::classes("a discipline for each class, at most 256", |config| {
            Field::Classes(&mut config.classes)
        }),
        Parameter {
            name: "weights",
            default: DefaultValue::Derived("1 for each class"),
            help: "weight of each class, such as `3+1`: its share of the bytes while all classes have packets",
            field: |config| Field::Weights(&mut config.weights),
        },
        Parameter {
            name: "quantum",
            default: DefaultValue::Usual,
            help: "bytes that a class of weight 1 may send in its turn",
            field: |config| Field::PacketBytes(&mut config.quantum_bytes),
        },
    ];

    /// Without a buffer, each class holds what its discipline says.
    fn usual(_context: &QueueContext) -> Self {
        WdrrConfig {
            classes: Vec::new(),
            weights: Vec::new(),
            quantum_bytes: 1500,
            limit: Limit::Unlimited,
        }
    }

    /// Each class was made with the link's whole buffer; together they hold no more.
    fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    fn check(&self) -> Result<(), QueueError> {
        check_classes(Self::NAME, &self.classes, self.limit)?;
        if !self.weights.is_empty() && self.weights.len() != self.classes.len() {
            return Err(QueueError::Weights {
                weights: self.weights.len(),
                classes: self.classes.len(),
            });
        }
        let zeros = [
            ("weights", self.weights.contains(&0)),
            ("quantum", self.quantum_bytes == 0),
        ];
        refuse_zeros(Self::NAME, &zeros)
    }

    fn marks(&self) -> bool {
        self.classes.iter().any(QueueConfig::marks)
    }
}

/// See [`WdrrConfig`].
#[derive(Debug)]
pub(super) struct Wdrr<P> {
    classes: Classes<P>,
    /// By class.
    shares: Vec<Share>,
    active: Turns,
    limit: Limit,
}

/// A class's part of the service.
#[derive(Debug)]
struct Share {
    weight: u32,
    /// Bytes that it may send more in each round.
    quantum: i64,
    /// Bytes that it may still send in this round.
    deficit: i64,
    /// Whether it takes turns: it has packets, or had some at its last turn.
    is_active: bool,
}

impl<P: Packet> Scheduler<P> for Wdrr<P> {
    type Config = WdrrConfig;

    fn new(config: &WdrrConfig, seed: u64) -> Self {
        let weights = config.weights.iter().copied().chain(std::iter::repeat(1));
        let share = |weight: u32| {
            let weight = weight.clamp(1, MAX_WEIGHT);
            let quantum = i64::from(weight) * i64::from(config.quantum_bytes.max(1));
            Share {
                weight,
                quantum,
                deficit: 0,
                is_active: false,
            }
        };
        Wdrr {
            classes: Classes::new(&config.classes, seed),
            shares: weights.take(config.classes.len()).map(share).collect(),
            active: Turns::new(),
            limit: config.limit,
        }
    }

    fn enqueue(&mut self, now: Time, held: Held<P>, sink: &mut Sink<P>) {
        let Some((class, _)) = self.classes.put(now, held, sink) else {
            return;
        };
        let share = &mut self.shares[class];
        if !share.is_active && !self.classes.queues()[class].is_empty() {
            share.is_active = true;
            share.deficit = share.quantum;
            // There are at most 256 classes.
            self.active.push_back(class as Index);
        }
        while !self.limit.holds(self.classes.len(), self.classes.bytes()) && self.evict(now, sink) {
        }
    }

    fn dequeue(&mut self, now: Time, sink: &mut Sink<P>) -> Option<Held<P>> {
        loop {
            let class = self.active.front()? as usize;
            let share = &mut self.shares[class];
            if self.classes.queues()[class].is_empty() {
                share.is_active = false;
                self.active.pop_front();
                continue;
            }
            if share.deficit <= 0 {
                share.deficit += share.quantum;
                self.active.rotate();
                continue;
            }
            if let Some(held) = self.classes.take(class, now, sink) {
                share.deficit -= i64::from(held.size_bytes);
                return Some(held);
            }
        }
    }

    fn evict(&mut self, now: Time, sink: &mut Sink<P>) -> bool {
        let longest = self.longest();
        longest.is_some_and(|class| self.classes.evict(class, now, sink))
    }

    fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
        self.classes.set_limits(limit);
    }

    fn len(&self) -> usize {
        self.classes.len()
    }

    fn bytes(&self) -> u64 {
        self.classes.bytes()
    }
}

impl<P: Packet> Wdrr<P> {
    /// The class with packets that holds the most bytes for its weight; of such the most packets,
    /// and the first among equals.
    fn longest(&self) -> Option<usize> {
        let size = |class: usize, queue: &Queue<P>| (queue.bytes(), queue.len(), class);
        let queues = self.classes.queues().iter().enumerate();
        let held = queues.filter(|(_, queue)| !queue.is_empty());
        held.map(|(class, queue)| size(class, queue))
            .reduce(|best, other| {
                let weight = |class: usize| u128::from(self.shares[class].weight);
                // bytes / weight, compared without rounding.
                let (this, that) = (
                    (u128::from(other.0) * weight(best.2), other.1),
                    (u128::from(best.0) * weight(other.2), best.1),
                );
                if this > that { other } else { best }
            })
            .map(|(.., class)| class)
    }
}
