//! Strict priority: a lower band is served before any higher one, as by tc-prio(8).

use super::{DropReason, Held, Queue, QueueConfig, Sink};
use crate::{Packet, Time};

/// A queue for each class of packets, the first served first.
#[derive(Debug)]
pub(super) struct Priority<P> {
    bands: Vec<Queue<P>>,
}

impl<P: Packet> Priority<P> {
    pub(super) fn new(bands: &[QueueConfig], seed: u64) -> Self {
        let seeds = (0..).map(|band| seed.wrapping_add(band));
        Priority {
            bands: bands
                .iter()
                .zip(seeds)
                .map(|(config, seed)| Queue::new(config, seed))
                .collect(),
        }
    }

    pub(super) fn enqueue(&mut self, now: Time, held: Held<P>, sink: &mut Sink<P>) {
        let last = self.bands.len().saturating_sub(1);
        match self
            .bands
            .get_mut(usize::from(held.packet.priority()).min(last))
        {
            Some(band) => band.put(now, held, sink),
            None => sink.drop(now, DropReason::QueueFull, held),
        }
    }

    pub(super) fn dequeue(&mut self, now: Time, sink: &mut Sink<P>) -> Option<Held<P>> {
        self.bands
            .iter_mut()
            .find_map(|band| band.dequeue(now, sink))
    }

    pub(super) fn len(&self) -> usize {
        self.bands.iter().map(Queue::len).sum()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bands.iter().map(Queue::bytes).sum()
    }
}
