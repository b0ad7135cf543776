//! The queue of a bundle in this process: its scheduler, its limits, and the pacer that obeys the bundle's rate.

use std::time::Duration;

use fairwater_net::{Held, Queue, Sink, Time};

use super::pacer::Pacer;
use super::{BundlePacket, SendBundleConfig};

/// Fewest bytes that the queue may hold, whatever the rate: ten packets.
const MIN_QUEUE_BYTES: u64 = 15_000;

/// Time in which the rate that the queue's time is reckoned with falls to 1/e after the bundle's own rate has fallen. The
/// rate falls for a moment when feedback is late: a limit that followed at once would drop most of the queue then, and
/// all flows would wait for their retransmission timeouts.
const LIMIT_MEMORY: Duration = Duration::from_secs(1);

/// The queue of one bundle.
pub(super) struct BundleQueue<P> {
    queue: Queue<P>,
    /// Most bytes, and most time at the present rate.
    limit: (u64, Duration),
    /// Bytes/s that the limit in time is reckoned with, and since when; `None` while nothing is limited.
    limit_rate: Option<(f64, Time)>,
    pacer: Pacer,
}

impl<P: BundlePacket> BundleQueue<P> {
    pub(super) fn new(config: &SendBundleConfig) -> Self {
        Self {
            queue: Queue::new(&config.queue, config.seed),
            limit: (config.queue_bytes, config.queue_time),
            limit_rate: None,
            pacer: Pacer::new(),
        }
    }

    /// Takes the limits of a configuration.
    pub(super) const fn set_limit(&mut self, config: &SendBundleConfig) {
        self.limit = (config.queue_bytes, config.queue_time);
    }

    /// From `now` on, this rate, bytes/s; `None` does not limit.
    pub(super) fn set_rate(&mut self, now: Time, rate: Option<u64>) {
        self.limit_rate = rate.map(|rate| {
            let rate = rate as f64;
            let faded = self.limit_rate.map_or(0.0, |(before, at)| {
                let passed = now.since(at).as_secs_f64() / LIMIT_MEMORY.as_secs_f64();
                before * (-passed).exp()
            });
            (rate.max(faded), now)
        });
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

    /// Whether the queue holds more than it may: its limit in bytes, and in time at the rate of late.
    pub(super) fn is_too_long(&self) -> bool {
        let (bytes, time) = self.limit;
        let by_time = self
            .limit_rate
            .map_or(u64::MAX, |(rate, _)| (rate * time.as_secs_f64()) as u64);
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

#[cfg(test)]
mod tests {
    use fairwater_net::Packet;

    use super::*;
    use crate::{ChannelConfig, Segment};

    struct Bytes(u32);

    impl Packet for Bytes {
        fn size_bytes(&self) -> u32 {
            self.0
        }
    }

    impl BundlePacket for Bytes {
        fn for_each_segment(&self, each: &mut dyn FnMut(&Segment)) {
            each(&Segment {
                ip_bytes: self.0,
                identity: None,
            });
        }
    }

    fn queue() -> BundleQueue<Bytes> {
        let channel = ChannelConfig {
            bundle: 1,
            secret: crate::BundleSecret([1; 32]),
            instance: 1,
        };
        let receivebox = std::net::SocketAddr::from(([192, 0, 2, 1], 1));
        BundleQueue::new(&SendBundleConfig::new(channel, receivebox, Vec::new()))
    }

    fn fill(queue: &mut BundleQueue<Bytes>, now: Time, packets: usize) -> usize {
        let mut sink = Sink::default();
        for _ in 0..packets {
            queue.enqueue(now, Bytes(1_500), &mut sink);
            while queue.is_too_long() && queue.evict(now, &mut sink) {}
        }
        sink.dropped.len()
    }

    /// A rate that falls for a moment drops nothing; one that stays low shortens the queue to its time.
    #[test]
    fn the_limit_follows_the_rate_slowly_down_and_at_once_up() {
        let mut queue = queue();
        let at = Time::from_millis;
        queue.set_rate(at(0), Some(6_000_000));
        assert_eq!(fill(&mut queue, at(0), 900), 0);
        for (time, rate) in [(10, 125_000), (20, 125_000), (30, 125_000), (40, 6_000_000)] {
            queue.set_rate(at(time), Some(rate));
            assert_eq!(fill(&mut queue, at(time), 1), 0, "{time}");
        }
        let dropped = fill(&mut queue, at(40), 200);
        assert_eq!(dropped, 104, "250 ms at 6 MB/s are 1,000 packets");
        for time in 5..1_000 {
            queue.set_rate(at(time * 10), Some(600_000));
            fill(&mut queue, at(time * 10), 1);
        }
        assert_eq!(queue.held().1, 150_000);
    }
}
