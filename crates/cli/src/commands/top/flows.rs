//! Flows with their delivery rates, from two samples of the kernel side.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use fairwater_hosting::bundle::BundleRow;
use fairwater_linux::observe::{AggregateSnapshot, FlowSnapshot, PlaneSnapshot};
use serde::Serialize;

/// One flow.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Row {
    /// The congestion control's name, `fw_cubic`.
    pub(super) algorithm: String,
    /// The plane's process.
    pub(super) pid: u32,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) state: &'static str,
    /// The program that runs; empty before the first.
    pub(super) program: String,
    /// The flow's aggregate; `None` for a flow with a controller of its own.
    pub(super) aggregate: Option<Aggregate>,
    pub(super) cwnd_bytes: u64,
    /// `None` when only the window limits the flow.
    pub(super) rate_bits_per_s: Option<u64>,
    /// Smoothed RTT; 0 before the first sample.
    pub(super) srtt_us: u64,
    /// Rate acknowledged between the two samples; `None` for a new flow.
    pub(super) delivery_bits_per_s: Option<u64>,
    /// `None` where the datapath does not count them.
    pub(super) bytes_acked: Option<u64>,
    /// `None` where the datapath does not tell.
    pub(super) age_us: Option<u64>,
}

/// Aggregate of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Aggregate {
    /// Number, unique within plane and algorithm; reused after the aggregate has ended.
    pub(super) number: u32,
    /// What its flows have in common.
    pub(super) key: String,
    /// Number of its flows.
    pub(super) flows: usize,
}

/// One plane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct PlaneRow {
    pub(super) algorithm: String,
    pub(super) pid: u32,
    /// Whether its process lives and its heartbeat is fresh.
    pub(super) alive: bool,
    pub(super) flows: usize,
    /// Groups of flows that share a controller.
    pub(super) aggregates: usize,
    /// Flows that found no slot and stayed under Cubic in the kernel.
    pub(super) without_slot: u32,
    /// Times that a flow went under Cubic in the kernel because the plane was silent.
    pub(super) fallbacks: u32,
}

/// All planes and flows at one time, with rates since the sample before.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(super) struct TopSample {
    pub(super) planes: Vec<PlaneRow>,
    /// The fastest first.
    pub(super) flows: Vec<Row>,
    /// Bundles at sendboxes, the fastest first.
    pub(super) bundles: Vec<BundleRow>,
}

/// A flow of a plane, by the plane's name and process, slot and generation.
type Key = (String, u32, (u32, u32));

/// A flow that a plane tells of.
#[derive(Debug)]
pub(super) struct ToldFlow {
    /// The plane's number of the flow, and its generation.
    pub(super) id: (u32, u32),
    pub(super) row: Row,
}

/// Computes rates from successive samples.
#[derive(Debug, Default)]
pub(super) struct RateTracker {
    acked: HashMap<Key, u64>,
}

impl RateTracker {
    /// A sample, `elapsed` after the last. A plane that is gone is shown while it has flows.
    pub(super) fn sample(
        &mut self,
        planes: &[PlaneSnapshot],
        told: Vec<ToldFlow>,
        elapsed: Duration,
    ) -> TopSample {
        let mut acked = HashMap::new();
        let mut sample = TopSample::default();
        for plane in planes
            .iter()
            .filter(|plane| plane.alive || !plane.flows.is_empty())
        {
            let sizes = sizes(&plane.flows);
            sample.planes.push(PlaneRow {
                algorithm: plane.name.clone(),
                pid: plane.pid,
                alive: plane.alive,
                flows: plane.flows.len(),
                aggregates: sizes.len(),
                without_slot: plane.without_slot,
                fallbacks: plane.fallbacks,
            });
            for flow in &plane.flows {
                let key = (plane.name.clone(), plane.pid, flow.id);
                let delivery = self.delivery(&key, flow.bytes_acked, elapsed);
                acked.insert(key, flow.bytes_acked);
                sample.flows.push(row(plane, flow, &sizes, delivery));
            }
        }
        for ToldFlow { id, mut row } in told {
            let key = (row.algorithm.clone(), row.pid, id);
            if let Some(bytes) = row.bytes_acked {
                row.delivery_bits_per_s = self.delivery(&key, bytes, elapsed);
                acked.insert(key, bytes);
            }
            sample.flows.push(row);
        }
        sample
            .flows
            .sort_by_key(|row| std::cmp::Reverse(row.delivery_bits_per_s));
        self.acked = acked;
        sample
    }

