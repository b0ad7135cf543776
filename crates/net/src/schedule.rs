//! Rates that change.

use thiserror::Error;

use crate::{Rate, Time};

/// Rates, each from a time on until the next. An outage is a rate of 1 bit/s.
///
/// *Work* is counted in bits × ns/s: a rate in bits/s does an exact whole number of them in any time.
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
    /// There is no rate at the beginning.
    #[error("the first step begins at {:?}: the schedule needs a rate from time 0 on", .at.since(Time::ZERO))]
    LateStart {
        /// When the first step begins.
        at: Time,
    },
    /// A step does not begin after the step before it.
    #[error("step {step} begins at {:?}, not after the {:?} of the step before", .at.since(Time::ZERO), .previous.since(Time::ZERO))]
    NotRising {
        /// Number of the step.
        step: usize,
        /// When the step begins.
        at: Time,
        /// When the step before it begins.
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

    /// One rate for all time.
    pub fn constant(rate: Rate) -> Self {
        RateSchedule(vec![(Time::ZERO, rate)])
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
        let work = self.work_between(from, to, &mut 0);
        u64::try_from(work / work_of(1)).unwrap_or(u64::MAX)
    }

    /// When the last bit of a packet is out whose first bit is sent at `start`, when `ahead` of its
    /// work was done before; and by how much work that time was rounded up. `step` is as for
    /// [`RateSchedule::end_of_work`].
    pub(crate) fn end_of_service(
        &self,
        start: Time,
        size_bytes: u32,
        ahead: u64,
        step: &mut usize,
    ) -> (Time, u64) {
        let work = work_of(size_bytes.into());
        let done = work.min(ahead.into());
        let left_over = u128::from(ahead) - done;
        let (end, rounded_up) = self.end_of_work(start, work - done, step);
        let ahead = u64::try_from(rounded_up + left_over).unwrap_or(0);
        (end, ahead)
    }

    /// When `work` that begins at `start` is done, and by how much work that time was rounded up to
    /// a nanosecond. `step` is the index of a step that begins no later than `start`, and becomes
    /// the index of the step at the end.
    pub(crate) fn end_of_work(
        &self,
        start: Time,
        mut work: u128,
        step: &mut usize,
    ) -> (Time, u128) {
        let mut now = start;
        self.step_to(now, step);
        loop {
            let end = self.end_of(*step);
            let possible = self.work(*step, now, end);
            if work <= possible || *step + 1 == self.0.len() {
                let rate = u128::from(self.0[*step].1.bps());
                let ns = work.div_ceil(rate);
                let rounded_up = ns * rate - work;
                let ns = u64::try_from(ns).unwrap_or(u64::MAX);
                return (now.plus_nanos(ns), rounded_up);
            }
            work -= possible;
            now = end;
            *step += 1;
        }
    }

    /// Work done in `[from, to)`. `step` is the index of a step that begins no later than `from`,
    /// and becomes the index of the step at `to`.
    pub(crate) fn work_between(&self, from: Time, to: Time, step: &mut usize) -> u128 {
        let first = *step;
        self.step_to(to, step);
        (first..=*step)
            .map(|index| {
                let start = self.0[index].0.max(from);
                self.work(index, start, self.end_of(index).min(to))
            })
            .sum()
    }

    fn step_to(&self, now: Time, step: &mut usize) {
        while self.end_of(*step) <= now && *step + 1 < self.0.len() {
            *step += 1;
        }
    }

    fn end_of(&self, index: usize) -> Time {
        let next = self.0.get(index + 1);
        next.map_or(Time::from_nanos(u64::MAX), |(at, _)| *at)
    }

    /// Work done in `[from, to)` at a step's rate.
    fn work(&self, index: usize, from: Time, to: Time) -> u128 {
        to.since(from).as_nanos() * u128::from(self.0[index].1.bps())
    }
}

/// The work of sending `bytes`.
pub(crate) fn work_of(bytes: u64) -> u128 {
    u128::from(bytes) * 8_000_000_000
}
