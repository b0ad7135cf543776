//! What was sent and is not acknowledged in order: each segment's outcome, and the counts that follow
//! from it (RFC 6675 §3 and §4, with Linux's counters).

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::Block;
use super::rate::Stamp;

/// Capacity that the queue of segments keeps when it is empty.
const KEPT: usize = 64;

/// One segment.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    /// Offset of its first byte.
    pub(super) seq: u64,
    /// Bytes, and one more when it carries the FIN.
    pub(super) len: u32,
    pub(super) fin: bool,
    /// Acknowledged selectively.
    pub(super) sacked: bool,
    /// Declared lost, though it may have been sent again since.
    pub(super) lost: bool,
    /// Sent again, and neither acknowledged nor declared lost since.
    pub(super) resent: bool,
    /// Was ever sent again.
    pub(super) ever_resent: bool,
    /// When it was last sent, ns.
    pub(super) at: u64,
    /// Number of its latest transmission: orders transmissions whose times are equal.
    pub(super) order: u64,
    /// Delivery state of the connection when the segment was last sent.
    pub(super) stamp: Stamp,
}

impl Sent {
    pub(super) fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }

    fn waits(&self) -> bool {
        self.lost && !self.resent
    }
}

/// The segments, and what is counted of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Scoreboard {
    /// In order of the stream, without gaps.
    segments: VecDeque<Sent>,
    /// Number of the first of `segments`, counted from the beginning of the connection.
    first: u64,
    /// Transmissions in order of time: the segment's number and the transmission's. An entry whose
    /// segment was acknowledged or declared lost meanwhile is dropped when it comes to the front.
    transmissions: VecDeque<(u64, u64)>,
    order: u64,
    sacked: u64,
    lost: u64,
    resent: u64,
    /// Count of lost segments that wait to be sent again; none lies before `first_waiting`.
    waiting: u64,
    first_waiting: u64,
    /// The highest offset that was acknowledged selectively, or in order.
    forward: u64,
    /// Segments declared lost since the beginning; a segment lost twice counts twice.
    losses: u64,
    /// SACK blocks of the last ACK, in order of the stream: their segments need no second walk.
    known: SmallVec<[Block; 4]>,
}

impl Scoreboard {
    /// Segments sent and not acknowledged in order.
    pub(super) fn out(&self) -> u64 {
        self.segments.len() as u64
    }

    /// Segments in flight: RFC 6675 §4's pipe.
    pub(super) fn in_flight(&self) -> u64 {
        (self.out() + self.resent).saturating_sub(self.sacked + self.lost)
    }

    /// The same, counted afresh from each segment's outcome; without SACK, duplicate ACKs are
    /// believed.
    pub(super) fn recount(&self, sack: bool) -> u64 {
        let in_flight = |s: &&Sent| !s.sacked && !s.waits();
        let twice = |s: &&Sent| s.resent && !s.lost;
        let count = self.segments.iter().filter(in_flight).count()
            + self.segments.iter().filter(twice).count();
        (count as u64).saturating_sub(if sack { 0 } else { self.sacked })
    }

