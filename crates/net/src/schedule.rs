//! Rates that change.

use thiserror::Error;

use crate::{Rate, Time};

/// Rates, each from a time on until the next. An outage is a rate of 1 bit/s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateSchedule(Vec<(Time, Rate)>);

/// Why a schedule was refused: everything that is wrong with it. Steps count from 1.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", .errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ScheduleError {
    /// What is wrong; never empty.
    pub errors: Vec<ScheduleStepError>,
}

/// One thing that is wrong with a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ScheduleStepError {
    /// There are no steps.
    #[error("the schedule is empty: it needs a rate from time 0 on")]
    Empty,
    /// No rate at the beginning.
    #[error("the first step is at {} ns: the schedule needs a rate from time 0 on", .at.as_nanos())]
    LateStart {
        /// The first step's time.
        at: Time,
    },
    /// A step is not after the one before it.
    #[error("step {step}: {} ns is not after the {} ns of the step before it", .at.as_nanos(), .previous.as_nanos())]
    NotRising {
        /// The step.
        step: usize,
        /// Its time.
        at: Time,
        /// The time before.
        previous: Time,
    },
}

impl RateSchedule {
    /// A schedule of these steps; the first is at [`Time::ZERO`], and each is after the one before.
    ///
    /// # Errors
    /// [`ScheduleError`] with every step that is not.
    pub fn new(steps: Vec<(Time, Rate)>) -> Result<Self, ScheduleError> {
        let mut errors = Vec::new();
        match steps.first() {
            None => errors.push(ScheduleStepError::Empty),
            Some(&(at, _)) if at > Time::ZERO => errors.push(ScheduleStepError::LateStart { at }),
            Some(_) => {}
        }
        for (index, pair) in steps.windows(2).enumerate() {
            if let &[(previous, _), (at, _)] = pair
                && at <= previous
            {
                let step = index + 2;
                errors.push(ScheduleStepError::NotRising { step, at, previous });
            }
        }
        if errors.is_empty() {
            Ok(RateSchedule(steps))
        } else {
            Err(ScheduleError { errors })
        }
    }

    /// The steps.
    pub fn steps(&self) -> &[(Time, Rate)] {
        &self.0
    }

    /// The greatest of the rates.
    pub fn greatest(&self) -> Rate {
        let rates = self.0.iter().map(|(_, rate)| *rate);
        rates.max().unwrap_or(Rate::at_least_one(1))
    }

    /// Whole bytes that could pass in `[from, to)`.
    pub fn bytes_between(&self, from: Time, to: Time) -> u64 {
        let mut work = 0u128;
        for index in 0..self.0.len() {
            let start = self.0[index].0.max(from);
            let end = self.end_of(index).min(to);
            work += self.work(index, start, end);
        }
        u64::try_from(work / 8_000_000_000).unwrap_or(u64::MAX)
    }

    /// When a packet of `size_bytes` is out whose first bit is sent at `start`, when `ahead` of its
    /// bits × ns/s were paid for before; and by how much that was rounded up, in the same unit.
    /// `step` is the index of a step that begins no later than `start`, and becomes the one at the
    /// end.
    pub(crate) fn end_of_service(
        &self,
        start: Time,
        size_bytes: u32,
        ahead: u64,
        step: &mut usize,
    ) -> (Time, u64) {
        let mut work = u128::from(size_bytes) * 8_000_000_000;
        let mut left = u128::from(ahead);
        let paid = left.min(work);
        (work, left) = (work - paid, left - paid);
        let mut now = start;
        while self.end_of(*step) <= now && *step + 1 < self.0.len() {
            *step += 1;
        }
        loop {
            let end = self.end_of(*step);
            let possible = self.work(*step, now, end);
            if work <= possible || *step + 1 == self.0.len() {
                let rate = u128::from(self.0[*step].1.bps());
                let ns = work.div_ceil(rate);
                let rounded = ns * rate - work + left;
                let ns = u64::try_from(ns).unwrap_or(u64::MAX);
                return (now.plus_nanos(ns), u64::try_from(rounded).unwrap_or(0));
            }
            work -= possible;
            now = end;
            *step += 1;
        }
    }

    fn end_of(&self, index: usize) -> Time {
        let next = self.0.get(index + 1);
        next.map_or(Time::from_nanos(u64::MAX), |(at, _)| *at)
    }

    /// Bits × ns/s that pass in `[from, to)` at a step's rate.
    fn work(&self, index: usize, from: Time, to: Time) -> u128 {
        to.since(from).as_nanos() * u128::from(self.0[index].1.bps())
    }
}
