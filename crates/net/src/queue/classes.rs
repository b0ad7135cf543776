//! Queues by class of packets, for the disciplines that treat classes differently.

use super::discipline::{CLASSES_PARAMETER, DefaultValue, Parameter};
use super::field::Field;
use super::{DropReason, Held, Limit, Queue, QueueConfig, Sink};
use crate::{Packet, Time};

/// The parameter of every discipline that has classes.
impl<C> Parameter<C> {
    pub(super) const fn classes(help: &'static str, field: fn(&mut C) -> Field<'_>) -> Self {
        Parameter {
            name: CLASSES_PARAMETER,
            default: DefaultValue::Required,
            help,
            field,
        }
    }
}

/// A queue for each class, and what all of them hold together.
#[derive(Debug)]
pub(super) struct Classes<P> {
    queues: Vec<Queue<P>>,
    packets: usize,
    bytes: u64,
}

impl<P: Packet> Classes<P> {
    pub(super) fn new(configs: &[QueueConfig], seed: u64) -> Self {
        let seeds = (0..).map(|class| seed.wrapping_add(class));
        let queue = |(config, seed): (&QueueConfig, u64)| Queue::new(config, seed);
        Classes {
            queues: configs.iter().zip(seeds).map(queue).collect(),
            packets: 0,
            bytes: 0,
        }
    }

    /// Puts a packet into the queue of its class; the last queue takes the classes beyond it, too.
    /// The class, and whether its queue was empty; without a queue the packet is dropped.
    pub(super) fn put(
        &mut self,
        now: Time,
        held: Held<P>,
        sink: &mut Sink<P>,
    ) -> Option<(usize, bool)> {
        let Some(last) = self.queues.len().checked_sub(1) else {
            sink.drop(now, DropReason::QueueFull, held);
            return None;
        };
        let class = usize::from(held.packet.priority()).min(last);
        let was_empty = self.queues[class].is_empty();
        self.change(class, |queue| queue.put(now, held, sink));
        Some((class, was_empty))
    }

    /// Takes a packet from the queue of a class; may drop others on the way to it.
    pub(super) fn take(&mut self, class: usize, now: Time, sink: &mut Sink<P>) -> Option<Held<P>> {
        self.change(class, |queue| queue.dequeue(now, sink))
    }

    /// Drops a packet of a class; whether there was one.
    pub(super) fn evict(&mut self, class: usize, now: Time, sink: &mut Sink<P>) -> bool {
        self.change(class, |queue| queue.evict(now, sink))
    }

    /// Sets how much the queue of each class holds at most.
    pub(super) fn set_limits(&mut self, limit: Limit) {
        for queue in &mut self.queues {
            queue.set_limit(limit);
        }
    }

    /// The queues, by class.
    pub(super) fn queues(&self) -> &[Queue<P>] {
        &self.queues
    }

    /// Packets in all queues.
    pub(super) fn len(&self) -> usize {
        self.packets
    }

    /// Bytes in all queues.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn change<R>(&mut self, class: usize, change: impl FnOnce(&mut Queue<P>) -> R) -> R {
        let queue = &mut self.queues[class];
        let (packets, bytes) = (queue.len(), queue.bytes());
        let result = change(queue);
        self.packets = self.packets - packets + queue.len();
        self.bytes = self.bytes - bytes + queue.bytes();
        result
    }
}
