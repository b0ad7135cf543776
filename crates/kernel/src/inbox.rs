//! Events of the kernel side, read from its ring in batches.

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};

use crate::KernelError;
use crate::layout::event_kind;

/// 64-bit words of an event's header: `struct event` of `bpf/flow.h`.
const HEADER: usize = fairwater_exec::frame::REPORT_HEADER_LEN / 8;

/// Kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Created,
    Report,
    Closed,
    Fault,
}

/// One event, borrowed from the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) kind: Kind,
    pub(crate) slot: u32,
    pub(crate) generation: u32,
    pub(crate) program: u32,
    pub(crate) time_us: u64,
    pub(crate) cwnd: u64,
    pub(crate) rate: u64,
    /// The number of the report, or the fault bits.
    pub(crate) count: u64,
    pub(crate) fields: &'a [u64],
}

/// A batch of events, copied from the ring so that the ring is free while events are handled.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    words: Vec<u64>,
    /// End of each event in `words`.
    ends: Vec<usize>,
}

impl Batch {
    fn push(&mut self, event: &[u8]) {
        let (words, rest) = event.as_chunks::<8>();
        if words.len() >= HEADER && rest.is_empty() {
            self.words
                .extend(words.iter().map(|w| u64::from_ne_bytes(*w)));
            self.ends.push(self.words.len());
        }
    }

    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.ends.clear();
    }

    /// The events in order of arrival, without unknown kinds.
    pub(crate) fn messages(&self) -> impl Iterator<Item = Message<'_>> {
        let mut begin = 0;
        self.ends.iter().filter_map(move |&end| {
            let words = &self.words[begin..end];
            begin = end;
            parse(words)
        })
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "two 32-bit words in one of 64"
)]
const fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

fn parse(words: &[u64]) -> Option<Message<'_>> {
    let &[
        kind_slot,
        generation_program,
        time_us,
        cwnd,
        rate,
        count,
        _,
        _,
        ref fields @ ..,
    ] = words
    else {
        return None;
    };
    let (kind, slot) = halves(kind_slot);
    let (generation, program) = halves(generation_program);
    let kind = match kind {
        event_kind::CREATED => Kind::Created,
        event_kind::REPORT => Kind::Report,
        event_kind::CLOSED => Kind::Closed,
        event_kind::FAULT => Kind::Fault,
        _ => return None,
    };
    Some(Message {
        kind,
        slot,
        generation,
        program,
        time_us,
        cwnd,
        rate,
        count,
        fields,
    })
}

/// The ring that the kernel side writes.
#[derive(Debug)]
pub(crate) struct Inbox {
    ring: RingBuffer<'static>,
    /// The ring's map: readable while events wait.
    map: OwnedFd,
    batch: Rc<RefCell<Batch>>,
}

#[expect(unsafe_code, reason = "libbpf's ring buffer is a pointer")]
// SAFETY: the ring's memory belongs to no thread. The ring's callback and `batch` share a cell that
// nobody else has, and whoever moves an `Inbox` moves both.
unsafe impl Send for Inbox {}

impl Inbox {
    /// Reads this ring.
    pub(crate) fn new(events: &MapHandle) -> Result<Self, KernelError> {
        let what = "read the event ring";
        let batch = Rc::new(RefCell::new(Batch::default()));
        let into = Rc::clone(&batch);
        let take = move |event: &[u8]| {
            into.borrow_mut().push(event);
            0
        };
        let mut builder = RingBufferBuilder::new();
        builder.add(events, take).map_err(KernelError::bpf(what))?;
        let map = events.as_fd().try_clone_to_owned();
        Ok(Self {
            ring: builder.build().map_err(KernelError::bpf(what))?,
            map: map.map_err(KernelError::io(what))?,
            batch,
        })
    }

    /// A descriptor that is readable while events wait.
    pub(crate) fn readable(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    /// Reads all events that wait.
    pub(crate) fn consume(&self) {
        let _events = self.ring.consume_raw();
    }

    /// Swaps the events taken so far with `batch`, which should be empty.
    pub(crate) fn swap(&self, batch: &mut Batch) {
        std::mem::swap(&mut *self.batch.borrow_mut(), batch);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever lies on the ring, each well-formed event is read back and the rest ignored.
        #[test]
        fn any_bytes_are_read_or_ignored(
            events in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..20)
        ) {
            let mut batch = Batch::default();
            for event in &events {
                batch.push(event);
            }
            let fit = |e: &&Vec<u8>| {
                e.len() >= 64 && e.len().is_multiple_of(8) && (1..=4).contains(&u32::from_ne_bytes([e[0], e[1], e[2], e[3]]))
            };
            let expected: Vec<_> = events.iter().filter(fit).collect();
            let read: Vec<_> = batch.messages().collect();
            prop_assert_eq!(read.len(), expected.len());
            for (message, bytes) in read.iter().zip(expected) {
                prop_assert_eq!(message.fields.len(), bytes.len() / 8 - HEADER);
                prop_assert_eq!(&message.slot.to_ne_bytes()[..], &bytes[4..8]);
                prop_assert_eq!(&message.time_us.to_ne_bytes()[..], &bytes[16..24]);
            }
        }
    }

    #[test]
    fn a_report_is_read_field_by_field() {
        let words = [
            u64::from(event_kind::REPORT) | 7 << 32,
            9 | 2 << 32,
            1_000,
            14_480,
            55,
            4,
            0,
            0,
            10,
            20,
        ];
        let bytes: Vec<u8> = words.iter().flat_map(|w: &u64| w.to_ne_bytes()).collect();
        let mut batch = Batch::default();
        batch.push(&bytes);
        let messages: Vec<_> = batch.messages().collect();
        let expected = Message {
            kind: Kind::Report,
            slot: 7,
            generation: 9,
            program: 2,
            time_us: 1_000,
            cwnd: 14_480,
            rate: 55,
            count: 4,
            fields: &[10, 20],
        };
        assert_eq!(messages, [expected]);
    }
}
