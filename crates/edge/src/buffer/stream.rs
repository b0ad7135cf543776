//! The guest's bytes that are not acknowledged yet.

use std::collections::{BTreeMap, VecDeque};

use fairwater_wire::Seq;

/// Capacity that an empty stream keeps, bytes.
const KEPT: usize = 4096;

/// What became of a segment's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Insertion {
    /// So many bytes continue the stream.
    New(usize),
    /// All of it is held already, or was acknowledged.
    Known,
    /// It lies beyond bytes that never came; it is held, and not sent.
    Gap,
    /// There is no room.
    Full,
}

/// A copy of the guest's bytes from una on. Offsets count from the first byte that was held.
#[derive(Debug)]
pub(super) struct Stream {
    /// Sequence number and offset of the first byte that is held.
    una: Seq,
    offset: u64,
    bytes: VecDeque<u8>,
    /// What came beyond a gap, by offset.
    chunks: BTreeMap<u64, Vec<u8>>,
    chunk_bytes: usize,
}

impl Stream {
    /// A stream whose next byte has that sequence number.
    pub(super) fn new(first: Seq) -> Self {
        Self {
            una: first,
            offset: 0,
            bytes: VecDeque::new(),
            chunks: BTreeMap::new(),
            chunk_bytes: 0,
        }
    }

    /// Offset of the first byte that is held.
    pub(super) const fn start(&self) -> u64 {
        self.offset
    }

    /// Offset after the last byte that continues the stream.
    pub(super) fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    /// Bytes held, those beyond a gap included.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() + self.chunk_bytes
    }

    /// Offset of a sequence number; `None` before the first byte that was ever held.
    pub(super) fn offset_of(&self, seq: Seq) -> Option<u64> {
        let distance = i64::from(seq.distance_from(self.una));
        self.offset.checked_add_signed(distance)
    }

    /// Sequence number of an offset.
    #[expect(clippy::cast_possible_truncation, reason = "modulo 2³²")]
    pub(super) const fn seq_of(&self, offset: u64) -> Seq {
        self.una.plus(offset.wrapping_sub(self.offset) as u32)
    }

    /// Takes the data of a segment; at most `room` bytes of it.
    pub(super) fn insert(&mut self, seq: Seq, payload: &[u8], room: usize) -> Insertion {
        let before = self.una.bytes_since(seq) as usize;
        let Some(payload) = payload.get(before..).filter(|rest| !rest.is_empty()) else {
            return Insertion::Known;
        };
        let start = self.offset + u64::from(seq.bytes_since(self.una));
        if start > self.end() {
            return self.insert_chunk(start, payload, room);
        }
        let held = usize::try_from(self.end() - start).unwrap_or(usize::MAX);
        let Some(new) = payload.get(held..).filter(|rest| !rest.is_empty()) else {
            return Insertion::Known;
        };
        if new.len() > room {
            return Insertion::Full;
        }
        let end = self.end();
        self.bytes.extend(new);
        self.join_chunks();
        Insertion::New(usize::try_from(self.end() - end).unwrap_or(usize::MAX))
    }

    fn insert_chunk(&mut self, start: u64, payload: &[u8], room: usize) -> Insertion {
        let known = self.chunks.get(&start).map_or(0, Vec::len);
        if known >= payload.len() {
            return Insertion::Gap;
        }
        if payload.len() > room {
            return Insertion::Full;
        }
        self.chunk_bytes += payload.len() - known;
        self.chunks.insert(start, payload.to_vec());
        Insertion::Gap
    }

    /// Appends the chunks that the stream has reached.
    fn join_chunks(&mut self) {
        while let Some(entry) = self.chunks.first_entry()
            && *entry.key() <= self.offset + self.bytes.len() as u64
        {
            let (start, chunk) = entry.remove_entry();
            self.chunk_bytes -= chunk.len();
            let held = usize::try_from(self.end() - start).unwrap_or(usize::MAX);
            self.bytes.extend(chunk.get(held..).unwrap_or(&[]));
        }
    }

    /// The first range beyond a gap: sequence numbers of its first byte, and after its last.
    pub(super) fn beyond_gap(&self) -> Option<(Seq, Seq)> {
        let (&start, chunk) = self.chunks.first_key_value()?;
        let end = start + chunk.len() as u64;
        Some((self.seq_of(start), self.seq_of(end)))
    }

    /// Forgets all before an offset, which was acknowledged; what lies beyond the last byte does not count.
    pub(super) fn acknowledge(&mut self, offset: u64) {
        let length = offset.min(self.end()).saturating_sub(self.offset);
        let Ok(count) = usize::try_from(length) else {
            return;
        };
        self.una = self.seq_of(self.offset + length);
        self.offset += length;
        self.bytes.drain(..count);
        if self.bytes.is_empty() && self.bytes.capacity() > KEPT {
            self.bytes.shrink_to(KEPT);
        }
    }

    /// Appends the bytes from offset `start` to `end` to `out`, as far as they are held.
    pub(super) fn copy(&self, start: u64, end: u64, out: &mut Vec<u8>) {
        let index = |offset: u64| {
            let at = offset.clamp(self.offset, self.end()) - self.offset;
            usize::try_from(at).unwrap_or(usize::MAX)
        };
        let (from, to) = (index(start), index(end).max(index(start)));
        out.extend(self.bytes.range(from..to));
    }
}
