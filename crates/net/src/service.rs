//! What serves a queue: a rate, a delivery trace, or nothing that takes time.

use std::sync::Arc;

use crate::{DeliveryTrace, OPPORTUNITY_BYTES, Rate, Time};

/// What a link can carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Capacity {
    /// A constant rate.
    Rate(Rate),
    /// The opportunities of a trace.
    Trace(Arc<DeliveryTrace>),
    /// Each packet passes at once.
    Unlimited,
}

impl Capacity {
    /// The rate that bandwidth-delay products are reckoned with: a trace's is its mean.
    pub fn mean_rate(&self) -> Option<Rate> {
        match self {
            Capacity::Rate(rate) => Some(*rate),
            Capacity::Trace(trace) => Some(trace.mean_rate()),
            Capacity::Unlimited => None,
        }
    }

    /// Bytes that could pass in `[from, to)`; `None` when unlimited.
    pub fn bytes_between(&self, from: Time, to: Time) -> Option<u64> {
        match self {
            Capacity::Rate(rate) => Some(rate.bytes_in(to.since(from))),
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
            Capacity::Trace(trace) => Server::Trace {
                trace: Arc::clone(trace),
                opportunity: 0,
                bytes_left: OPPORTUNITY_BYTES,
            },
            Capacity::Unlimited => Server::Unlimited,
        }
    }

    /// When service of a packet that waits since `ready` starts, whichever it is.
    pub(crate) fn next_start(&mut self, ready: Time) -> Time {
        match self {
            Server::Rate { free_at, .. } => ready.max(*free_at),
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
