//! What serves a queue: a rate, a delivery trace, or nothing that takes time.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::probability::Draws;
use crate::schedule::work_of;
use crate::{DeliveryTrace, OPPORTUNITY_BYTES, Rate, RateSchedule, Time};

/// What a link can carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Capacity {
    /// A constant rate.
    Rate(Rate),
    /// A token bucket, as tc-tbf(8): a packet passes at once while there are tokens for it, and
    /// waits for them otherwise. A packet larger than the bucket passes when the bucket is full.
    TokenBucket {
        /// How fast the bucket fills; [`RateSchedule::constant`] for one rate.
        fill: Arc<RateSchedule>,
        /// Size of the bucket, which is full at first.
        burst_bytes: u64,
    },
    /// A rate that changes; a packet being sent goes on at the new rate.
    Schedule(Arc<RateSchedule>),
    /// The opportunities of a trace.
    Trace(Arc<DeliveryTrace>),
    /// A shared radio channel, as IEEE 802.11 with A-MPDU: what waits leaves in aggregates.
    Aggregates(Aggregation),
    /// Each packet passes at once.
    Unlimited,
}

/// Frame aggregation. The sender contends for the medium, then sends what waits, up to `frames`
/// frames or `airtime`, as one aggregate at the full rate. All its frames come out at the
/// aggregate's end. Contention takes a time drawn evenly from 0 to twice `gap`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aggregation {
    /// Rate within an aggregate.
    pub rate: Rate,
    /// Most frames of an aggregate.
    pub frames: u32,
    /// An aggregate takes no more frames once they last this long; the frame that reaches the
    /// limit is the last.
    pub airtime: Duration,
    /// Mean time of contention before each aggregate.
    pub gap: Duration,
}

impl Aggregation {
    /// Longest aggregate of IEEE 802.11-2020 (aPPDUMaxTime, §10.14).
    pub const MAX_AIRTIME: Duration = Duration::from_micros(5_484);

    /// Mean time that a full aggregate takes, contention included, and its bytes: packets of
    /// [`OPPORTUNITY_BYTES`].
    fn full(&self) -> (Duration, u64) {
        let frame = self.rate.time_for(OPPORTUNITY_BYTES);
        let by_airtime = self.airtime.as_nanos().div_ceil(frame.as_nanos().max(1));
        let by_airtime = u64::try_from(by_airtime).unwrap_or(u64::MAX);
        let frames = u64::from(self.frames).min(by_airtime).max(1);
        let bytes = frames.saturating_mul(OPPORTUNITY_BYTES);
        (self.rate.time_for(bytes).saturating_add(self.gap), bytes)
    }

    /// Mean rate of full aggregates of packets of [`OPPORTUNITY_BYTES`], contention included.
    pub fn mean_rate(&self) -> Rate {
        let (time, bytes) = self.full();
        let bps = u128::from(bytes) * 8_000_000_000 / time.as_nanos().max(1);
        Rate::at_least_one(u64::try_from(bps).unwrap_or(u64::MAX))
    }
}

impl Capacity {
    /// A token bucket that fills at one rate.
    pub fn token_bucket(rate: Rate, burst_bytes: u64) -> Self {
        Capacity::TokenBucket {
            fill: Arc::new(RateSchedule::constant(rate)),
            burst_bytes,
        }
    }

    /// The rate that bandwidth-delay products are computed with: a trace's mean, a schedule's
    /// greatest, and that of full aggregates with their contention.
    pub fn nominal_rate(&self) -> Option<Rate> {
        match self {
            Capacity::Rate(rate) => Some(*rate),
            Capacity::Schedule(schedule) | Capacity::TokenBucket { fill: schedule, .. } => {
                Some(schedule.greatest())
            }
            Capacity::Trace(trace) => Some(trace.mean_rate()),
            Capacity::Aggregates(aggregation) => Some(aggregation.mean_rate()),
            Capacity::Unlimited => None,
        }
    }

    /// Bytes that could pass in `[from, to)`, what a token bucket has saved before not counted;
    /// `None` when unlimited.
    pub fn bytes_between(&self, from: Time, to: Time) -> Option<u64> {
        match self {
            Capacity::Rate(rate) => Some(rate.bytes_in(to.since(from))),
            Capacity::Schedule(schedule) | Capacity::TokenBucket { fill: schedule, .. } => {
                Some(schedule.bytes_between(from, to))
            }
            Capacity::Trace(trace) => Some(trace.bytes_between(from, to)),
            Capacity::Aggregates(aggregation) => {
                Some(aggregation.mean_rate().bytes_in(to.since(from)))
            }
            Capacity::Unlimited => None,
        }
    }
}

