//! Sums over a window of time, in bounded memory.

use std::time::Duration;

use fairwater_net::Time;

use super::Measures;

/// Parts that a window is counted in: a sum is of the window and up to one part more.
const PARTS: usize = 16;

/// Packets counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    pub(super) acked: u64,
    pub(super) lost: u64,
    pub(super) marked: u64,
}

impl Counts {
    fn plus(self, other: Self) -> Self {
        Self {
            acked: self.acked.saturating_add(other.acked),
            lost: self.lost.saturating_add(other.lost),
            marked: self.marked.saturating_add(other.marked),
        }
    }

    /// Share of the packets that were lost, parts per billion.
    pub(super) fn loss_ppb(self) -> u64 {
        let all = self.acked.saturating_add(self.lost);
        let ppb = u128::from(self.lost) * 1_000_000_000;
        ppb.checked_div(u128::from(all))
            .map_or(0, |ppb| u64::try_from(ppb).unwrap_or(u64::MAX))
    }
}

/// Packets of the last measures, counted over a window; a window of zero holds the last measures alone.
#[derive(Debug, Clone)]
pub(super) struct Windowed {
    window: Duration,
    /// Number of a part of time, counted from zero, and what was counted in it.
    parts: [(u64, Counts); PARTS],
    last: Counts,
}

impl Windowed {
    pub(super) fn new(window: Duration) -> Self {
        Self {
            window,
            parts: [(0, Counts::default()); PARTS],
            last: Counts::default(),
        }
    }

    fn part(&self, now: Time) -> u64 {
        let nanos = self.window.as_nanos() / PARTS as u128;
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX).max(1);
        now.as_nanos() / nanos
    }

    pub(super) fn add(&mut self, measures: &Measures) {
        self.last = Counts {
            acked: measures.acked_packets,
            lost: measures.lost_packets,
            marked: measures.marked_packets,
        };
        let part = self.part(measures.now);
        let index = usize::try_from(part % PARTS as u64).unwrap_or(0);
        if let Some((number, counts)) = self.parts.get_mut(index) {
            *counts = if *number == part {
                counts.plus(self.last)
            } else {
                self.last
            };
            *number = part;
        }
    }

    pub(super) fn sum(&self, now: Time) -> Counts {
        if self.window.is_zero() {
            return self.last;
        }
        let part = self.part(now);
        let in_window = |number: u64| number <= part && part - number < PARTS as u64;
        let counts = self.parts.iter().filter(|(number, _)| in_window(*number));
        counts.fold(Counts::default(), |sum, (_, counts)| sum.plus(*counts))
    }
}
