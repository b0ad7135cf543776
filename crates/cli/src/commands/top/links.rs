//! Flows of datapaths in other processes, as the plane of `fairwater up` tells of them.

use fairwater_hosting::control::{Client, Request, Response};
use fairwater_hosting::host::HostStatus;
use fairwater_service::FlowStatus;

use super::flows::{Aggregate, Row, TopSample};
use crate::control::ControlArgs;

/// Adds the flows of datapaths behind links to a sample. Without a plane that answers there are none:
/// flows of Linux TCP are found in the kernel.
pub(super) fn add(control: &ControlArgs, sample: &mut TopSample) {
    if let Some((status, flows)) = ask(control) {
        sample.flows.extend(rows(&status, &flows));
    }
}

/// Whether a plane answers.
pub(super) fn answers(control: &ControlArgs) -> bool {
    control.connect().is_ok()
}

fn ask(control: &ControlArgs) -> Option<(HostStatus, Vec<FlowStatus>)> {
    let mut client: Client = control.connect().ok()?;
    let Ok(Response::Status(status)) = client.ask(&Request::Status) else {
        return None;
    };
    match client.ask(&Request::Flows) {
        Ok(Response::Flows(flows)) => Some((status, flows)),
        _ => None,
    }
}

fn rows(status: &HostStatus, flows: &[FlowStatus]) -> Vec<Row> {
    let direct = |flow: &&FlowStatus| {
        let mut datapaths = status.datapaths.iter();
        datapaths.any(|each| each.adapter == "direct" && each.name == flow.datapath)
    };
    let linked: Vec<_> = flows.iter().filter(|flow| !direct(flow)).collect();
    let together = |flow: &FlowStatus| {
        let same = |other: &&&FlowStatus| {
            (&other.algorithm, &other.aggregate) == (&flow.algorithm, &flow.aggregate)
        };
        linked.iter().filter(same).count()
    };
    let row = |flow: &&FlowStatus| Row {
        algorithm: format!("{} ({})", flow.algorithm, flow.datapath),
        pid: status.pid,
        local: flow.measures.local,
        remote: flow.measures.remote,
        state: if flow.controlled {
            "running"
        } else {
            "faulted"
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
        bytes_acked: None,
        age_us: None,
    };
    linked.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_behind_links_are_shown_with_their_datapath() {
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
        let rows = rows(&status, &[flow(0, "Linux TCP"), flow(1, "quic")]);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].algorithm, "cubic (quic)");
        assert_eq!(
            (rows[0].rate_bits_per_s, rows[0].age_us),
            (Some(8_000), None)
        );
    }
}
