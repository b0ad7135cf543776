//! A bounded set of ranges of sequence numbers.

use fairwater_wire::{SackBlock, Seq};

/// Most ranges of a set. RFC 2018 §3 lets an ACK name three or four; a window with more holes is rare,
/// and what the set has no room for counts as not in it.
pub(super) const MAX_RANGES: usize = 8;

/// Disjoint ranges, ascending, all within 2³¹ bytes of each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ranges {
    ranges: [SackBlock; MAX_RANGES],
    count: usize,
}

impl Ranges {
    pub(super) fn as_slice(&self) -> &[SackBlock] {
        self.ranges.get(..self.count).unwrap_or(&[])
    }

    pub(super) fn clear(&mut self) {
        self.count = 0;
    }

    /// Bytes in the set.
    pub(super) fn total(&self) -> u32 {
        let lengths = self.as_slice().iter();
        lengths
            .map(|range| range.end.bytes_since(range.start))
            .sum()
    }

    /// Bytes of `[start, end)` that are in the set.
    pub(super) fn overlap(&self, start: Seq, end: Seq) -> u32 {
        let ranges = self.as_slice().iter();
        ranges
            .map(|range| range.end.min(end).bytes_since(range.start.max(start)))
            .sum()
    }

    /// Adds `[start, end)`; the bytes that were not in the set, 0 if there is no room.
    pub(super) fn insert(&mut self, start: Seq, end: Seq) -> u32 {
        let length = end.bytes_since(start);
        let new = length - self.overlap(start, end).min(length);
        if new == 0 {
            return 0;
        }
        let mut merged = SackBlock { start, end };
        let mut kept = Self::default();
        let mut is_placed = false;
        for range in self.as_slice() {
            if range.end.is_before(merged.start) {
                kept.push(*range);
            } else if merged.end.is_before(range.start) {
                if !is_placed && !kept.push(merged) {
                    return 0;
                }
                is_placed = true;
                if !kept.push(*range) {
                    return 0;
                }
            } else {
                merged.start = merged.start.min(range.start);
                merged.end = merged.end.max(range.end);
            }
        }
        if !is_placed && !kept.push(merged) {
            return 0;
        }
        *self = kept;
        new
    }

    /// Takes out all before `seq`.
    pub(super) fn trim_before(&mut self, seq: Seq) {
        let mut kept = Self::default();
        for range in self.as_slice() {
            if range.end.is_after(seq) {
                kept.push(SackBlock {
                    start: range.start.max(seq),
                    end: range.end,
                });
            }
        }
        *self = kept;
    }

    fn push(&mut self, range: SackBlock) -> bool {
        let Some(into) = self.ranges.get_mut(self.count) else {
            return false;
        };
        *into = range;
        self.count += 1;
        true
    }
}
