//! The queue of a bundle in this process: its scheduler, its limits, and the pacer that obeys the bundle's rate.

use std::time::Duration;

use fairwater_net::{Held, Queue, Sink, Time};

use super::pacer::Pacer;
use super::{BundlePacket, SendBundleConfig};

/// Fewest bytes that the queue may hold, whatever the rate: ten packets.
const MIN_QUEUE_BYTES: u64 = 15_000;

/// The queue of one bundle.
pub(super) struct BundleQueue<P> {
    queue: Queue<P>,
    /// Most bytes, and most time at the present rate.
    limit: (u64, Duration),
    pacer: Pacer,
}

impl<P: BundlePacket> BundleQueue<P> {
    pub(super) fn new(config: &SendBundleConfig) -> Self {
        Self {
            queue: Queue::new(&config.queue, config.seed),
            limit: (config.queue_bytes, config.queue_time),
            pacer: Pacer::new(),
        }
    }

    /// Takes the limits of a configuration.
    pub(super) const fn set_limit(&mut self, config: &SendBundleConfig) {
        self.limit = (config.queue_bytes, config.queue_time);
    }

    /// From `now` on, this rate, bytes/s; `None` does not limit.
    pub(super) fn set_rate(&mut self, now: Time, rate: Option<u64>) {
        if rate != self.pacer.rate() {
            self.pacer.set_rate(now, rate);
        }
    }

    /// Packets and bytes that wait.
    pub(super) fn held(&self) -> (usize, u64) {
        (self.queue.len(), self.queue.bytes())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn enqueue(&mut self, now: Time, packet: P, sink: &mut Sink<P>) {
        self.queue.enqueue(now, packet, sink);
    }

    /// Whether the queue holds more than it may: its limit in bytes, and in time at the present rate.
    pub(super) fn is_too_long(&self) -> bool {
        let (bytes, time) = self.limit;
        let by_time = self
            .pacer
            .rate()
            .map_or(u64::MAX, |rate| (rate as f64 * time.as_secs_f64()) as u64);
        let limit = bytes.min(by_time.max(MIN_QUEUE_BYTES));
        // A super-packet may exceed the limit alone.
        self.queue.len() > 1 && self.queue.bytes() > limit
    }

    /// Drops the packet that the scheduler chooses; whether there was one.
    pub(super) fn evict(&mut self, now: Time, sink: &mut Sink<P>) -> bool {
        self.queue.evict(now, sink)
    }

    /// When the next packet may leave; `None` if none waits.
    pub(super) fn ready_at(&mut self, now: Time) -> Option<Time> {
        (!self.queue.is_empty()).then(|| self.pacer.ready_at(now))
    }

    /// Takes the next packet out, which [`BundleQueue::ready_at`] allowed.
    pub(super) fn dequeue(&mut self, now: Time, sink: &mut Sink<P>) -> Option<P> {
        let Held { packet, .. } = self.queue.dequeue(now, sink)?;
        Some(packet)
    }

    /// So many bytes of IP packets leave.
    pub(super) fn spend(&mut self, bytes: u32) {
        self.pacer.spend(u64::from(bytes));
    }
}
