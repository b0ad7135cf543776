//! Deficit round robin: Shreedhar & Varghese, "Efficient Fair Queuing Using Deficit Round-Robin",
//! 1996.

use super::flows::{Flows, Turns};
use super::{Held, Limit, Sink};
use crate::{Packet, Time};

/// Deficit round robin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrrConfig {
    /// What all queues hold together.
    pub limit: Limit,
    /// How many queues flows are hashed to, from 1 to 65536.
    pub flows: u32,
    /// Bytes that each queue may send more in each round; what it did not use for want of a packet
    /// small enough it keeps.
    pub quantum_bytes: u32,
}

impl Default for DrrConfig {
    /// A quantum of one packet, which makes each service O(1) (Shreedhar & Varghese §IV); queues
    /// and limit are those of [`super::FqCoDelConfig`].
    fn default() -> Self {
        DrrConfig {
            limit: Limit::Packets(10_240),
            flows: 1024,
            quantum_bytes: 1500,
        }
    }
}

/// See [`DrrConfig`]. The state of a queue is its deficit counter, bytes.
#[derive(Debug)]
pub(super) struct Drr<P> {
    config: DrrConfig,
    flows: Flows<P, u64>,
    active: Turns,
    /// Whether the queue in front has got its quantum of this round.
    in_turn: bool,
}

impl<P: Packet> Drr<P> {
    pub(super) fn new(config: DrrConfig, salt: u64) -> Self {
        Drr {
            config,
            flows: Flows::new(config.flows, salt),
            active: Turns::new(),
            in_turn: false,
        }
    }

    pub(super) fn enqueue(&mut self, now: Time, held: Held<P>, sink: &mut Sink<P>) {
        let index = self.flows.index_of(&held.packet);
        if self.flows.push(index, held) {
            self.active.push_back(index);
        }
        let limit = self.config.limit;
        if self.flows.steal(limit, &mut self.active, now, sink) {
            self.in_turn = false;
        }
    }

    pub(super) fn dequeue(&mut self) -> Option<Held<P>> {
        loop {
            let index = *self.active.front()?;
            let bucket = self.flows.bucket(index);
            if !self.in_turn {
                bucket.state += u64::from(self.config.quantum_bytes.max(1));
                self.in_turn = true;
            }
            let size = u64::from(bucket.fifo.head_bytes());
            if size > bucket.state {
                self.active.rotate_left(1);
                self.in_turn = false;
                continue;
            }
            bucket.state -= size;
            let held = self.flows.pop(index);
            let bucket = self.flows.bucket(index);
            if bucket.fifo.len() == 0 {
                bucket.state = 0;
                self.active.pop_front();
                self.in_turn = false;
            }
            return held;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.flows.bytes()
    }
}
