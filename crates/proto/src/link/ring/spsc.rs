//! A lock-free ring of packets with one producer and one consumer.
//!
//! A packet is one word with its length in bytes and then its bytes, padded to words; the ring
//! wraps between any two words. Each end keeps its own index and what it last saw of the
//! other's, so that in a steady flow neither reads the other's cache line for most packets.
//!
//! # Waking
//!
//! A consumer that is about to wait says so and then looks once more; a producer publishes and
//! then looks whether the consumer waits. With a full fence between the two steps of each, at
//! least one of them sees the other: either the consumer finds the packet, or the producer rings.
//!
//! # Hostile peers
//!
//! Each end believes only its own index. What it reads of the other is checked before it is
//! used, and what cannot be right ends the ring for this end: [`LinkError::Broken`].

use super::memory::AtomicU64;
use super::memory::{Memory, Ordering, WORD, fence};
use crate::link::{LinkError, MAX_PACKET};

/// The words of a packet of that many bytes.
const fn words_of(bytes: usize) -> u64 {
    1 + bytes.div_ceil(WORD) as u64
}

/// The end that writes packets.
#[derive(Debug)]
pub(crate) struct Producer<M> {
    memory: M,
    tail: u64,
    /// What was last seen of the consumer's index.
    head: u64,
    broken: bool,
}

impl<M: Memory> Producer<M> {
    /// The producer of a ring that nothing was written to.
    pub(crate) const fn new(memory: M) -> Self {
        Self {
            memory,
            tail: 0,
            head: 0,
            broken: false,
        }
    }

    /// Writes one packet and says whether the consumer waits and must be woken.
    #[inline]
    pub(crate) fn push(&mut self, packet: &[u8]) -> Result<bool, LinkError> {
        let words = self.memory.words();
        let capacity = words.len() as u64;
        let needed = words_of(packet.len());
        if packet.len() > MAX_PACKET || needed > capacity {
            return Err(LinkError::TooLong);
        }
        if self.broken {
            return Err(LinkError::Broken);
        }
        if capacity - (self.tail - self.head) < needed {
            let head = self.memory.control().head.0.load(Ordering::Acquire);
            // The consumer goes forward, and not beyond what was written.
            if head < self.head || head > self.tail {
                self.broken = true;
                return Err(LinkError::Broken);
            }
            self.head = head;
            if capacity - (self.tail - self.head) < needed {
                return Err(LinkError::WouldBlock);
            }
        }
        slot(words, self.tail).store(packet.len() as u64, Ordering::Relaxed);
        let (before, after) = parts(words, self.tail + 1, packet.len());
        let (first, second) = packet.split_at(before.len().saturating_mul(WORD).min(packet.len()));
        store(before, first);
        store(after, second);
        self.tail += needed;
        let control = self.memory.control();
        control.tail.0.store(self.tail, Ordering::Release);
        fence(Ordering::SeqCst);
        let wake = control.waiting.0.load(Ordering::Relaxed) != 0;
        if wake {
            // Before ringing: a consumer that was woken may say again that it waits.
            control.waiting.0.store(0, Ordering::Relaxed);
        }
        Ok(wake)
    }
}

/// The end that reads packets.
#[derive(Debug)]
pub(crate) struct Consumer<M> {
    memory: M,
    head: u64,
    /// What was last seen of the producer's index.
    tail: u64,
    broken: bool,
}

impl<M: Memory> Consumer<M> {
    /// The consumer of a ring that nothing was read from.
    pub(crate) const fn new(memory: M) -> Self {
        Self {
            memory,
            head: 0,
            tail: 0,
            broken: false,
        }
    }

    /// Reads one packet into `buffer` and returns its length. A packet that does not fit is lost.
    #[inline]
    pub(crate) fn pop(&mut self, buffer: &mut [u8]) -> Result<usize, LinkError> {
        if self.broken {
            return Err(LinkError::Broken);
        }
        if self.head == self.tail {
            self.look()?;
            if self.head == self.tail {
                return Err(LinkError::WouldBlock);
            }
        }
        let words = self.memory.words();
        let length = slot(words, self.head).load(Ordering::Relaxed);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        // A packet is published whole.
        if length > MAX_PACKET || words_of(length) > self.tail - self.head {
            self.broken = true;
            return Err(LinkError::Broken);
        }
        let packet = buffer.get_mut(..length).ok_or(LinkError::TooLong);
        let packet = packet.map(|packet| {
            let (before, after) = parts(words, self.head + 1, length);
            let (first, second) =
                packet.split_at_mut(before.len().saturating_mul(WORD).min(length));
            load(before, first);
            load(after, second);
            length
        });
        self.head += words_of(length);
        let control = self.memory.control();
        control.head.0.store(self.head, Ordering::Release);
        packet
    }

    /// Looks at the producer's index.
    fn look(&mut self) -> Result<(), LinkError> {
        let tail = self.memory.control().tail.0.load(Ordering::Acquire);
        // The producer goes forward, and not beyond what was read by more than the ring holds.
        let capacity = self.memory.words().len() as u64;
        if tail < self.tail || tail - self.head > capacity {
            self.broken = true;
            return Err(LinkError::Broken);
        }
        self.tail = tail;
        Ok(())
    }

    /// Whether a packet, or a breach, is there to be received.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.broken
            || self.head != self.tail
            || self.memory.control().tail.0.load(Ordering::Relaxed) != self.head
    }

    /// Says that this end is about to wait for the wakeup. When something has come meanwhile it
    /// says so no more, and returns false.
    pub(crate) fn prepare_to_wait(&mut self) -> bool {
        let control = self.memory.control();
        control.waiting.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let pending = self.is_pending();
        if pending {
            control.waiting.0.store(0, Ordering::Relaxed);
        }
        !pending
    }
}

/// The word of an index.
#[inline]
fn slot(words: &[AtomicU64], index: u64) -> &AtomicU64 {
    &words[position(words, index)]
}

#[inline]
fn position(words: &[AtomicU64], index: u64) -> usize {
    // The number of words is a power of two.
    index as usize & (words.len() - 1)
}

/// The words from an index on that hold that many bytes: up to the ring's end, and from its
/// beginning.
#[inline]
fn parts(words: &[AtomicU64], index: u64, bytes: usize) -> (&[AtomicU64], &[AtomicU64]) {
    let count = bytes.div_ceil(WORD);
    let (beginning, end) = words.split_at(position(words, index));
    let before = count.min(end.len());
    (&end[..before], &beginning[..count - before])
}

/// Stores bytes, in words of which the last may be padded.
#[inline]
fn store(words: &[AtomicU64], bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks::<WORD>();
    for (word, chunk) in words.iter().zip(whole) {
        word.store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
    }
    if let Some(word) = words.get(whole.len()) {
        let mut last = [0; WORD];
        last[..rest.len()].copy_from_slice(rest);
        word.store(u64::from_le_bytes(last), Ordering::Relaxed);
    }
}

/// Loads bytes, likewise.
#[inline]
fn load(words: &[AtomicU64], bytes: &mut [u8]) {
    let (whole, rest) = bytes.as_chunks_mut::<WORD>();
    for (word, chunk) in words.iter().zip(whole.iter_mut()) {
        *chunk = word.load(Ordering::Relaxed).to_le_bytes();
    }
    if let Some(word) = words.get(whole.len()) {
        let last = word.load(Ordering::Relaxed).to_le_bytes();
        rest.copy_from_slice(&last[..rest.len()]);
    }
}