/// Serves packets one after another. Each service follows from the arrivals alone, never from
/// when anybody asked.
#[derive(Debug)]
pub(crate) enum Server {
    /// Service of a packet starts at the later of its arrival and the end of the one before.
    Rate {
        rate: Rate,
        free_at: Time,
        /// By how much `free_at` was rounded up, in bits × ns/s, so that rounding does not add up.
        ahead: u64,
    },
    /// A packet passes when the bucket, of which `spent` is missing at `free_at`, has filled enough.
    TokenBucket {
        fill: Arc<RateSchedule>,
        burst: u128,
        /// Tokens missing from the full bucket at `free_at`. In bits × ns/s, as `burst`: exact at
        /// any rate, so rounding of times does not add up.
        spent: u128,
        /// The schedule's step at `free_at`.
        step: usize,
        free_at: Time,
    },
    /// As `Rate`; `step` is the schedule's at `free_at`.
    Schedule {
        schedule: Arc<RateSchedule>,
        step: usize,
        free_at: Time,
        ahead: u64,
    },
    /// A packet's first byte passes at an opportunity, its last byte at the same or a later one.
    /// What an opportunity leaves over serves packets that waited for it, and is lost otherwise.
    Trace {
        trace: Arc<DeliveryTrace>,
        opportunity: u64,
        bytes_left: u64,
    },
    /// Service of an aggregate starts when contention is over.
    Aggregates {
        aggregation: Aggregation,
        free_at: Time,
        draws: Box<Draws>,
    },
    /// No packet waits.
    Unlimited,
}

/// The stream of a seed that contention is drawn from.
const STREAM: u64 = 3;

