//! What serves a queue: a constant rate, a delivery trace, or nothing that takes time.

use std::sync::Arc;

use crate::{DeliveryTrace, OPPORTUNITY_BYTES, Rate, Time};

/// What a link can carry.
#[derive(Debug, Clone)]
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

/// When one packet is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Service {
    /// It leaves the queue.
    pub(crate) start: Time,
    /// Its last bit leaves the bottleneck.
    pub(crate) end: Time,
}

/// Serves packets one after another. Each service follows from the arrivals alone, never from
/// when anybody asked.
#[derive(Debug)]
pub(crate) enum Server {
    /// Service of a packet starts at the later of its arrival and the end of the one before.
    /// Ends are reckoned from the start of the busy period, so that rounding does not add up.
    Rate {
        rate: Rate,
        busy_since: Time,
        busy_bytes: u64,
        free_at: Time,
    },
    /// A packet passes at the opportunity that carries its last byte. What an opportunity leaves
    /// over serves packets that waited for it, and is lost otherwise.
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
                busy_since: Time::ZERO,
                busy_bytes: 0,
                free_at: Time::ZERO,
            },
            Capacity::Trace(trace) => Server::Trace {
                trace: Arc::clone(trace),
                opportunity: 0,
                bytes_left: OPPORTUNITY_BYTES,
            },
            Capacity::Unlimited => Server::Unlimited,
        }
    }

    /// Serves the next packet, which arrived at `arrival`, not before the one before it.
    pub(crate) fn serve(&mut self, arrival: Time, size_bytes: u32) -> Service {
        match self {
            Server::Rate {
                rate,
                busy_since,
                busy_bytes,
                free_at,
            } => {
                if arrival > *free_at {
                    *busy_since = arrival;
                    *busy_bytes = 0;
                    *free_at = arrival;
                }
                let start = *free_at;
                *busy_bytes += u64::from(size_bytes);
                *free_at = *busy_since + rate.time_for(*busy_bytes);
                Service {
                    start,
                    end: *free_at,
                }
            }
            Server::Trace {
                trace,
                opportunity,
                bytes_left,
            } => {
                if trace.time_of(*opportunity) < arrival {
                    *opportunity = trace.first_at_or_after(arrival);
                    *bytes_left = OPPORTUNITY_BYTES;
                }
                let mut size = u64::from(size_bytes);
                while size > *bytes_left {
                    size -= *bytes_left;
                    *opportunity += 1;
                    *bytes_left = OPPORTUNITY_BYTES;
                }
                *bytes_left -= size;
                let at = trace.time_of(*opportunity);
                Service { start: at, end: at }
            }
            Server::Unlimited => Service {
                start: arrival,
                end: arrival,
            },
        }
    }
}
