//! Packets of a test, and queues that hold so many of them.

use fairwater_net::{Dropped, Ecn, Held, Packet, Queue, QueueConfig, Rate, Sink, Time};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) number: usize,
    pub(crate) flow: u64,
    pub(crate) priority: u8,
    pub(crate) size_bytes: u32,
    pub(crate) ecn: Ecn,
}

impl Packet for Probe {
    fn size_bytes(&self) -> u32 {
        self.size_bytes
    }

    fn flow(&self) -> u64 {
        self.flow
    }

    fn priority(&self) -> u8 {
        self.priority
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn mark_ce(&mut self) {
        assert_ne!(self.ecn, Ecn::NotEct, "marked what cannot be marked");
        self.ecn = Ecn::Ce;
    }
}

/// A packet of a flow that does not understand marks.
pub(crate) fn of_flow(flow: u64, size_bytes: u32) -> Probe {
    Probe {
        number: 0,
        flow,
        priority: 0,
        size_bytes,
        ecn: Ecn::NotEct,
    }
}

/// A packet that can be marked.
pub(crate) fn markable(size_bytes: u32) -> Probe {
    Probe {
        ecn: Ecn::Ect0,
        ..of_flow(0, size_bytes)
    }
}

pub(crate) fn rate(bps: u64) -> Rate {
    Rate::from_bps(bps).expect("not zero")
}

/// A queue and what it tells.
pub(crate) struct Bench {
    pub(crate) queue: Queue<Probe>,
    pub(crate) sink: Sink<Probe>,
}

impl Bench {
    pub(crate) fn new(config: QueueConfig) -> Self {
        Bench {
            queue: Queue::new(&config, 1),
            sink: Sink::default(),
        }
    }

    pub(crate) fn put(&mut self, now: Time, packet: Probe) {
        self.queue.enqueue(now, packet, &mut self.sink);
    }

    pub(crate) fn take(&mut self, now: Time) -> Option<Held<Probe>> {
        self.queue.dequeue(now, &mut self.sink)
    }

    pub(crate) fn dropped(&self) -> &[Dropped<Probe>] {
        &self.sink.dropped
    }

    /// What became of a packet put now: whether it was marked, dropped (`None`) or neither.
    pub(crate) fn marks(&mut self, now: Time, packet: Probe) -> Option<bool> {
        let before = (self.sink.dropped.len(), self.sink.marked);
        self.put(now, packet);
        (self.sink.dropped.len() == before.0).then_some(self.sink.marked > before.1)
    }
}
