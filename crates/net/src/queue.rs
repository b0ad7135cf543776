//! Queue disciplines.

use std::collections::VecDeque;

/// How much a queue holds. The packet being sent has left the queue and does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// So many packets.
    Packets(u64),
    /// So many bytes of IP packets.
    Bytes(u64),
    /// Everything.
    Unlimited,
}

/// First in, first out; what does not fit is dropped on arrival.
#[derive(Debug)]
pub struct DropTail<T> {
    limit: Limit,
    waiting: VecDeque<(u32, T)>,
    bytes: u64,
}

impl<T> DropTail<T> {
    /// An empty queue.
    pub fn new(limit: Limit) -> Self {
        DropTail {
            limit,
            waiting: VecDeque::new(),
            bytes: 0,
        }
    }

    /// Puts a packet of `size_bytes` at the end.
    ///
    /// # Errors
    /// Gives the packet back when it does not fit.
    pub fn push(&mut self, size_bytes: u32, item: T) -> Result<(), T> {
        let fits = match self.limit {
            Limit::Packets(packets) => (self.waiting.len() as u64) < packets,
            Limit::Bytes(bytes) => self.bytes + u64::from(size_bytes) <= bytes,
            Limit::Unlimited => true,
        };
        if !fits {
            return Err(item);
        }
        self.bytes += u64::from(size_bytes);
        self.waiting.push_back((size_bytes, item));
        Ok(())
    }

    /// The packet at the head and its size in bytes.
    pub fn head(&self) -> Option<(u32, &T)> {
        self.waiting.front().map(|(size, item)| (*size, item))
    }

    /// Takes the packet at the head.
    pub fn pop(&mut self) -> Option<(u32, T)> {
        let (size, item) = self.waiting.pop_front()?;
        self.bytes -= u64::from(size);
        Some((size, item))
    }

    /// Packets that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
