//! Results of a simulation.

use std::time::Duration;

use fairwater_net::Time;

use fairwater_bundle::Mode;
use fairwater_edge::EdgeStatistics;
use fairwater_edge::buffer::BufferStatistics;
use fairwater_experiment::NodeId;
use fairwater_plane::CarefulResumeStatus;
use fairwater_tcp::State;

/// Everything measured. Equal configurations give equal outcomes.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// In the order of [`crate::Experiment::flows`].
    pub flows: Vec<FlowOutcome>,
    /// In the order of [`crate::Experiment::edges`].
    pub edges: Vec<EdgeOutcome>,
    /// In the order of [`crate::Experiment::bundles`].
    pub sendboxes: Vec<SendboxOutcome>,
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
    /// What the boxes at hosts' edges have done themselves, by host.
    pub boxes: Vec<(NodeId, BoxOutcome)>,
    /// Notices of the plane, with the time: faults, algorithms that failed.
    pub notices: Vec<(Time, String)>,
    /// What Careful Resume did, if the plane resumes carefully.
    pub careful_resume: Option<CarefulResumeStatus>,
}

/// What a box at a host's edge has done itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BoxOutcome {
    /// What holding guests' data has done.
    pub buffers: BufferStatistics,
    /// Times that a selector asked for another algorithm.
    pub switches: u64,
    /// ACKs that guests got of bytes that their receiver did not have: a defect of the box.
    pub early_acks: u64,
    /// Packets of the box that cannot be read, or have other data than the guest sent: a defect of the box.
    pub altered_packets: u64,
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
    /// The bundles that sent packets over it, in the order in which flows name them.
    pub bundles: Vec<BundleOutcome>,
}

/// A bundle at an edge, from [`crate::Measure::from`] to the end: the truth that the estimates of
/// its boxes are held against.
#[derive(Debug, Clone, PartialEq)]
pub struct BundleOutcome {
    /// Its name.
    pub bundle: String,
    /// Its packets that left the bottleneck.
    pub packets: u64,
    /// Their bytes, headers included.
    pub bytes: u64,
    /// Its packets that the queue dropped, or that were lost at random.
    pub dropped: u64,
    /// Time in the queue of the packets that left, µs; `None` when none did.
    pub queueing_us: Option<Quantiles>,
    /// At each [`crate::Measure::interval`].
    pub samples: Vec<BundleSample>,
}

/// A bundle at an edge over an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BundleSample {
    /// The interval's end.
    pub at: Time,
    /// Bytes that arrived in the interval, those included that were dropped.
    pub arrived_bytes: u64,
    /// Bytes that left in the interval.
    pub bytes: u64,
    /// Bytes in the queue at its end.
    pub queued_bytes: u64,
    /// Mean time in the queue of the packets that left in it, µs; `None` when none did.
    pub queueing_us: Option<f64>,
    /// Packets dropped or lost in the interval.
    pub dropped: u64,
}

/// A bundle at its sendbox, from [`crate::Measure::from`] to the end.
#[derive(Debug, Clone, PartialEq)]
pub struct SendboxOutcome {
    /// The bundle's name.
    pub bundle: String,
    /// Its queue, measured as an edge without a capacity.
    pub queue: EdgeOutcome,
    /// Each change of its mode from the beginning, in a sentence.
    pub changes: Vec<(Time, String)>,
    /// At each [`crate::Measure::interval`].
    pub samples: Vec<SendboxSample>,
}

/// What a sendbox does and knows at a moment. [`BundleSample`] at the bottleneck is the truth beside it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SendboxSample {
    /// When.
    pub at: Time,
    /// What it does with the bundle's traffic.
    pub mode: Mode,
    /// The enforced rate, bytes/s; `None` if none is.
    pub rate: Option<u64>,
    /// Bytes in its queue.
    pub queued_bytes: u64,
    /// Bytes in flight behind it, as it reckons.
    pub in_flight_bytes: u64,
    /// The latest RTT between the boxes.
    pub rtt: Option<Duration>,
    /// The least of these lately.
    pub min_rtt: Option<Duration>,
    /// Estimate of the rate at which the bundle leaves the sendbox, bytes/s.
    pub send_rate: Option<f64>,
    /// Estimate of the rate at which it comes to the receivebox, bytes/s.
    pub receive_rate: Option<f64>,
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
