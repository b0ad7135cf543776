//! Flows that planes tell of: guests at an edge, and flows of datapaths in other processes. Flows of Linux TCP are
//! found in the kernel.

use fairwater_hosting::bundle::BundleRow;
use fairwater_hosting::control::{Client, Request, Response};
use fairwater_hosting::host::HostStatus;
use fairwater_service::FlowStatus;

use super::flows::{Aggregate, Row, ToldFlow};
use crate::control::ControlArgs;

/// The flows that planes tell of; none without a plane that answers.
pub(super) fn flows(control: &ControlArgs) -> Vec<ToldFlow> {
    let mut told: Vec<ToldFlow> = Vec::new();
    for (status, flows) in control.connect_to_all().into_iter().filter_map(ask) {
        told.extend(told_flows(&status, &flows));
    }
    told
}

/// The bundles of all sendboxes, the fastest first.
pub(super) fn bundles(control: &ControlArgs) -> Vec<BundleRow> {
    let mut found: Vec<BundleRow> = Vec::new();
    for mut client in control.connect_to_all() {
        // A plane without a sendbox has none.
        if let Ok(Response::Boxes(boxes)) = client.ask(&Request::Bundles) {
            found.extend(boxes.sendbox.into_iter().flat_map(|it| it.bundles));
        }
    }
    found.sort_by_key(|row| std::cmp::Reverse(row.receive_rate_bps));
    found
}

/// Whether a plane answers.
pub(super) fn answer(control: &ControlArgs) -> bool {
    !control.connect_to_all().is_empty()
}

fn ask(mut client: Client) -> Option<(HostStatus, Vec<FlowStatus>)> {
    let Ok(Response::Status(status)) = client.ask(&Request::Status) else {
        return None;
    };
    match client.ask(&Request::Flows) {
        Ok(Response::Flows(flows)) => Some((status, flows)),
        _ => None,
    }
}

fn told_flows(status: &HostStatus, flows: &[FlowStatus]) -> Vec<ToldFlow> {
    let of_others = |flow: &&FlowStatus| flow.datapath != fairwater_linux::NAME;
    let told: Vec<_> = flows.iter().filter(of_others).collect();
    let together = |flow: &FlowStatus| {
        let same = |other: &&&FlowStatus| {
            (&other.algorithm, &other.aggregate) == (&flow.algorithm, &flow.aggregate)
        };
        told.iter().filter(same).count()
    };
    let row = |flow: &FlowStatus| Row {
        algorithm: format!("{} ({})", flow.algorithm, flow.datapath),
        pid: status.pid,
        local: flow.measures.local,
        remote: flow.measures.remote,
        state: match (flow.controlled, flow.measures.fallback) {
            (_, true) => "fallback",
            (true, false) => "running",
            (false, false) => "faulted",
        },
        program: flow.program.clone(),
        aggregate: flow.aggregate.as_ref().map(|key| Aggregate {
            number: 0,
            key: key.clone(),
            flows: together(flow),
        }),
        cwnd_bytes: flow.measures.cwnd_bytes,
        rate_bits_per_s: (flow.measures.rate_bytes_per_s > 0)
            .then(|| flow.measures.rate_bytes_per_s.saturating_mul(8)),
        srtt_us: flow.measures.srtt_us,
        delivery_bits_per_s: None,
        bytes_acked: flow.measures.counts.map(|counts| counts.bytes_acked),
        age_us: None,
    };
    let flow = |flow: &&FlowStatus| ToldFlow {
        id: (flow.number, flow.generation),
        row: row(flow),
    };
    told.iter().map(flow).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_that_a_plane_tells_of_are_shown_with_their_datapath() {
        let flow = |number: u32, datapath: &str| -> FlowStatus {
            serde_json::from_value(serde_json::json!({
                "number": number, "generation": 1, "datapath": datapath, "algorithm": "cubic",
                "program": "cubic", "controlled": true, "aggregate": null,
                "local": "10.0.0.1:4000", "remote": "10.0.0.2:5000", "tag": 0, "cgroup": null,
                "cwnd_bytes": 14480, "rate_bytes_per_s": 1000, "srtt_us": 20000,
                "fallback": false, "counts": null,
            }))
            .unwrap()
        };
        let status: HostStatus = serde_json::from_value(serde_json::json!({
            "version": "1", "pid": 42, "uptime_s": 3, "algorithms": [],
            "datapaths": [
                {"name": "Linux TCP", "adapter": "direct", "flows": 1, "reports_total": 1,
                 "fallbacks_total": 0, "lost_reports_total": 0, "without_room_total": 0},
                {"name": "quic", "adapter": "link", "flows": 1, "reports_total": 1,
                 "fallbacks_total": null, "lost_reports_total": null, "without_room_total": null},
            ],
            "flows": 2, "flows_total": 2, "reports_total": 2, "refused_total": 0,
            "incidents_total": 0, "policy_rules": 0,
        }))
        .unwrap();
        let flows = told_flows(&status, &[flow(0, "Linux TCP"), flow(1, "quic")]);
        let rows: Vec<_> = flows.into_iter().map(|told| told.row).collect();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].algorithm, "cubic (quic)");
        assert_eq!(
            (rows[0].rate_bits_per_s, rows[0].age_us),
            (Some(8_000), None)
        );
    }
}
