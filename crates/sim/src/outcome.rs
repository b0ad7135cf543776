//! Results of a simulation.

use std::time::Duration;

use fairwater_net::Time;

use fairwater_edge::EdgeStatistics;
use fairwater_experiment::NodeId;
use fairwater_tcp::State;

/// Everything measured. Equal configurations give equal outcomes.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// In the order of [`crate::Experiment::flows`].
    pub flows: Vec<FlowOutcome>,
    /// In the order of [`crate::Experiment::edges`].
    pub edges: Vec<EdgeOutcome>,
    /// Packets that passed an edge, over all edges: the measure of the simulator's speed.
    pub hops: u64,
    /// Events taken.
    pub events: u64,
    /// Reports that reached the plane.
    pub reports: u64,
    /// Flows that went under the fallback, each time counted.
    pub fallbacks: u64,
    /// What the boxes at hosts' edges have seen, by host.
    pub host_edges: Vec<(NodeId, EdgeStatistics)>,
    /// Notices of the plane, with the time: faults, algorithms that failed.
    pub notices: Vec<(Time, String)>,
}

/// One flow, from [`crate::Measure::from`] to the end.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FlowOutcome {
    /// Payload bytes that the receiver had in order.
    pub delivered_bytes: u64,
    /// Payload bytes sent, including retransmissions.
    pub sent_bytes: u64,
    /// Segments sent.
    pub segments: u64,
    /// Segments retransmitted.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Segments marked CE on arrival.
    pub marked: u64,
    /// RTT samples, µs; `None` without a sample.
    pub rtt_us: Option<Quantiles>,
    /// Finished requests, in the order in which they finished.
    pub requests: Vec<Request>,
    /// Requests begun and not finished.
    pub unfinished: u64,
    /// Time that the flow ran without its algorithm; `None` of none.
    pub fallback: Option<Fallback>,
    /// At each [`crate::Measure::interval`].
    pub samples: Vec<Sample>,
}

/// Time that the datapath's fallback controlled a flow in its algorithm's place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fallback {
    /// The share of the time that an algorithm was to control the flow, 0 to 1.
    pub share: f64,
    /// Whether the algorithm or its program failed; else the plane was silent.
    pub is_for_good: bool,
}

/// A distribution in five numbers.
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

/// A finished request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// When the application asked for it.
    pub start: Time,
    /// Until its last byte was in order at the receiver.
    pub took: Duration,
    /// Its size.
    pub bytes: u64,
    /// Lower bound of `took`, alone on the path: propagation, the handshake if there is one, and the
    /// bytes at the bottleneck's rate.
    pub ideal: Duration,
}

/// A flow at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub at: Time,
    /// cwnd, bytes; behind a box the window that it tells the sender, if that is less.
    pub cwnd: u64,
    /// Slow-start threshold, bytes; `None` while a sender has none, and under the plane, whose
    /// programs keep their own.
    pub ssthresh: Option<u64>,
    /// Congestion state: the worst among the flow's open connections; `None` when none is open.
    pub state: Option<State>,
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
    /// Packets that arrived. At all times, `offered + queued_before` is
    /// `packets + dropped + lost + queued_after`.
    pub offered: u64,
    /// Packets in the queue or being sent at [`crate::Measure::from`].
    pub queued_before: u64,
    /// Packets in the queue or being sent at the end.
    pub queued_after: u64,
    /// Packets that left the bottleneck.
    pub packets: u64,
    /// Their bytes, headers included.
    pub bytes: u64,
    /// Packets that its queue dropped.
    pub dropped: u64,
    /// Packets lost at random.
    pub lost: u64,
    /// Packets that its queue marked.
    pub marked: u64,
    /// Share of its capacity that the edge carried, 0 to 1; 0 when the capacity is unlimited.
    pub utilisation: f64,
    /// Time in the queue of the packets that left, µs; `None` when none did.
    pub queueing_us: Option<Quantiles>,
    /// At each [`crate::Measure::interval`].
    pub samples: Vec<EdgeSample>,
}

/// An edge over an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EdgeSample {
    /// The interval's end.
    pub at: Time,
    /// Bytes that left in the interval.
    pub bytes: u64,
    /// Bytes in the queue at its end.
    pub queued_bytes: u64,
    /// Mean time in the queue of the packets that left in it, µs; `None` when none did.
    pub queueing_us: Option<f64>,
    /// Packets dropped or lost in the interval.
    pub dropped: u64,
    /// Packets marked in the interval.
    pub marked: u64,
}