    fn delivery(&self, key: &Key, bytes_acked: u64, elapsed: Duration) -> Option<u64> {
        let before = self.acked.get(key)?;
        bits_per_s(bytes_acked.saturating_sub(*before), elapsed)
    }
}

fn bits_per_s(bytes: u64, elapsed: Duration) -> Option<u64> {
    let us = elapsed.as_micros();
    let rate = (u128::from(bytes) * 8_000_000).checked_div(us)?;
    u64::try_from(rate).ok()
}

/// How many flows each aggregate has, by its number.
fn sizes(flows: &[FlowSnapshot]) -> HashMap<u32, usize> {
    let mut sizes = HashMap::new();
    for aggregate in flows.iter().filter_map(|flow| flow.aggregate.as_ref()) {
        *sizes.entry(aggregate.number).or_default() += 1;
    }
    sizes
}

fn row(
    plane: &PlaneSnapshot,
    flow: &FlowSnapshot,
    sizes: &HashMap<u32, usize>,
    delivery_bits_per_s: Option<u64>,
) -> Row {
    let aggregate = |aggregate: &AggregateSnapshot| Aggregate {
        number: aggregate.number,
        key: aggregate.key.clone(),
        flows: sizes.get(&aggregate.number).copied().unwrap_or(1),
    };
    Row {
        algorithm: plane.name.clone(),
        pid: plane.pid,
        local: flow.local,
        remote: flow.remote,
        state: flow.state.name(),
        program: flow.program.clone(),
        aggregate: flow.aggregate.as_ref().map(aggregate),
        cwnd_bytes: flow.cwnd,
        rate_bits_per_s: (flow.rate > 0).then(|| flow.rate.saturating_mul(8)),
        srtt_us: flow.srtt_us,
        delivery_bits_per_s,
        bytes_acked: Some(flow.bytes_acked),
        age_us: Some(flow.age_us),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use fairwater_linux::FlowState;

    use super::*;

    pub(in crate::commands::top) fn flow(slot: u32, bytes_acked: u64) -> FlowSnapshot {
        FlowSnapshot {
            id: (slot, 1),
            local: "10.0.0.1:4000".parse().unwrap(),
            remote: format!("10.0.0.2:{}", 5000 + slot).parse().unwrap(),
            cwnd: 144_800,
            rate: 0,
            srtt_us: 20_110,
            bytes_acked,
            program: "cubic".into(),
            state: FlowState::Running,
            age_us: 3_000_000,
            aggregate: None,
        }
    }

    /// A flow of an aggregate.
    pub(in crate::commands::top) fn member(slot: u32, number: u32, key: &str) -> FlowSnapshot {
        FlowSnapshot {
            aggregate: Some(AggregateSnapshot {
                number,
                key: key.to_owned(),
            }),
            ..flow(slot, 0)
        }
    }

    pub(in crate::commands::top) fn plane(flows: Vec<FlowSnapshot>) -> PlaneSnapshot {
        PlaneSnapshot {
            name: "fw_cubic".into(),
            pid: 42,
            alive: true,
            without_slot: 0,
            fallbacks: 0,
            flows,
        }
    }

    #[test]
    fn delivery_rates_are_what_was_acknowledged_between_samples() {
        let mut tracker = RateTracker::default();
        let first = tracker.sample(
            &[plane(vec![flow(0, 1000), flow(1, 0)])],
            vec![],
            Duration::ZERO,
        );
        assert!(
            first
                .flows
                .iter()
                .all(|row| row.delivery_bits_per_s.is_none())
        );
        let second = [plane(vec![flow(0, 1000), flow(1, 6_000_000), flow(2, 77)])];
        let sample = tracker.sample(&second, vec![], Duration::from_secs(2));
        let rates: Vec<_> = sample
            .flows
            .iter()
            .map(|r| (r.remote.port(), r.delivery_bits_per_s))
            .collect();
        assert_eq!(
            rates,
            [(5001, Some(24_000_000)), (5000, Some(0)), (5002, None)]
        );
    }

    #[test]
    fn what_a_plane_tells_of_has_rates_too() {
        let told = |bytes: u64| {
            let plane = plane(vec![flow(0, bytes)]);
            let row = row(&plane, &plane.flows[0], &HashMap::new(), None);
            vec![ToldFlow { id: (0, 1), row }]
        };
        let mut tracker = RateTracker::default();
        let first = tracker.sample(&[], told(1000), Duration::ZERO);
        assert_eq!(first.flows[0].delivery_bits_per_s, None);
        let second = tracker.sample(&[], told(3_001_000), Duration::from_secs(1));
        assert_eq!(second.flows[0].delivery_bits_per_s, Some(24_000_000));
    }

    #[test]
    fn a_plane_that_is_gone_is_shown_for_its_flows_only() {
        let gone = |flows| PlaneSnapshot {
            alive: false,
            ..plane(flows)
        };
        let planes = [gone(vec![]), gone(vec![flow(0, 0)]), plane(vec![])];
        let sample = RateTracker::default().sample(&planes, vec![], Duration::ZERO);
        let shown: Vec<_> = sample.planes.iter().map(|p| (p.alive, p.flows)).collect();
        assert_eq!(shown, [(false, 1), (true, 0)]);
    }

    #[test]
    fn a_flow_tells_its_aggregate_and_how_many_are_in_it() {
        let flows = vec![
            member(0, 0, "to 10.0.0.2"),
            flow(1, 0),
            member(2, 1, "to 10.0.0.3"),
            member(3, 0, "to 10.0.0.2"),
        ];
        // Numbers are the plane's own.
        let mut other = plane(vec![member(0, 0, "tag 7")]);
        other.pid = 43;
        let sample = RateTracker::default().sample(&[plane(flows), other], vec![], Duration::ZERO);
        let counts: Vec<_> = sample.planes.iter().map(|p| p.aggregates).collect();
        assert_eq!(counts, [2, 1]);
        let shown: Vec<_> = sample
            .flows
            .iter()
            .map(|row| row.aggregate.as_ref().map(|a| (a.key.as_str(), a.flows)))
            .collect();
        let of_first = Some(("to 10.0.0.2", 2));
        let expected = [
            of_first,
            None,
            Some(("to 10.0.0.3", 1)),
            of_first,
            Some(("tag 7", 1)),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_slot_given_out_again_is_another_flow() {
        let mut tracker = RateTracker::default();
        tracker.sample(&[plane(vec![flow(0, 1_000_000)])], vec![], Duration::ZERO);
        let mut next = flow(0, 10);
        next.id = (0, 2);
        let sample = tracker.sample(&[plane(vec![next])], vec![], Duration::from_secs(1));
        assert_eq!(sample.flows[0].delivery_bits_per_s, None);
    }

    #[test]
    fn no_rate_is_not_a_rate_of_zero() {
        let mut paced = flow(1, 0);
        paced.rate = 1_000_000;
        let sample = RateTracker::default().sample(
            &[plane(vec![flow(0, 0), paced])],
            vec![],
            Duration::ZERO,
        );
        let rates: Vec<_> = sample.flows.iter().map(|row| row.rate_bits_per_s).collect();
        assert_eq!(rates, [None, Some(8_000_000)]);
    }
}
