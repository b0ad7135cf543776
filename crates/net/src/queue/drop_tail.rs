//! First in, first out.

use std::collections::VecDeque;

use super::discipline::{Parameter, QueueContext, QueueError, refuse_zeros};
use super::{Configuration, DropReason, Held, Limit, Scheduler, Sink};
use crate::{Packet, Time};

/// Packets in the order they came: what every discipline keeps them in.
#[derive(Debug)]
pub(super) struct Fifo<P> {
    waiting: VecDeque<Held<P>>,
    bytes: u64,
}

impl<P> Fifo<P> {
    pub(super) const fn new() -> Self {
        Fifo {
            waiting: VecDeque::new(),
            bytes: 0,
        }
    }

    #[inline]
    pub(super) fn push(&mut self, held: Held<P>) {
        self.bytes += u64::from(held.size_bytes);
        self.waiting.push_back(held);
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Held<P>> {
        let held = self.waiting.pop_front()?;
        self.bytes -= u64::from(held.size_bytes);
        Some(held)
    }

    pub(super) fn pop_back(&mut self) -> Option<Held<P>> {
        let held = self.waiting.pop_back()?;
        self.bytes -= u64::from(held.size_bytes);
        Some(held)
    }

    /// Bytes of the packet at the head; 0 of none.
    pub(super) fn head_bytes(&self) -> u32 {
        self.waiting.front().map_or(0, |held| held.size_bytes)
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a packet of `size_bytes` still fits.
    #[inline]
    pub(super) fn has_room(&self, limit: Limit, size_bytes: u32) -> bool {
        limit.holds(self.waiting.len() + 1, self.bytes + u64::from(size_bytes))
    }
}

/// The configuration of drop-tail is its limit.
impl Configuration for Limit {
    const NAME: &'static str = "droptail";
    const SUMMARY: &'static str = "First in, first out; a packet that does not fit is dropped";
    const PARAMETERS: &'static [Parameter<Self>] = &[];

    fn usual(context: &QueueContext) -> Self {
        context.buffer_or_bdp()
    }

    fn set_limit(&mut self, limit: Limit) {
        *self = limit;
    }

    fn check(&self) -> Result<(), QueueError> {
        refuse_zeros(Self::NAME, &[("buffer", self.is_zero())])
    }
}

/// First in, first out; what does not fit is dropped on arrival.
#[derive(Debug)]
pub(super) struct DropTail<P> {
    limit: Limit,
    fifo: Fifo<P>,
}

impl<P: Packet> Scheduler<P> for DropTail<P> {
    type Config = Limit;

    fn new(limit: &Limit, _seed: u64) -> Self {
        DropTail {
            limit: *limit,
            fifo: Fifo::new(),
        }
    }

    #[inline]
    fn enqueue(&mut self, now: Time, held: Held<P>, sink: &mut Sink<P>) {
        if self.fifo.has_room(self.limit, held.size_bytes) {
            self.fifo.push(held);
        } else {
            sink.drop(now, DropReason::QueueFull, held);
        }
    }

    #[inline]
    fn dequeue(&mut self, _now: Time, _sink: &mut Sink<P>) -> Option<Held<P>> {
        self.fifo.pop()
    }

    fn evict(&mut self, now: Time, sink: &mut Sink<P>) -> bool {
        sink.evict(now, self.fifo.pop_back())
    }

    fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    #[inline]
    fn len(&self) -> usize {
        self.fifo.len()
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }
}
