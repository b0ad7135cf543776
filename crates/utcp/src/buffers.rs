//! The bytes of both directions.

use std::collections::VecDeque;

/// Capacity that an empty buffer keeps, bytes.
const KEPT: usize = 4096;

/// Bytes written and not acknowledged.
#[derive(Debug, Default)]
pub(crate) struct SendBuffer {
    bytes: VecDeque<u8>,
    /// Offset of the first.
    start: u64,
    /// Bytes that lie around the end of the ring, in a row.
    joined: Vec<u8>,
}

impl SendBuffer {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Offset of the first byte that is not acknowledged.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Offset after the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// Forgets all before an offset, which was acknowledged.
    pub(crate) fn acknowledge(&mut self, offset: u64) {
        let count = offset.min(self.end()).saturating_sub(self.start);
        self.bytes.drain(..usize::try_from(count).unwrap_or(0));
        self.start += count;
        if self.bytes.is_empty() && self.bytes.capacity() > KEPT {
            self.bytes.shrink_to(KEPT);
        }
    }

    /// The bytes from `offset` on, `len` of them at most.
    pub(crate) fn range(&mut self, offset: u64, len: u32) -> &[u8] {
        let from = usize::try_from(offset.saturating_sub(self.start)).unwrap_or(usize::MAX);
        let from = from.min(self.bytes.len());
        let to = from.saturating_add(len as usize).min(self.bytes.len());
        let (first, second) = self.bytes.as_slices();
        if to <= first.len() {
            return first.get(from..to).unwrap_or(&[]);
        }
        if from >= first.len() {
            let range = from - first.len()..to - first.len();
            return second.get(range).unwrap_or(&[]);
        }
        self.joined.clear();
        self.joined
            .extend_from_slice(first.get(from..).unwrap_or(&[]));
        let rest = second.get(..to - first.len()).unwrap_or(&[]);
        self.joined.extend_from_slice(rest);
        &self.joined
    }
}

/// Bytes that arrived and were not read; those beyond a gap are among them.
#[derive(Debug, Default)]
pub(crate) struct ReceiveBuffer {
    bytes: VecDeque<u8>,
    /// Offset of the first.
    start: u64,
}

impl ReceiveBuffer {
    /// Offset of the first byte that was not read.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Offset after the last byte that has arrived, in order or not.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Takes bytes at an offset that lies within the receive window. What was there before `next` stays.
    pub(crate) fn insert(&mut self, offset: u64, bytes: &[u8], next: u64) {
        let known = next.max(self.start).saturating_sub(offset);
        let known = usize::try_from(known).unwrap_or(usize::MAX);
        let Some(bytes) = bytes.get(known..).filter(|rest| !rest.is_empty()) else {
            return;
        };
        let at = offset.max(next).max(self.start) - self.start;
        let Ok(at) = usize::try_from(at) else {
            return;
        };
        if at > self.bytes.len() {
            self.bytes.resize(at, 0);
        }
        let overlap = (self.bytes.len() - at).min(bytes.len());
        let (old, new) = bytes.split_at(overlap);
        for (into, from) in self.bytes.range_mut(at..at + overlap).zip(old) {
            *into = *from;
        }
        self.bytes.extend(new);
    }

    /// Forgets all from an offset on.
    pub(crate) fn truncate(&mut self, end: u64) {
        let length = end.saturating_sub(self.start);
        self.bytes
            .truncate(usize::try_from(length).unwrap_or(usize::MAX));
    }

    /// Moves bytes before offset `next`, all of which have arrived, to `out`; returns how many.
    pub(crate) fn read(&mut self, next: u64, out: &mut [u8]) -> usize {
        let ready = usize::try_from(next.saturating_sub(self.start)).unwrap_or(usize::MAX);
        let count = ready.min(self.bytes.len()).min(out.len());
        let (first, second) = self.bytes.as_slices();
        let split = first.len().min(count);
        if let (Some(from), Some(rest)) = (first.get(..split), second.get(..count - split)) {
            let (into, after) = out.split_at_mut(split);
            into.copy_from_slice(from);
            after[..rest.len()].copy_from_slice(rest);
        }
        self.bytes.drain(..count);
        self.start += count as u64;
        if self.bytes.is_empty() && self.bytes.capacity() > KEPT {
            self.bytes.shrink_to(KEPT);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_in_any_order_and_overlap() {
        let mut buffer = ReceiveBuffer::default();
        let mut out = [0; 16];
        buffer.insert(4, b"efgh", 0);
        assert_eq!(buffer.read(0, &mut out), 0);
        buffer.insert(2, b"cdef", 0);
        buffer.insert(0, b"ab", 0);
        assert_eq!(buffer.read(8, &mut out), 8);
        assert_eq!(&out[..8], b"abcdefgh");
        // What was read, and what has arrived in order, is not written again.
        buffer.insert(6, b"XXij", 8);
        assert_eq!(buffer.read(10, &mut out[..1]), 1);
        assert_eq!(buffer.read(10, &mut out[1..]), 1);
        assert_eq!(&out[..2], b"ij");
        assert_eq!((buffer.start(), buffer.end()), (10, 10));
    }

    #[test]
    fn a_range_of_the_ring_is_in_a_row() {
        let mut buffer = SendBuffer::default();
        let (mut written, mut sum) = (0_u64, 0);
        for step in 0..2000_u64 {
            let bytes: Vec<u8> = (written..written + 37).map(|at| at as u8).collect();
            buffer.write(&bytes);
            written += 37;
            let from = written.saturating_sub(60 + step % 13);
            buffer.acknowledge(from);
            let range = buffer.range(from, 50);
            assert!(range.iter().zip(from..).all(|(byte, at)| *byte == at as u8));
            sum += range.len();
        }
        assert!(sum > 90_000);
        assert_eq!(buffer.range(written, 10), b"");
        assert_eq!(buffer.range(0, 3).len(), 3, "clamped to what is held");
    }
}
