//! The result of one run of a scenario: a point of its grid.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::comparison::CongestionState;
use crate::fallback::Fallback;
use crate::size_class::RequestResult;
use crate::spread::Spread;

/// One run: a point of a scenario's grid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PointResult {
    /// Its place in the grid.
    pub point: usize,
    /// The variables of the sweep, as text.
    pub variables: BTreeMap<String, String>,
    /// The seed.
    pub seed: u64,
    /// The back end that ran it: `sim` or `linux`.
    pub backend: String,
    /// The time measured, seconds.
    pub measured_s: f64,
    /// Jain's index of fairness of all flows' throughput, 0 to 1.
    pub jain: f64,
    /// One a `[[flow]]`.
    pub groups: Vec<GroupResult>,
    /// One a flow.
    pub flows: Vec<FlowResult>,
    /// One a direction of each link. On real TCP, the bottleneck alone.
    pub edges: Vec<EdgeResult>,
    /// Whether the machine disturbed the run in each of its tries: what it measured is of no worth then.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub disturbed: bool,
    /// What the plane had to say, and what disturbed the run.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notices: Vec<String>,
}

/// The flows of one `[[flow]]` together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupResult {
    /// Its name.
    pub name: String,
    /// Who decided, as the scenario has it.
    pub algorithm: String,
    /// How many flows.
    pub flows: usize,
    /// Payload of all of them, bits/s. On real TCP, of IP packets.
    pub throughput_bps: f64,
    /// Jain's index of their throughput.
    pub jain: f64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Segments that arrived marked.
    pub marked: u64,
    /// Requests that were not done at the end.
    pub unfinished: u64,
    /// Requests that were done: all, and by their size.
    pub requests: Vec<RequestClass>,
    /// Each request that was done, in the order of completion, if asked for.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub completions: Vec<RequestResult>,
}

/// Requests of one size class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestClass {
    /// `all`, or the sizes: `10-100kB`.
    pub class: String,
    /// How many were done.
    pub count: u64,
    /// The time each took, µs: the flow completion time.
    pub fct_us: Spread,
    /// That time over the least possible.
    pub slowdown: Spread,
}

/// One flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowResult {
    /// Its name.
    pub name: String,
    /// Index of its group.
    pub group: usize,
    /// Payload delivered in order, bits/s. On real TCP, IP packets that left the bottleneck.
    pub throughput_bps: f64,
    /// Segments sent; 0 where they were not counted.
    pub segments: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Segments that arrived marked.
    pub marked: u64,
    /// RTT samples, µs; `None` where they were not taken.
    pub rtt_us: Option<Spread>,
    /// Time its packets spent in the bottleneck's queue, µs; `None` where it was not measured by flow.
    pub queueing_us: Option<Spread>,
    /// Whether and why the flow ran without its algorithm for part of the time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fallback: Option<Fallback>,
    /// The flow in time, if asked for.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub samples: Vec<FlowSample>,
}

/// One direction of a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EdgeResult {
    /// Its name.
    pub name: String,
    /// What left it, IP packets' bits/s.
    pub throughput_bps: f64,
    /// The share of what it could carry, 0 to 1; 0 when it is unlimited.
    pub utilisation: f64,
    /// Packets that left it.
    pub packets: u64,
    /// Packets that its queue dropped.
    pub dropped: u64,
    /// Packets lost at random.
    pub lost: u64,
    /// Packets that its queue marked.
    pub marked: u64,
    /// Time in its queue, µs; `None` where flows were only measured apart.
    pub queueing_us: Option<Spread>,
    /// The edge in time, if asked for.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub samples: Vec<EdgeSample>,
    /// The bundles of flows that sent packets over it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub bundles: Vec<BundleResult>,
}

