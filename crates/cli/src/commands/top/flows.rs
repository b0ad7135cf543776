//! Flows with their delivery rates: two looks at the kernel, compared.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use fairwater_linux::observe::{AggregateView, FlowView, PlaneView};
use serde::Serialize;

/// What `top` shows of one flow.
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
    /// Whom it shares a controller with; `None` for a flow by itself.
    pub(super) aggregate: Option<Aggregate>,
    pub(super) cwnd_bytes: u64,
    /// `None` when the window alone governs.
    pub(super) rate_bits_per_s: Option<u64>,
    /// Smoothed RTT; 0 before the first sample.
    pub(super) srtt_us: u64,
    /// What was acknowledged between the two looks; `None` for a flow that is new.
    pub(super) delivery_bits_per_s: Option<u64>,
    pub(super) bytes_acked: u64,
    pub(super) age_us: u64,
}

/// What `top` shows of the aggregate of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Aggregate {
    /// Tells it from others of the same plane; given out again when it has ended.
    pub(super) number: u32,
    /// What its flows have in common.
    pub(super) key: String,
    /// How many flows it has, this one among them.
    pub(super) flows: usize,
}

/// What `top` shows of one plane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct PlaneRow {
    pub(super) algorithm: String,
    pub(super) pid: u32,
    /// Whether its process lives and speaks.
    pub(super) alive: bool,
    pub(super) flows: usize,
    /// Groups of flows that share a controller.
    pub(super) aggregates: usize,
    /// Flows that found no slot and stayed under Reno in the kernel.
    pub(super) without_slot: u32,
    /// Times that a flow went under Reno in the kernel because the plane was silent.
    pub(super) fallbacks: u32,
}

/// One look, compared with the one before.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(super) struct Look {
    pub(super) planes: Vec<PlaneRow>,
    /// The fastest first.
    pub(super) flows: Vec<Row>,
}

/// A flow of a plane, by the plane's name and process, slot and generation.
type Key = (String, u32, (u32, u32));

/// Remembers what was acknowledged at the last look.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    acked: HashMap<Key, u64>,
}

impl Watcher {
    /// A look `elapsed` after the last. A plane that is gone is shown while it has flows.
    pub(super) fn look(&mut self, planes: &[PlaneView], elapsed: Duration) -> Look {
        let mut acked = HashMap::new();
        let mut look = Look::default();
        for plane in planes
            .iter()
            .filter(|plane| plane.alive || !plane.flows.is_empty())
        {
            let sizes = sizes(&plane.flows);
            look.planes.push(PlaneRow {
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
                let delivery = self.acked.get(&key).and_then(|before| {
                    bits_per_s(flow.bytes_acked.saturating_sub(*before), elapsed)
                });
                acked.insert(key, flow.bytes_acked);
                look.flows.push(row(plane, flow, &sizes, delivery));
            }
        }
        look.flows
            .sort_by_key(|row| std::cmp::Reverse(row.delivery_bits_per_s));
        self.acked = acked;
        look
    }
}

fn bits_per_s(bytes: u64, elapsed: Duration) -> Option<u64> {
    let us = elapsed.as_micros();
    let rate = (u128::from(bytes) * 8_000_000).checked_div(us)?;
    u64::try_from(rate).ok()
}

/// How many flows each aggregate has, by its number.
fn sizes(flows: &[FlowView]) -> HashMap<u32, usize> {
    let mut sizes = HashMap::new();
    for aggregate in flows.iter().filter_map(|flow| flow.aggregate.as_ref()) {
        *sizes.entry(aggregate.number).or_default() += 1;
    }
    sizes
}

fn row(
    plane: &PlaneView,
    flow: &FlowView,
    sizes: &HashMap<u32, usize>,
    delivery_bits_per_s: Option<u64>,
) -> Row {
    let aggregate = |aggregate: &AggregateView| Aggregate {
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
        bytes_acked: flow.bytes_acked,
        age_us: flow.age_us,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use fairwater_linux::FlowState;

    use super::*;

    pub(in crate::commands::top) fn flow(slot: u32, bytes_acked: u64) -> FlowView {
        FlowView {
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
    pub(in crate::commands::top) fn member(slot: u32, number: u32, key: &str) -> FlowView {
        FlowView {
            aggregate: Some(AggregateView {
                number,
                key: key.to_owned(),
            }),
            ..flow(slot, 0)
        }
    }

    pub(in crate::commands::top) fn plane(flows: Vec<FlowView>) -> PlaneView {
        PlaneView {
            name: "fw_cubic".into(),
            pid: 42,
            alive: true,
            without_slot: 0,
            fallbacks: 0,
            flows,
        }
    }

    #[test]
    fn delivery_rates_are_what_was_acknowledged_between_looks() {
        let mut watcher = Watcher::default();
        let first = watcher.look(&[plane(vec![flow(0, 1000), flow(1, 0)])], Duration::ZERO);
        assert!(
            first
                .flows
                .iter()
                .all(|row| row.delivery_bits_per_s.is_none())
        );
        let second = [plane(vec![flow(0, 1000), flow(1, 6_000_000), flow(2, 77)])];
        let look = watcher.look(&second, Duration::from_secs(2));
        let rates: Vec<_> = look
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
    fn a_plane_that_is_gone_is_shown_for_its_flows_only() {
        let gone = |flows| PlaneView {
            alive: false,
            ..plane(flows)
        };
        let planes = [gone(vec![]), gone(vec![flow(0, 0)]), plane(vec![])];
        let look = Watcher::default().look(&planes, Duration::ZERO);
        let shown: Vec<_> = look.planes.iter().map(|p| (p.alive, p.flows)).collect();
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
        let look = Watcher::default().look(&[plane(flows), other], Duration::ZERO);
        let counts: Vec<_> = look.planes.iter().map(|p| p.aggregates).collect();
        assert_eq!(counts, [2, 1]);
        let shown: Vec<_> = look
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
        let mut watcher = Watcher::default();
        watcher.look(&[plane(vec![flow(0, 1_000_000)])], Duration::ZERO);
        let mut next = flow(0, 10);
        next.id = (0, 2);
        let look = watcher.look(&[plane(vec![next])], Duration::from_secs(1));
        assert_eq!(look.flows[0].delivery_bits_per_s, None);
    }

    #[test]
    fn no_rate_is_not_a_rate_of_zero() {
        let mut paced = flow(1, 0);
        paced.rate = 1_000_000;
        let look = Watcher::default().look(&[plane(vec![flow(0, 0), paced])], Duration::ZERO);
        let rates: Vec<_> = look.flows.iter().map(|row| row.rate_bits_per_s).collect();
        assert_eq!(rates, [None, Some(8_000_000)]);
    }
}
