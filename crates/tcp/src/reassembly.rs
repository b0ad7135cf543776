//! Which bytes of the stream have arrived.

use smallvec::SmallVec;

use super::Block;

/// SACK blocks that fit in an ACK beside a timestamp (RFC 2018 §3, RFC 7323 §3).
const MAX_BLOCKS: usize = 3;

/// The stream as far as it has arrived: a prefix, and blocks beyond the first gap.
#[derive(Debug, Clone, Default)]
pub(super) struct Reassembly {
    next: u64,
    /// In order of the stream, apart from each other and from the prefix.
    blocks: Vec<Block>,
    /// The blocks reported or extended last, the latest first (RFC 2018 §4).
    recent: SmallVec<[Block; MAX_BLOCKS]>,
    /// What arrived again, to be reported once (RFC 2883 §4).
    duplicate: Option<Block>,
}

/// Where a segment's data fits into the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It continues the prefix, and nothing waits beyond a gap.
    InOrder,
    /// It continues the prefix while blocks wait, or waited, beyond a gap.
    FillsGap,
    /// It lies beyond a gap.
    OutOfOrder,
    /// Nothing of it is new.
    Duplicate,
}

impl Reassembly {
    /// The first byte that has not arrived.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Adds a block of bytes, which is not empty.
    pub(super) fn insert(&mut self, block: Block) -> Arrival {
        if block.start == self.next && self.blocks.is_empty() {
            self.next = block.end;
            return Arrival::InOrder;
        }
        if block.start < self.next {
            // RFC 2883 §4.1: what lies below the cumulative acknowledgement came twice.
            self.duplicate = Some(Block {
                start: block.start,
                end: block.end.min(self.next),
            });
            if block.end <= self.next {
                return Arrival::Duplicate;
            }
        }
        let from = self.blocks.partition_point(|b| b.end < block.start);
        let to = from + self.blocks[from..].partition_point(|b| b.start <= block.end);
        let mut merged = Block {
            start: block.start.max(self.next),
            end: block.end,
        };
        for known in &self.blocks[from..to] {
            let overlap = Block {
                start: known.start.max(block.start),
                end: known.end.min(block.end),
            };
            // RFC 2883 §4: only the first, when there are several.
            if overlap.start < overlap.end && self.duplicate.is_none() {
                self.duplicate = Some(overlap);
            }
            merged.start = merged.start.min(known.start);
            merged.end = merged.end.max(known.end);
        }
        let duplicate = self.blocks[from..to]
            .iter()
            .any(|b| b.start <= block.start && block.end <= b.end);
        self.recent
            .retain(|b| b.end < merged.start || b.start > merged.end);
        if merged.start <= self.next {
            let waited = !self.blocks.is_empty();
            self.next = merged.end;
            self.blocks.drain(from..to);
            return if waited {
                Arrival::FillsGap
            } else {
                Arrival::InOrder
            };
        }
        if from == to {
            self.blocks.insert(from, merged);
        } else {
            self.blocks[from] = merged;
            self.blocks.drain(from + 1..to);
        }
        self.recent.truncate(MAX_BLOCKS - 1);
        self.recent.insert(0, merged);
        if duplicate {
            Arrival::Duplicate
        } else {
            Arrival::OutOfOrder
        }
    }

    /// Whether the next ACK has blocks.
    pub(super) fn has_report(&self) -> bool {
        self.duplicate.is_some() || !self.recent.is_empty()
    }

    /// The blocks for the next ACK: a duplicate, once, before the others (RFC 2883 §4), then the
    /// blocks that changed last (RFC 2018 §4).
    pub(super) fn take_report(&mut self) -> SmallVec<[Block; 4]> {
        let mut report = SmallVec::new();
        report.extend(self.duplicate.take());
        let room = MAX_BLOCKS - report.len();
        report.extend(self.recent.iter().take(room).copied());
        report
    }
}
