//! The rates at which the same packets were sent and received, and the cross traffic that they tell of
//! ("Elasticity detection", §3.1).

use std::collections::VecDeque;

/// Window of the reports kept, µs: the longest window of rates, and the round trip before it, in which
/// its packets were sent.
const SPAN_US: u64 = 5_000_000;

/// What had been sent and what had left the pipe by some time.
#[derive(Debug, Clone, Copy)]
struct Point {
    time_us: u64,
    sent: f64,
    /// Delivered or lost.
    gone: f64,
    delivered: f64,
}

/// The rates of one stretch of packets, bytes/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rates {
    /// S: at which they were sent.
    pub(crate) sent: f64,
    /// R: at which they were received.
    pub(crate) received: f64,
    /// The share of them that was lost, which neither rate counts.
    pub(crate) lost: f64,
}

impl Rates {
    /// z: in a FIFO that never empties, S and z share the rate μ as S and R say.
    pub(crate) fn cross(&self, capacity: f64) -> f64 {
        (capacity * self.sent / self.received - self.sent).clamp(0.0, capacity)
    }
}

/// The flow's past, from which S and R are taken: of the same packets, over as short a stretch as
/// one likes. (Rate samples of a datapath are of a whole round trip, whose mean hides pulses where
/// it is as long as they are.)
#[derive(Debug, Clone)]
pub(crate) struct History {
    points: VecDeque<Point>,
    kept: usize,
}

impl History {
    /// Of reports this often, µs.
    pub(crate) fn new(report_us: u64) -> Self {
        let kept = (SPAN_US / report_us.max(1)).max(2) as usize;
        Self {
            points: VecDeque::with_capacity(kept),
            kept,
        }
    }

    /// A report, at an ACK: bytes delivered and lost since the last, and bytes in flight. Packets
    /// leave by steps, and the ACK comes amid one: on average half a packet more is sent. At the
    /// low of a pulse, where packets are far apart, that matters.
    pub(crate) fn report(
        &mut self,
        time_us: u64,
        (delivered, lost): (u64, u64),
        in_flight: u64,
        mss: f64,
    ) {
        let in_flight = in_flight as f64 + mss / 2.0;
        let (delivered, gone) = (delivered as f64, delivered as f64 + lost as f64);
        let last = self.points.back().copied();
        if last.is_some_and(|l| time_us <= l.time_us) {
            // Two at one time are one.
            if let Some(back) = self.points.back_mut() {
                back.gone += gone;
                back.delivered += delivered;
                back.sent = back.sent.max(back.gone + in_flight);
            }
            return;
        }
        let gone = last.map_or(0.0, |l| l.gone) + gone;
        let delivered = last.map_or(0.0, |l| l.delivered) + delivered;
        let sent = (gone + in_flight).max(last.map_or(0.0, |l| l.sent));
        if self.points.len() == self.kept {
            self.points.pop_front();
        }
        self.points.push_back(Point {
            time_us,
            sent,
            gone,
            delivered,
        });
    }

    /// The rates of the packets that came back within the last `window_us`; `None` when they are
    /// too few, or were sent before what is remembered.
    pub(crate) fn rates(&self, window_us: u64, mss: f64) -> Option<Rates> {
        let last = self.points.back()?;
        let from = last.time_us.saturating_sub(window_us);
        let first = self.points.iter().rev().find(|p| p.time_us <= from)?;
        let bytes = last.delivered - first.delivered;
        if bytes < 2.0 * mss {
            return None;
        }
        let (began, ended) = (self.sent_at(first.gone)?, self.sent_at(last.gone)?);
        let sending_us = ended - began;
        let receiving_us = (last.time_us - first.time_us) as f64;
        (sending_us > 0.0).then(|| Rates {
            sent: bytes * 1e6 / sending_us,
            received: bytes * 1e6 / receiving_us,
            lost: 1.0 - bytes / (last.gone - first.gone),
        })
    }

    /// Time by which this many bytes had been sent, µs.
    fn sent_at(&self, bytes: f64) -> Option<f64> {
        let after = self.points.partition_point(|p| p.sent < bytes);
        let (a, b) = (
            self.points.get(after.checked_sub(1)?)?,
            self.points.get(after)?,
        );
        let share = (bytes - a.sent) / (b.sent - a.sent);
        Some(a.time_us as f64 + share * (b.time_us - a.time_us) as f64)
    }
}
