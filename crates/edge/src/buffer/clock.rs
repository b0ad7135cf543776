//! The guest's clock in the segments that a box sends for it (RFC 7323).

use std::collections::VecDeque;

use fairwater_wire::Seq;

/// Most runs of equal clocks that are kept apart.
const MAX_RUNS: usize = 1024;

/// TSval by offset, as runs: the end of each, ascending, and its value, ascending too.
#[derive(Debug, Default)]
struct Runs(VecDeque<(u64, u32)>);

impl Runs {
    fn push(&mut self, end: u64, value: u32) {
        let is_full = self.0.len() >= MAX_RUNS;
        match self.0.back_mut() {
            // Of a run that has no place of its own the later clock counts: the order stays.
            Some(last) if last.1 == value || is_full => *last = (end, value),
            _ => self.0.push_back((end, value)),
        }
    }

    fn at(&self, offset: u64) -> Option<u32> {
        let index = self.0.partition_point(|(end, _)| *end <= offset);
        self.0.get(index).map(|(_, value)| *value)
    }

    fn trim(&mut self, offset: u64) {
        while self.0.front().is_some_and(|(end, _)| *end <= offset) {
            self.0.pop_front();
        }
    }
}

/// TSval of what a box sends.
///
/// A byte keeps the clock with which the guest sent it, when it is sent again too: the echo then tells the guest of
/// all the time that the byte took, queue in the box and repair included, so that its RTO is above that. No segment
/// that continues the stream has a lower clock than one that left before (RFC 7323 §5.3, PAWS): where a pure ACK has
/// overtaken held data, the data takes the ACK's.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// By the bytes that the guest has sent, and that wait.
    guest: Runs,
    /// By the bytes that have left.
    left: Runs,
    /// The greatest that has left.
    greatest: Option<u32>,
}

impl Clock {
    /// The guest has sent the bytes up to offset `end` with that clock.
    pub(super) fn on_sent(&mut self, end: u64, value: Option<u32>) {
        if let Some(value) = value {
            self.guest.push(end, value);
        }
    }

    /// A segment of the guest passes the held data.
    pub(super) fn on_passed(&mut self, value: Option<u32>) {
        if let Some(value) = value {
            self.greatest = Some(self.later(value));
        }
    }

    /// Clock of the segment of bytes from `start` to `end` that leaves now. `is_new` tells that it is not sent again.
    pub(super) fn leave(&mut self, (start, end): (u64, u64), is_new: bool) -> Option<u32> {
        if !is_new && let Some(value) = self.left.at(start) {
            return Some(value);
        }
        let value = self.guest.at(start).or(self.greatest)?;
        let value = self.later(value);
        self.greatest = Some(value);
        if is_new {
            self.left.push(end, value);
        }
        Some(value)
    }

    /// Clock of a segment without data that leaves now.
    pub(super) const fn greatest(&self) -> Option<u32> {
        self.greatest
    }

    /// All before `offset` is acknowledged.
    pub(super) fn trim(&mut self, offset: u64) {
        self.guest.trim(offset);
        self.left.trim(offset);
    }

    fn later(&self, value: u32) -> u32 {
        self.greatest
            .map_or(value, |greatest| Seq(value).max(Seq(greatest)).0)
    }
}
