//! Strict priority: a lower class is served before any higher one, as by tc-prio(8).

use super::classes::Classes;
use super::discipline::{MAX_CLASSES, Parameter, QueueContext, QueueError};
use super::field::Field;
use super::{Configuration, Held, Limit, QueueConfig, Scheduler, Sink};
use crate::{Packet, Time};

/// Strict priority.
#[derive(Debug, Clone, PartialEq)]
pub struct PriorityConfig {
    /// A discipline for each [`Packet::priority`], the first served first; the last is for all that
    /// are greater, too. With none all packets are dropped.
    pub classes: Vec<QueueConfig>,
    /// What all classes hold together, whatever each of them may hold. What is too much is taken
    /// from the last class that holds packets, so that no class loses packets to one served later.
    pub limit: Limit,
}

impl Configuration for PriorityConfig {
    const NAME: &'static str = "priority";
    const SUMMARY: &'static str = "Strict priority: a class is served when those before are empty";
    const PARAMETERS: &'static [Parameter<Self>] = &[Parameter::classes(
        "a discipline for each class, the first served first, at most 256",
        |config| Field::Classes(&mut config.classes),
    )];

    /// Without a buffer, each class holds what its discipline says.
    fn usual(_context: &QueueContext) -> Self {
        PriorityConfig {
            classes: Vec::new(),
            limit: Limit::Unlimited,
        }
    }

    /// Each class was made with the link's whole buffer; together they hold no more.
    fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    fn check(&self) -> Result<(), QueueError> {
        check_classes(Self::NAME, &self.classes, self.limit)
    }

    fn marks(&self) -> bool {
        self.classes.iter().any(QueueConfig::marks)
    }
}

/// Refuses classes that cannot work, of a discipline that has classes.
pub(super) fn check_classes(
    discipline: &'static str,
    classes: &[QueueConfig],
    limit: Limit,
) -> Result<(), QueueError> {
    if !(1..=MAX_CLASSES).contains(&classes.len()) {
        return Err(QueueError::Classes {
            discipline,
            classes: classes.len(),
        });
    }
    super::discipline::refuse_zeros(discipline, &[("buffer", limit.is_zero())])?;
    classes.iter().try_for_each(QueueConfig::check)
}

/// See [`PriorityConfig`].
#[derive(Debug)]
pub(super) struct Priority<P> {
    classes: Classes<P>,
    limit: Limit,
}

impl<P: Packet> Scheduler<P> for Priority<P> {
    type Config = PriorityConfig;

    fn new(config: &PriorityConfig, seed: u64) -> Self {
        Priority {
            classes: Classes::new(&config.classes, seed),
            limit: config.limit,
        }
    }

    fn enqueue(&mut self, now: Time, held: Held<P>, sink: &mut Sink<P>) {
        self.classes.put(now, held, sink);
        while !self.limit.holds(self.classes.len(), self.classes.bytes()) && self.evict(now, sink) {
        }
    }

    fn dequeue(&mut self, now: Time, sink: &mut Sink<P>) -> Option<Held<P>> {
        let classes = 0..self.classes.queues().len();
        classes
            .into_iter()
            .find_map(|class| self.classes.take(class, now, sink))
    }

    fn evict(&mut self, now: Time, sink: &mut Sink<P>) -> bool {
        let queues = self.classes.queues();
        let last = queues.iter().rposition(|queue| !queue.is_empty());
        last.is_some_and(|class| self.classes.evict(class, now, sink))
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
