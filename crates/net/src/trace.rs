//! Delivery traces in mahimahi's format.

use std::time::Duration;

use thiserror::Error;

use crate::{Rate, Time};

/// IP bytes that one delivery opportunity carries. (Mahimahi's constant is 1504: the same packet
/// with the 4-byte header of its TUN device.)
pub const OPPORTUNITY_BYTES: u64 = 1500;

/// The times at which a link may deliver, repeated for ever.
///
/// Mahimahi's format: each line is a time in whole milliseconds, non-decreasing; each is an
/// opportunity to deliver [`OPPORTUNITY_BYTES`], lost when nothing waits. The trace starts again
/// at its last time: the period is the last line's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryTrace {
    opportunities_ms: Vec<u64>,
    period_ms: u64,
}

/// Why a trace was refused: everything that is wrong with it, in the order of its lines.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", .errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct TraceError {
    /// What is wrong; never empty.
    pub errors: Vec<TraceLineError>,
}

/// One thing that is wrong with a trace. Lines count from 1.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TraceLineError {
    /// A line is not a whole number of milliseconds.
    #[error("line {line}: expected a time in whole milliseconds")]
    NotATime {
        /// The line.
        line: usize,
    },
    /// A line's time is before the line before it.
    #[error("line {line}: {ms} ms is before the {previous_ms} ms of the line before it")]
    Backwards {
        /// The line.
        line: usize,
        /// Its time, ms.
        ms: u64,
        /// The time before, ms.
        previous_ms: u64,
    },
    /// There are no lines.
    #[error("the trace is empty: it needs one delivery time in milliseconds per line")]
    Empty,
    /// Every line is 0, so the trace would repeat without end in no time.
    #[error("every time in the trace is 0: the last must be greater, for it is the period")]
    NoPeriod,
}

/// The longest period taken, ms: about 31 years, so that no time overflows.
const MAX_MS: u64 = 1_000_000_000_000;

impl DeliveryTrace {
    /// Parses the text of a trace file.
    ///
    /// # Errors
    /// [`TraceError`] with every malformed line; nothing is guessed or skipped, but blank lines
    /// at the end.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut opportunities_ms = Vec::new();
        let mut errors = Vec::new();
        let mut previous_ms = 0;
        for (index, line) in text.trim_end().lines().enumerate() {
            let word = line.trim();
            match word.parse::<u64>() {
                Ok(ms) if ms <= MAX_MS => {
                    if ms < previous_ms {
                        errors.push(TraceLineError::Backwards {
                            line: index + 1,
                            ms,
                            previous_ms,
                        });
                    }
                    previous_ms = ms;
                    opportunities_ms.push(ms);
                }
                _ => errors.push(TraceLineError::NotATime { line: index + 1 }),
            }
        }
        if errors.is_empty() {
            match opportunities_ms.last() {
                None => errors.push(TraceLineError::Empty),
                Some(0) => errors.push(TraceLineError::NoPeriod),
                Some(&period_ms) => {
                    return Ok(DeliveryTrace {
                        opportunities_ms,
                        period_ms,
                    });
                }
            }
        }
        Err(TraceError { errors })
    }

    /// After this long the trace starts again.
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.period_ms)
    }

    /// The mean rate over a period.
    pub fn mean_rate(&self) -> Rate {
        let bits = u128::from(self.len() as u64 * OPPORTUNITY_BYTES * 8);
        let bps = u64::try_from(bits * 1_000 / u128::from(self.period_ms)).unwrap_or(u64::MAX);
        Rate::at_least_one(bps)
    }

    /// How many opportunities lie in a period.
    #[expect(clippy::len_without_is_empty, reason = "a trace is never empty")]
    pub fn len(&self) -> usize {
        self.opportunities_ms.len()
    }

    /// The time of opportunity `index`, counted from 0 through all repetitions.
    pub fn time_of(&self, index: u64) -> Time {
        let len = self.len() as u64;
        let within = self.opportunities_ms[(index % len) as usize];
        Time::from_millis(
            (index / len)
                .saturating_mul(self.period_ms)
                .saturating_add(within),
        )
    }

    /// The first opportunity at or after `time`; equally, how many lie before it.
    pub fn first_at_or_after(&self, time: Time) -> u64 {
        let ms = time.as_nanos().div_ceil(1_000_000);
        // An opportunity at the very end of a period is at the start of the next: go back one.
        let mut round = (ms / self.period_ms).saturating_sub(1);
        loop {
            let within = ms.saturating_sub(round * self.period_ms);
            let index = self.opportunities_ms.partition_point(|&at| at < within);
            if index < self.len() {
                return round * self.len() as u64 + index as u64;
            }
            round += 1;
        }
    }

    /// Bytes the trace could deliver in `[from, to)`.
    pub fn bytes_between(&self, from: Time, to: Time) -> u64 {
        let count = self
            .first_at_or_after(to)
            .saturating_sub(self.first_at_or_after(from));
        count.saturating_mul(OPPORTUNITY_BYTES)
    }
}