/// A bundle of flows at one edge: what estimates of its rate and delay are held against.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BundleResult {
    /// Its name.
    pub bundle: String,
    /// What left, IP packets' bits/s.
    pub throughput_bps: f64,
    /// Its packets that left.
    pub packets: u64,
    /// Its packets that the queue dropped, or that were lost at random.
    pub dropped: u64,
    /// Time in the queue, µs; `None` when none left.
    pub queueing_us: Option<Spread>,
    /// The bundle in time, if asked for.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub samples: Vec<BundleSample>,
}

/// A bundle at an edge over an interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BundleSample {
    /// The interval's end, seconds.
    pub at_s: f64,
    /// What arrived, bits/s, drops included.
    pub arrived_bps: f64,
    /// What left, bits/s.
    pub throughput_bps: f64,
    /// Mean time in the queue of what left, µs; `None` when nothing did.
    pub queueing_us: Option<f64>,
    /// Bytes that wait at the interval's end.
    pub queued_bytes: u64,
    /// Packets dropped or lost.
    pub dropped: u64,
}

/// A flow at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FlowSample {
    /// When, seconds.
    pub at_s: f64,
    /// cwnd, bytes.
    pub cwnd_bytes: u64,
    /// Slow-start threshold, bytes; `None` where the sender has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ssthresh_bytes: Option<u64>,
    /// The sender's congestion state; `None` where it is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state: Option<CongestionState>,
    /// Pacing rate, bits/s; 0 is none.
    pub pacing_bps: u64,
    /// Smoothed RTT, µs.
    pub srtt_us: u64,
    /// Payload delivered since the sample before, bits/s.
    pub throughput_bps: f64,
}

/// An edge over an interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EdgeSample {
    /// The interval's end, seconds.
    pub at_s: f64,
    /// What left, bits/s.
    pub throughput_bps: f64,
    /// Mean time in the queue of what left, µs; `None` when nothing did.
    pub queueing_us: Option<f64>,
    /// Bytes that wait at the interval's end.
    pub queued_bytes: u64,
    /// Packets dropped or lost.
    pub dropped: u64,
    /// Packets marked.
    pub marked: u64,
}

impl PointResult {
    /// Without what is in time: what `results.jsonl` has.
    #[must_use]
    pub fn summary(&self) -> PointResult {
        let mut summary = self.clone();
        for group in &mut summary.groups {
            group.completions.clear();
        }
        for flow in &mut summary.flows {
            flow.samples.clear();
        }
        for edge in &mut summary.edges {
            edge.samples.clear();
            for bundle in &mut edge.bundles {
                bundle.samples.clear();
            }
        }
        summary
    }

    /// The edges that show something: those with a capacity that is used, or with a queue.
    pub fn used_edges(&self) -> impl Iterator<Item = &EdgeResult> {
        let waits = |edge: &EdgeResult| edge.queueing_us.is_some_and(|spread| spread.p95 > 0.0);
        let edges = self.edges.iter();
        edges.filter(move |edge| edge.utilisation > 0.0 || waits(edge))
    }

    /// The busiest edge, whose queue matters.
    #[must_use]
    pub fn bottleneck(&self) -> Option<&EdgeResult> {
        // Of equals the first; the unlimited have a utilisation of 0.
        let mut found: Option<&EdgeResult> = None;
        for edge in &self.edges {
            if found.is_none_or(|before| edge.utilisation > before.utilisation) {
                found = Some(edge);
            }
        }
        found
    }

    /// The mean over the groups of what `of` takes of all their requests, each group as heavy as it
    /// has requests; `None` of no request.
    #[must_use]
    pub fn of_requests(&self, of: impl Fn(&RequestClass) -> f64) -> Option<f64> {
        let all = self
            .groups
            .iter()
            .filter_map(|group| group.requests.first());
        let (sum, count) = all.fold((0.0, 0.0), |(sum, count), class| {
            let weight = class.count as f64;
            (sum + of(class) * weight, count + weight)
        });
        (count > 0.0).then(|| sum / count)
    }
}
