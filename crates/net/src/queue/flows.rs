//! Queues that flows are hashed to, for the disciplines that are fair between flows.

use super::discipline::{DefaultValue, Parameter};
use super::drop_tail::Fifo;
use super::field::Field;
use super::longest::Longest;
use super::turns::Turns;
use super::{Held, Limit, Sink};
use crate::{Packet, Time};

/// Queues, each for the flows whose hash leads there. `S` is a discipline's state of one queue.
#[derive(Debug)]
pub(super) struct Flows<P, S> {
    buckets: Vec<Bucket<P, S>>,
    longest: Longest,
    salt: u64,
    packets: usize,
    bytes: u64,
}

/// One queue.
#[derive(Debug)]
pub(super) struct Bucket<P, S> {
    pub(super) fifo: Fifo<P>,
    pub(super) state: S,
}

/// Most queues: as many as tc-fq_codel(8) allows.
pub(super) const MAX_BUCKETS: u32 = 65_536;

/// The parameters of every discipline that hashes flows to queues.
impl<C> Parameter<C> {
    pub(super) const fn flows(field: fn(&mut C) -> Field<'_>) -> Self {
        Parameter {
            name: "flows",
            default: DefaultValue::Usual,
            help: "queues that flows are hashed to, at most 65536",
            field,
        }
    }

    pub(super) const fn quantum(field: fn(&mut C) -> Field<'_>) -> Self {
        Parameter {
            name: "quantum",
            default: DefaultValue::Usual,
            help: "bytes that a queue may send in its turn",
            field,
        }
    }
}

/// The index of a bucket.
pub(super) type Index = u32;

impl<P: Packet, S: Default> Flows<P, S> {
    /// At least one bucket, and at most [`MAX_BUCKETS`].
    pub(super) fn new(buckets: u32, salt: u64) -> Self {
        let bucket = || Bucket {
            fifo: Fifo::new(),
            state: S::default(),
        };
        Flows {
            buckets: (0..buckets.clamp(1, MAX_BUCKETS))
                .map(|_| bucket())
                .collect(),
            longest: Longest::default(),
            salt,
            packets: 0,
            bytes: 0,
        }
    }

    /// The bucket of a packet's flow.
    pub(super) fn index_of(&self, packet: &P) -> Index {
        let hash = u128::from(scatter(packet.flow() ^ self.salt));
        ((hash * self.buckets.len() as u128) >> 64) as Index
    }

    /// Puts a packet into a bucket; whether that was empty.
    pub(super) fn push(&mut self, index: Index, held: Held<P>) -> bool {
        self.packets += 1;
        self.bytes += u64::from(held.size_bytes);
        let fifo = &mut self.buckets[index as usize].fifo;
        fifo.push(held);
        let (packets, bytes) = (fifo.len(), fifo.bytes());
        self.longest.set(index, packets, bytes);
        packets == 1
    }

    /// Takes the first packet of a bucket.
    pub(super) fn pop(&mut self, index: Index) -> Option<Held<P>> {
        self.change(index, |bucket| bucket.fifo.pop())
    }

    /// Takes the last packet of a bucket.
    fn pop_back(&mut self, index: Index) -> Option<Held<P>> {
        self.change(index, |bucket| bucket.fifo.pop_back())
    }

    /// Takes packets out of a bucket, as `take` does.
    pub(super) fn change<R>(
        &mut self,
        index: Index,
        take: impl FnOnce(&mut Bucket<P, S>) -> R,
    ) -> R {
        let bucket = &mut self.buckets[index as usize];
        let before = (bucket.fifo.len(), bucket.fifo.bytes());
        let result = take(bucket);
        let after = (bucket.fifo.len(), bucket.fifo.bytes());
        self.packets -= before.0 - after.0;
        self.bytes -= before.1 - after.1;
        if after != before {
            self.longest.set(index, after.0, after.1);
        }
        result
    }

    pub(super) fn bucket(&mut self, index: Index) -> &mut Bucket<P, S> {
        &mut self.buckets[index as usize]
    }

    /// Takes packets from the end of the longest of the buckets until the limit holds the others
    /// ("buffer stealing"). Whether the bucket in front lost its turn with its last packet.
    pub(super) fn steal(
        &mut self,
        limit: Limit,
        active: &mut Turns,
        now: Time,
        sink: &mut Sink<P>,
    ) -> bool {
        let front = active.front();
        while !limit.holds(self.packets, self.bytes) && self.evict(active, now, sink) {}
        active.front() != front
    }

    /// Drops the last packet of the longest bucket; whether there was one. The bucket loses its
    /// turn with its last packet.
    pub(super) fn evict(&mut self, active: &mut Turns, now: Time, sink: &mut Sink<P>) -> bool {
        let Some(longest) = self.longest() else {
            return false;
        };
        let held = self.pop_back(longest);
        let dropped = sink.evict(now, held);
        let bucket = self.bucket(longest);
        if bucket.fifo.len() == 0 {
            bucket.state = S::default();
            active.remove(longest);
        }
        dropped
    }

    /// The bucket with the most bytes, and of such with the most packets; the first among equals.
    pub(super) fn longest(&self) -> Option<Index> {
        self.longest.first()
    }

    /// Hashes differently from now on, and takes all packets out, in the order they came.
    pub(super) fn perturb(&mut self, salt: u64) -> Vec<Held<P>> {
        self.salt = salt;
        self.longest.clear();
        (self.packets, self.bytes) = (0, 0);
        let mut all = Vec::new();
        for bucket in &mut self.buckets {
            bucket.state = S::default();
            all.extend(std::iter::from_fn(|| bucket.fifo.pop()));
        }
        all.sort_by_key(|held| held.enqueued);
        all
    }

    /// Packets in all buckets.
    pub(super) fn len(&self) -> usize {
        self.packets
    }

    /// Bytes in all buckets.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Spreads a hash over all 64 bits (Steele, Lea & Flood, "Fast splittable pseudorandom number
/// generators", 2014): what a caller calls a hash may be a small number.
fn scatter(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