/// Why a link did not take another rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a link with {0} has no rate that can be changed")]
pub struct FixedCapacity(&'static str);

impl Server {
    pub(crate) fn new(capacity: &Capacity, seed: u64) -> Self {
        match capacity {
            Capacity::Rate(rate) => Server::Rate {
                rate: *rate,
                free_at: Time::ZERO,
                ahead: 0,
            },
            Capacity::TokenBucket { fill, burst_bytes } => Server::TokenBucket {
                fill: Arc::clone(fill),
                burst: work_of(*burst_bytes),
                spent: 0,
                step: 0,
                free_at: Time::ZERO,
            },
            Capacity::Schedule(schedule) => Server::Schedule {
                schedule: Arc::clone(schedule),
                step: 0,
                free_at: Time::ZERO,
                ahead: 0,
            },
            Capacity::Trace(trace) => Server::Trace {
                trace: Arc::clone(trace),
                opportunity: 0,
                bytes_left: OPPORTUNITY_BYTES,
            },
            Capacity::Aggregates(aggregation) => Server::Aggregates {
                aggregation: *aggregation,
                free_at: Time::ZERO,
                draws: Box::new(Draws::new(seed, STREAM)),
            },
            Capacity::Unlimited => Server::Unlimited,
        }
    }

    /// When service of a packet that waits since `ready` starts, whichever it is.
    #[inline]
    pub(crate) fn next_start(&mut self, ready: Time) -> Time {
        match self {
            Server::Rate { free_at, .. }
            | Server::TokenBucket { free_at, .. }
            | Server::Schedule { free_at, .. } => ready.max(*free_at),
            Server::Trace {
                trace,
                opportunity,
                bytes_left,
            } => {
                if *bytes_left == 0 {
                    *opportunity += 1;
                    *bytes_left = OPPORTUNITY_BYTES;
                }
                if trace.time_of(*opportunity) < ready {
                    *opportunity = trace.first_at_or_after(ready);
                    *bytes_left = OPPORTUNITY_BYTES;
                }
                trace.time_of(*opportunity)
            }
            Server::Aggregates {
                aggregation,
                free_at,
                draws,
            } => {
                let gap_ns = u64::try_from(aggregation.gap.as_nanos()).unwrap_or(u64::MAX);
                let contention_ns = draws.up_to(gap_ns.saturating_mul(2));
                ready.max(*free_at).plus_nanos(contention_ns)
            }
            Server::Unlimited => ready,
        }
    }

    /// Serves a packet from `start`, which [`Server::next_start`] gave; when its last bit is out.
    #[inline]
    pub(crate) fn serve(&mut self, start: Time, size_bytes: u32) -> Time {
        match self {
            Server::Rate {
                rate,
                free_at,
                ahead,
            } => {
                if start > *free_at {
                    *ahead = 0;
                }
                let (took_ns, rounded) = rate.time_for_exactly(size_bytes, *ahead);
                *ahead = rounded;
                *free_at = start.plus_nanos(took_ns);
                *free_at
            }
            Server::TokenBucket {
                fill,
                burst,
                spent,
                step,
                free_at,
            } => {
                let size = work_of(u64::from(size_bytes));
                *spent = spent.saturating_sub(fill.work_between(*free_at, start, step));
                let missing = (*spent + size.min(*burst)).saturating_sub(*burst);
                let (passes_at, rounded_up) = fill.end_of_work(start, missing, step);
                *spent = (*spent + size).saturating_sub(missing + rounded_up);
                *free_at = passes_at;
                passes_at
            }
            Server::Schedule {
                schedule,
                step,
                free_at,
                ahead,
            } => {
                if start > *free_at {
                    *ahead = 0;
                }
                (*free_at, *ahead) = schedule.end_of_service(start, size_bytes, *ahead, step);
                *free_at
            }
            Server::Trace {
                trace,
                opportunity,
                bytes_left,
            } => {
                let mut size = u64::from(size_bytes);
                while size > *bytes_left {
                    size -= *bytes_left;
                    *opportunity += 1;
                    *bytes_left = OPPORTUNITY_BYTES;
                }
                *bytes_left -= size;
                trace.time_of(*opportunity)
            }
            Server::Aggregates { .. } => self.serve_aggregate(start, u64::from(size_bytes)),
            Server::Unlimited => start,
        }
    }

    /// Serves at another rate from `now` on; a schedule ends with it. Returns when the packet being
    /// served is out, which goes on at the new rate; `None` if none is being served. Nothing is
    /// won or lost by a change: what was sent ahead, or is missing from a bucket, stays so.
    pub(crate) fn set_rate(&mut self, now: Time, to: Rate) -> Result<Option<Time>, FixedCapacity> {
        // What is left of the packet being served, in bits × ns/s.
        let (free_at, left) = match self {
            Server::Rate {
                rate,
                free_at,
                ahead,
            } => {
                let left = free_at.since(now).as_nanos() * u128::from(rate.bps());
                (*free_at, left.saturating_sub((*ahead).into()))
            }
            Server::Schedule {
                schedule,
                free_at,
                ahead,
                ..
            } => {
                let left = schedule.work_between(now, *free_at, &mut 0);
                let left = left.saturating_sub((*ahead).into());
                let (rate, free_at, ahead) = (to, *free_at, *ahead);
                *self = Server::Rate {
                    rate,
                    free_at,
                    ahead,
                };
                (free_at, left)
            }
            Server::TokenBucket {
                fill,
                spent,
                step,
                free_at,
                ..
            } => {
                let left = fill.work_between(now, *free_at, &mut 0);
                *spent = spent.saturating_sub(fill.work_between(*free_at, now, step));
                *fill = Arc::new(RateSchedule::constant(to));
                *step = 0;
                let ns = left.div_ceil(u128::from(to.bps()));
                *spent = spent.saturating_sub(ns * u128::from(to.bps()) - left);
                let was_waiting = *free_at > now;
                *free_at = now.plus_nanos(u64::try_from(ns).unwrap_or(u64::MAX));
                return Ok(was_waiting.then_some(*free_at));
            }
            Server::Trace { .. } => return Err(FixedCapacity("a delivery trace")),
            Server::Aggregates { .. } => return Err(FixedCapacity("frame aggregation")),
            Server::Unlimited => return Err(FixedCapacity("unlimited capacity")),
        };
        let Server::Rate {
            rate,
            free_at: end,
            ahead,
        } = self
        else {
            return Ok(None);
        };
        *rate = to;
        if free_at <= now {
            return Ok(None);
        }
        let ns = left.div_ceil(u128::from(to.bps()));
        let rounded_up = ns * u128::from(to.bps()) - left;
        *ahead = u64::try_from(rounded_up).unwrap_or(0);
        *end = now.plus_nanos(u64::try_from(ns).unwrap_or(u64::MAX));
        Ok(Some(*end))
    }

    /// Whether packets leave in aggregates.
    #[inline]
    pub(crate) fn aggregates(&self) -> bool {
        matches!(self, Server::Aggregates { .. })
    }

    /// Whether an aggregate of this many frames and bytes takes another frame.
    pub(crate) fn aggregate_takes(&self, frames: usize, bytes: u64) -> bool {
        match self {
            Server::Aggregates { aggregation, .. } => {
                let below = frames < aggregation.frames as usize
                    && aggregation.rate.time_for(bytes) < aggregation.airtime;
                frames == 0 || below
            }
            _ => frames == 0,
        }
    }

    /// Sends an aggregate from `start`, which [`Server::next_start`] gave; returns its end.
    pub(crate) fn serve_aggregate(&mut self, start: Time, bytes: u64) -> Time {
        match self {
            Server::Aggregates {
                aggregation,
                free_at,
                ..
            } => {
                *free_at = start + aggregation.rate.time_for(bytes);
                *free_at
            }
            _ => start,
        }
    }
}
