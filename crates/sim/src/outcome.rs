//! What a simulation found out.

use std::time::Duration;

use fairwater_net::Time;

/// Everything measured. Equal configurations give equal outcomes.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// In the order of [`crate::Config::flows`].
    pub flows: Vec<FlowOutcome>,
    /// In the order of [`crate::Config::edges`].
    pub edges: Vec<EdgeOutcome>,
    /// Packets that passed an edge, over all edges: what the simulator's speed is reckoned by.
    pub hops: u64,
    /// Events taken.
    pub events: u64,
    /// Reports that reached the plane.
    pub reports: u64,
    /// Flows that went under the fallback, each time counted.
    pub fallbacks: u64,
    /// What the plane had to say, with the time: faults, algorithms that failed.
    pub notices: Vec<(Time, String)>,
}

/// One flow, from [`crate::Measure::from`] to the end.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FlowOutcome {
    /// Payload bytes that the receiver had in order.
    pub delivered_bytes: u64,
    /// Payload bytes sent, those sent again included.
    pub sent_bytes: u64,
    /// Segments sent.
    pub segments: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Segments marked CE on arrival.
    pub marked: u64,
    /// RTT samples: the least, the mean, and 50, 95 and 99 of 100, µs.
    pub rtt_us: Quantiles,
    /// Requests that were done, in the order they were done.
    pub requests: Vec<Request>,
    /// Requests begun and not done.
    pub unfinished: u64,
    /// At each [`crate::Measure::interval`].
    pub samples: Vec<Sample>,
}

/// A distribution in five numbers; zeros of nothing.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Quantiles {
    /// The least.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// 95 of 100 are at most this.
    pub p95: f64,
    /// 99 of 100 are at most this.
    pub p99: f64,
}

/// A request that was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// It was asked for.
    pub start: Time,
    /// Until its last byte was in order at the receiver.
    pub took: Duration,
    /// Its size.
    pub bytes: u64,
    /// The least time it could have taken, alone on its path: its first byte's way, the handshake
    /// if there is one, and its bytes at the bottleneck's rate.
    pub ideal: Duration,
}

/// A flow at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub at: Time,
    /// cwnd, bytes.
    pub cwnd: u64,
    /// Pacing rate, bytes/s; 0 is none.
    pub rate: u64,
    /// Smoothed RTT, µs; 0 before the first sample.
    pub srtt_us: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Payload bytes delivered in order since the sample before.
    pub delivered_bytes: u64,
    /// Segments sent again since the sample before.
    pub retransmissions: u64,
}

/// One edge, from [`crate::Measure::from`] to the end.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EdgeOutcome {
    /// Packets that left it.
    pub packets: u64,
    /// Their bytes, headers included.
    pub bytes: u64,
    /// Packets that its queue dropped.
    pub dropped: u64,
    /// Packets lost at random.
    pub lost: u64,
    /// Packets that its queue marked.
    pub marked: u64,
    /// The share of what it could carry that it carried, 0 to 1; 0 when it is unlimited.
    pub utilisation: f64,
    /// Time in the queue of the packets that left, µs.
    pub queueing_us: Quantiles,
    /// At each [`crate::Measure::interval`].
    pub samples: Vec<EdgeSample>,
}

/// An edge over an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EdgeSample {
    /// The interval's end.
    pub at: Time,
    /// Bytes that left in it.
    pub bytes: u64,
    /// Bytes that wait in the queue at its end.
    pub queued_bytes: u64,
    /// Mean time in the queue of the packets that left in it, µs; `None` when none did.
    pub queueing_us: Option<f64>,
    /// Packets dropped or lost in it.
    pub dropped: u64,
    /// Packets marked in it.
    pub marked: u64,
}
