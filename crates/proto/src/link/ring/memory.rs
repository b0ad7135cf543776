//! What both ends of a ring share.
//!
//! Everything in it is atomic: the other end may be another process that writes what it likes
//! when it likes, so nothing there is ever borrowed as plain bytes.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Bytes of a word: the unit of a ring's indices and of its packets' padding.
pub(crate) const WORD: usize = 8;

/// A value with cache lines to itself: two, as processors fetch them in pairs.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Line<T>(pub(crate) T);

/// The indices count words from the ring's beginning of time; they never wrap in practice.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Control {
    /// Words produced. The producer writes it.
    pub(crate) tail: Line<AtomicU64>,
    /// Words consumed. The consumer writes it.
    pub(crate) head: Line<AtomicU64>,
    /// Not 0 when the consumer waits for the wakeup: it writes 1, and the producer 0 before it
    /// rings.
    pub(crate) waiting: Line<AtomicU32>,
}

/// A ring's shared memory.
pub(crate) trait Memory {
    /// The indices.
    fn control(&self) -> &Control;

    /// The packets: a power of two of words, the same at each call.
    fn words(&self) -> &[AtomicU64];
}

/// Shared memory within one process.
#[derive(Debug)]
pub(crate) struct Heap {
    control: Control,
    words: Box<[AtomicU64]>,
}

impl Heap {
    /// An empty ring of `words` words, which must be a power of two.
    pub(crate) fn new(words: usize) -> Self {
        Self {
            control: Control {
                tail: Line(AtomicU64::new(0)),
                head: Line(AtomicU64::new(0)),
                waiting: Line(AtomicU32::new(0)),
            },
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl Memory for std::sync::Arc<Heap> {
    fn control(&self) -> &Control {
        &self.control
    }

    fn words(&self) -> &[AtomicU64] {
        &self.words
    }
}
