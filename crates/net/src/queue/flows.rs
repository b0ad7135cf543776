//! Queues that flows are hashed to, for the disciplines that are fair between flows.

use std::collections::VecDeque;

use super::discipline::{DefaultValue, Field, Parameter};
use super::drop_tail::Fifo;
use super::{DropReason, Held, Limit, Sink};
use crate::{Packet, Time};

/// Queues, each for the flows whose hash leads there. `S` is a discipline's state of one queue.
#[derive(Debug)]
pub(super) struct Flows<P, S> {
    buckets: Vec<Bucket<P, S>>,
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

/// The buckets that take turns, the next in front.
pub(super) type Turns = VecDeque<Index>;

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
        fifo.len() == 1
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
        self.packets -= before.0 - bucket.fifo.len();
        self.bytes -= before.1 - bucket.fifo.bytes();
        result
    }

    pub(super) fn bucket(&mut self, index: Index) -> &mut Bucket<P, S> {
        &mut self.buckets[index as usize]
    }

    /// Takes packets from the end of the longest of the active buckets until the limit holds the
    /// others ("buffer stealing"). Whether the one in front lost its turn with its last packet.
    pub(super) fn steal(
        &mut self,
        limit: Limit,
        active: &mut Turns,
        now: Time,
        sink: &mut Sink<P>,
    ) -> bool {
        let front = active.front().copied();
        while !limit.holds(self.packets, self.bytes) {
            let Some(longest) = self.longest(active.iter()) else {
                break;
            };
            if let Some(held) = self.pop_back(longest) {
                sink.drop(now, DropReason::QueueFull, held);
            }
            let bucket = self.bucket(longest);
            if bucket.fifo.len() == 0 {
                bucket.state = S::default();
                active.retain(|index| *index != longest);
            }
        }
        active.front().copied() != front
    }

    /// The bucket with the most bytes among `candidates`, and of such with the most packets; the
    /// first among equals. Packets without bytes are packets too.
    pub(super) fn longest<'a>(&self, candidates: impl Iterator<Item = &'a Index>) -> Option<Index> {
        let size = |index: &&Index| {
            let fifo = &self.buckets[**index as usize].fifo;
            (fifo.bytes(), fifo.len())
        };
        candidates
            .reduce(|best, index| {
                if size(&index) > size(&best) {
                    index
                } else {
                    best
                }
            })
            .copied()
    }

    /// Hashes differently from now on, and takes all packets out, in the order they came.
    pub(super) fn perturb(&mut self, salt: u64) -> Vec<Held<P>> {
        self.salt = salt;
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
