//! What serves a queue: a rate, a delivery trace, or nothing that takes time.

use std::sync::Arc;

use crate::{DeliveryTrace, OPPORTUNITY_BYTES, Rate, RateSchedule, Time};

/// What a link can carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Capacity {
    /// A constant rate.
    Rate(Rate),
    /// A token bucket, as tc-tbf(8): a packet passes at once while there are tokens for it, and
    /// waits for them otherwise. One larger than the bucket passes when that is full.
    TokenBucket {
        /// How fast the bucket fills.
        rate: Rate,
        /// How much it holds; it is full at first.
        burst_bytes: u64,
    },
    /// A rate that changes; a packet being sent goes on at the new rate.
    Schedule(Arc<RateSchedule>),
    /// The opportunities of a trace.
    Trace(Arc<DeliveryTrace>),
    /// Each packet passes at once.
    Unlimited,
}

impl Capacity {
    /// The rate that bandwidth-delay products are reckoned with: a trace's is its mean, a
    /// schedule's its greatest.
    pub fn nominal_rate(&self) -> Option<Rate> {
        match self {
            Capacity::Rate(rate) | Capacity::TokenBucket { rate, .. } => Some(*rate),
            Capacity::Schedule(schedule) => Some(schedule.greatest()),
            Capacity::Trace(trace) => Some(trace.mean_rate()),
            Capacity::Unlimited => None,
        }
    }

    /// Bytes that could pass in `[from, to)`, what a token bucket has saved before not counted;
    /// `None` when unlimited.
    pub fn bytes_between(&self, from: Time, to: Time) -> Option<u64> {
        match self {
            Capacity::Rate(rate) | Capacity::TokenBucket { rate, .. } => {
                Some(rate.bytes_in(to.since(from)))
            }
            Capacity::Schedule(schedule) => Some(schedule.bytes_between(from, to)),
            Capacity::Trace(trace) => Some(trace.bytes_between(from, to)),
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
    /// What passed since the bucket was last full says what is in it.
    TokenBucket {
        rate: Rate,
        burst_bytes: u64,
        full_at: Time,
        passed_bytes: u64,
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
    /// No packet waits.
    Unlimited,
}

impl Server {
    pub(crate) fn new(capacity: &Capacity) -> Self {
        match capacity {
            Capacity::Rate(rate) => Server::Rate {
                rate: *rate,
                free_at: Time::ZERO,
                ahead: 0,
            },
            Capacity::TokenBucket { rate, burst_bytes } => Server::TokenBucket {
                rate: *rate,
                burst_bytes: *burst_bytes,
                full_at: Time::ZERO,
                passed_bytes: 0,
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
                rate,
                burst_bytes,
                full_at,
                passed_bytes,
                free_at,
            } => {
                if start >= *full_at + rate.time_for(*passed_bytes) {
                    (*full_at, *passed_bytes) = (start, 0);
                }
                let size = u64::from(size_bytes);
                let missing = (*passed_bytes + size.min(*burst_bytes)).saturating_sub(*burst_bytes);
                *free_at = start.max(*full_at + rate.time_for(missing));
                *passed_bytes += size;
                *free_at
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
            Server::Unlimited => start,
        }
    }
}