    pub(super) fn sacked(&self) -> u64 {
        self.sacked
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    pub(super) fn resent(&self) -> u64 {
        self.resent
    }

    pub(super) fn waiting(&self) -> u64 {
        self.waiting
    }

    pub(super) fn losses(&self) -> u64 {
        self.losses
    }

    pub(super) fn forward(&self) -> u64 {
        self.forward
    }

    pub(super) fn get(&self, number: u64) -> Option<&Sent> {
        let index = number.checked_sub(self.first)?;
        self.segments.get(usize::try_from(index).ok()?)
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Sent> {
        let index = number.checked_sub(self.first)?;
        self.segments.get_mut(usize::try_from(index).ok()?)
    }

    /// Number of the first outstanding segment, if there is one.
    pub(super) fn front(&self) -> Option<u64> {
        (!self.segments.is_empty()).then_some(self.first)
    }

    /// Number of the last outstanding segment.
    pub(super) fn back(&self) -> Option<u64> {
        (!self.segments.is_empty()).then_some(self.first + self.out() - 1)
    }

    /// A segment is sent for the first time.
    pub(super) fn send(&mut self, seq: u64, len: u32, fin: bool, now: u64, stamp: Stamp) {
        let number = self.first + self.out();
        self.order += 1;
        self.segments.push_back(Sent {
            seq,
            len: len + u32::from(fin),
            fin,
            sacked: false,
            lost: false,
            resent: false,
            ever_resent: false,
            at: now,
            order: self.order,
            stamp,
        });
        self.transmissions.push_back((number, self.order));
    }

    /// A segment is sent again.
    pub(super) fn resend(&mut self, number: u64, now: u64, stamp: Stamp) {
        self.order += 1;
        let order = self.order;
        let Some(sent) = self.get_mut(number) else {
            return;
        };
        let waited = sent.waits();
        let counted = sent.resent;
        sent.resent = true;
        sent.ever_resent = true;
        sent.at = now;
        sent.order = order;
        sent.stamp = stamp;
        self.waiting -= u64::from(waited);
        self.resent += u64::from(!counted);
        self.transmissions.push_back((number, order));
    }

    /// The first segment that is lost and waits to be sent again.
    pub(super) fn next_waiting(&mut self) -> Option<u64> {
        if self.waiting == 0 {
            return None;
        }
        let mut number = self.first_waiting.max(self.first);
        while !self.get(number)?.waits() {
            number += 1;
        }
        self.first_waiting = number;
        Some(number)
    }

    /// Declares the latest transmission of a segment lost. Returns whether it was not lost before.
    pub(super) fn mark_lost(&mut self, number: u64) -> bool {
        let Some(sent) = self.get_mut(number) else {
            return false;
        };
        if sent.sacked || sent.waits() {
            return false;
        }
        let (was_lost, was_resent) = (sent.lost, sent.resent);
        sent.lost = true;
        sent.resent = false;
        self.lost += u64::from(!was_lost);
        self.resent -= u64::from(was_resent);
        self.losses += 1;
        self.waiting += 1;
        self.first_waiting = self.first_waiting.min(number);
        true
    }

    /// Takes back all declared losses (a reduction was spurious).
    pub(super) fn unmark_lost(&mut self) {
        for sent in &mut self.segments {
            sent.lost = false;
        }
        self.lost = 0;
        self.waiting = 0;
        let mut in_flight: Vec<_> = (self.first..)
            .zip(&self.segments)
            .filter(|(_, sent)| !sent.sacked)
            .map(|(number, sent)| (number, sent.order))
            .collect();
        in_flight.sort_unstable_by_key(|&(_, order)| order);
        self.transmissions = in_flight.into();
    }

    /// Without SACK, a duplicate ACK stands for a segment that arrived, whichever (RFC 5681
    /// §3.2, step 4).
    pub(super) fn count_duplicate(&mut self) {
        if self.sacked + self.lost < self.out() {
            self.sacked += 1;
        }
    }

    /// Without SACK: forgets the duplicate ACKs.
    pub(super) fn forget_duplicates(&mut self) {
        self.sacked = 0;
    }

    /// Removes everything before `ack`, which has arrived. Calls `delivered` for each segment.
    #[inline]
    pub(super) fn acknowledge(&mut self, ack: u64, mut delivered: impl FnMut(&Sent)) {
        while let Some(sent) = self.segments.front() {
            if sent.end() > ack {
                break;
            }
            self.sacked -= u64::from(sent.sacked);
            self.lost -= u64::from(sent.lost);
            self.resent -= u64::from(sent.resent);
            self.waiting -= u64::from(sent.waits());
            delivered(sent);
            self.segments.pop_front();
            self.first += 1;
        }
        self.forward = self.forward.max(ack);
        if self.segments.is_empty() {
            self.transmissions.clear();
            self.known.clear();
            if self.segments.capacity() > KEPT {
                self.segments.shrink_to(KEPT);
                self.transmissions.shrink_to(KEPT);
            }
        }
        self.forget_overtaken();
    }

    /// Marks the segments of these blocks as arrived. Calls `delivered` for each segment that was not
    /// marked, before it is.
    pub(super) fn acknowledge_selectively(
        &mut self,
        blocks: &[Block],
        mut delivered: impl FnMut(&Sent),
    ) {
        let mut blocks: SmallVec<[Block; 4]> = SmallVec::from_slice(blocks);
        blocks.sort_unstable_by_key(|b| b.start);
        let known = std::mem::take(&mut self.known);
        for block in &blocks {
            let mut start = block.start;
            for seen in known.iter().filter(|k| k.end > block.start) {
                if seen.start >= block.end {
                    break;
                }
                self.mark_sacked(start, seen.start, &mut delivered);
                start = start.max(seen.end);
            }
            self.mark_sacked(start, block.end, &mut delivered);
        }
        self.known = blocks;
        self.forget_overtaken();
    }

    fn mark_sacked(&mut self, start: u64, end: u64, delivered: &mut impl FnMut(&Sent)) {
        if start >= end {
            return;
        }
        let from = self.segments.partition_point(|s| s.seq < start);
        for sent in self.segments.range_mut(from..) {
            if sent.end() > end {
                break;
            }
            self.forward = self.forward.max(sent.end());
            if sent.sacked {
                continue;
            }
            delivered(sent);
            self.lost -= u64::from(sent.lost);
            self.resent -= u64::from(sent.resent);
            self.waiting -= u64::from(sent.waits());
            self.sacked += 1;
            sent.sacked = true;
            sent.lost = false;
            sent.resent = false;
        }
    }

    /// The earliest transmission that is still in flight: the segment's number and the segment.
    pub(super) fn earliest(&mut self) -> Option<(u64, &Sent)> {
        self.forget_overtaken();
        let &(number, _) = self.transmissions.front()?;
        Some((number, self.get(number)?))
    }

    fn forget_overtaken(&mut self) {
        while let Some(&(number, order)) = self.transmissions.front() {
            let in_flight = self
                .get(number)
                .is_some_and(|s| s.order == order && !s.sacked && !s.waits());
            if in_flight {
                break;
            }
            self.transmissions.pop_front();
        }
    }
}
