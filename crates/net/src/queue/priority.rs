//! Strict priority: a lower band is served before any higher one, as by tc-prio(8).

use super::discipline::{
    CLASSES_PARAMETER, DefaultValue, Field, MAX_CLASSES, Parameter, QueueContext, QueueError,
};
use super::{Configuration, DropReason, Held, Limit, Queue, QueueConfig, Scheduler, Sink};
use crate::{Packet, Time};

/// The configuration of strict priority is the list of its classes' queues.
impl Configuration for Vec<QueueConfig> {
    const NAME: &'static str = "priority";
    const SUMMARY: &'static str = "Strict priority: a class is served when those before are empty";
    const PARAMETERS: &'static [Parameter<Self>] = &[Parameter {
        name: CLASSES_PARAMETER,
        default: DefaultValue::Required,
        help: "a discipline for each class, the first served first, at most 256",
        field: |config| Field::Classes(config),
    }];

    fn usual(_context: &QueueContext) -> Self {
        Vec::new()
    }

    /// Each class holds the link's whole buffer, and was made with it.
    fn set_limit(&mut self, _limit: Limit) {}

    fn check(&self) -> Result<(), QueueError> {
        if !(1..=MAX_CLASSES).contains(&self.len()) {
            return Err(QueueError::Classes(self.len()));
        }
        self.iter().try_for_each(QueueConfig::check)
    }

    fn marks(&self) -> bool {
        self.iter().any(QueueConfig::marks)
    }
}

/// A queue for each class of packets, the first served first.
#[derive(Debug)]
pub(super) struct Priority<P> {
    bands: Vec<Queue<P>>,
}

impl<P: Packet> Scheduler<P> for Priority<P> {
    type Config = Vec<QueueConfig>;

    fn new(bands: &Vec<QueueConfig>, seed: u64) -> Self {
        let seeds = (0..).map(|band| seed.wrapping_add(band));
        Priority {
            bands: bands
                .iter()
                .zip(seeds)
                .map(|(config, seed)| Queue::new(config, seed))
                .collect(),
        }
    }

    fn enqueue(&mut self, now: Time, held: Held<P>, sink: &mut Sink<P>) {
        let last = self.bands.len().saturating_sub(1);
        match self
            .bands
            .get_mut(usize::from(held.packet.priority()).min(last))
        {
            Some(band) => band.put(now, held, sink),
            None => sink.drop(now, DropReason::QueueFull, held),
        }
    }

    fn dequeue(&mut self, now: Time, sink: &mut Sink<P>) -> Option<Held<P>> {
        self.bands
            .iter_mut()
            .find_map(|band| band.dequeue(now, sink))
    }

    fn len(&self) -> usize {
        self.bands.iter().map(Queue::len).sum()
    }

    fn bytes(&self) -> u64 {
        self.bands.iter().map(Queue::bytes).sum()
    }
}
