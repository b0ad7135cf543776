//! What the flows of a trial did in a period.

use std::collections::{BTreeSet, HashMap};

use fairwater_plane::FlowId;

use crate::flow_status::{FlowCounts, FlowStatus};

/// Bytes of a packet, to tell one retransmission from none.
const PACKET_BYTES: f64 = 1448.0;

/// Counts of all flows at one time.
#[derive(Debug, Clone)]
pub(super) struct Totals {
    at_us: u64,
    treated: HashMap<FlowId, FlowCounts>,
    stayed: HashMap<FlowId, FlowCounts>,
}

/// What a period measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measured {
    /// Goodput of the flows that change, bytes/s.
    pub(super) goodput: f64,
    /// Their 99th percentile RTT, µs.
    pub(super) rtt_p99_us: Option<f64>,
    /// Part of what they sent that was sent again.
    pub(super) retransmitted: f64,
    /// What one packet would have been of that.
    pub(super) one_packet: f64,
    /// Goodput of the flows that stayed, bytes/s, if there are any.
    pub(super) stayed: Option<f64>,
}

impl Totals {
    pub(super) fn of(flows: &[FlowStatus], treated: &BTreeSet<FlowId>, at_us: u64) -> Self {
        let counted = flows
            .iter()
            .filter_map(|flow| Some((flow.id(), flow.measures.counts?)));
        let (treated, stayed) = counted.partition(|(flow, _)| treated.contains(flow));
        Self {
            at_us,
            treated,
            stayed,
        }
    }
}

impl Measured {
    /// Between two times; only flows that were there at both count.
    pub(super) fn between(start: &Totals, end: &Totals, rtts_us: &mut [u64]) -> Self {
        let seconds = end.at_us.saturating_sub(start.at_us).max(1) as f64 / 1e6;
        let (bytes, packets) = grown(&start.treated, &end.treated);
        let (stayed, _) = grown(&start.stayed, &end.stayed);
        let remained = end
            .stayed
            .keys()
            .any(|flow| start.stayed.contains_key(flow));
        let sent_packets = (bytes as f64 / PACKET_BYTES).max(1.0);
        rtts_us.sort_unstable();
        let p99 = rtts_us.get(rtts_us.len().saturating_sub(1) * 99 / 100);
        Self {
            goodput: bytes as f64 / seconds,
            rtt_p99_us: p99.map(|rtt_us| *rtt_us as f64),
            retransmitted: packets as f64 / sent_packets,
            one_packet: 1.0 / sent_packets,
            stayed: remained.then_some(stayed as f64 / seconds),
        }
    }
}

/// Bytes acknowledged and packets retransmitted since.
fn grown(start: &HashMap<FlowId, FlowCounts>, end: &HashMap<FlowId, FlowCounts>) -> (u64, u64) {
    let both = end
        .iter()
        .filter_map(|(flow, now)| Some((start.get(flow)?, now)));
    both.fold((0, 0), |(bytes, packets), (before, now)| {
        (
            bytes + now.bytes_acked.saturating_sub(before.bytes_acked),
            packets + now.retransmitted.saturating_sub(before.retransmitted),
        )
    })
}

/// The latest RTT samples of these flows, µs.
pub(super) fn rtts_us<'f>(
    flows: &'f [FlowStatus],
    treated: &'f BTreeSet<FlowId>,
) -> impl Iterator<Item = u64> + 'f {
    flows
        .iter()
        .filter(move |flow| treated.contains(&flow.id()))
        .filter_map(|flow| flow.measures.counts.map(|counts| counts.rtt_us))
        .filter(|rtt_us| *rtt_us > 0)
}

/// Median smoothed RTT of these flows, µs; 0 if none is known.
pub(super) fn median_srtt_us(flows: &[FlowStatus], treated: &BTreeSet<FlowId>) -> u64 {
    let known = flows.iter().filter(|flow| treated.contains(&flow.id()));
    let mut srtts: Vec<_> = known
        .map(|flow| flow.measures.srtt_us)
        .filter(|srtt| *srtt > 0)
        .collect();
    srtts.sort_unstable();
    srtts.get(srtts.len() / 2).copied().unwrap_or(0)
}
