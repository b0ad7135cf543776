//! The report of a scenario: a run in time, here, or a grid by its variables.

use std::fmt::Write;

use super::grid;
use super::page::{COLOURS, Data, Head, Line, Page, Plot, X, escaped, rounded};
use crate::findings::{EdgeSample, Finding, FlowSample};
use crate::scenario::Picture;

/// Lines of a plot at most: as many as there are colours.
const LINES: usize = COLOURS;

/// The report of what a scenario found out, as the text of an HTML file that refers to no other.
/// `variables` are those of its sweep; a grid is drawn as `picture` says.
pub fn findings(
    title: &str,
    findings: &[Finding],
    variables: &[&str],
    picture: &Picture,
) -> String {
    match findings {
        [alone] => run(title, alone),
        _ => grid::html(title, findings, variables, picture),
    }
}

pub(super) fn column(title: &'static str, unit: &str) -> Head {
    Head {
        title,
        unit: unit.to_owned(),
    }
}

fn run(title: &str, finding: &Finding) -> String {
    let mut rows = String::new();
    for (index, flow) in finding.flows.iter().enumerate() {
        let key = if index < LINES {
            format!(
                "<span class=\"key\" style=\"background: var(--s{})\"></span>",
                index + 1
            )
        } else {
            String::new()
        };
        let group = finding.groups.get(flow.group);
        let rtt = flow
            .rtt_us
            .map_or_else(|| "–".to_owned(), |rtt| format!("{:.2}", rtt.p50 / 1e3));
        // Writing to a string does not fail.
        let _ = writeln!(
            rows,
            "<tr><td>{key}{}</td><td>{}</td><td>{:.2}</td><td>{rtt}</td><td>{}</td><td>{}</td>\
             <td>{}</td></tr>",
            escaped(&flow.name),
            escaped(group.map_or("", |group| group.algorithm.as_str())),
            flow.throughput_bps / 1e6,
            flow.retransmissions,
            flow.timeouts,
            flow.marked,
        );
    }
    Page {
        title: title.to_owned(),
        parameters: format!(
            "{} s measured on {}, seed {}",
            finding.measured_s, finding.world, finding.seed
        ),
        head: vec![
            column("Flow", ""),
            column("Algorithm", ""),
            column("Throughput", "Mbit/s"),
            column("RTT", "ms, median"),
            column("Retransmissions", "segments"),
            column("Timeouts", ""),
            column("Marks", "segments"),
        ],
        rows,
        below: edges(finding) + &notices([finding]),
        notes: "Throughput is payload that the receiver had in order; on real TCP, IP packets that \
                left the bottleneck. Of many flows the first eight are drawn.",
        data: in_time(finding),
    }
    .html()
}

/// The links with a queue, in a table of their own.
fn edges(finding: &Finding) -> String {
    let mut table = "<div class=\"wide\"><table><thead><tr><th scope=\"col\">Link</th>\
                     <th scope=\"col\">Throughput<span>Mbit/s</span></th>\
                     <th scope=\"col\">Utilisation<span>%</span></th>\
                     <th scope=\"col\">Queueing delay<span>ms, median</span></th>\
                     <th scope=\"col\">Queueing delay<span>ms, 95th percentile</span></th>\
                     <th scope=\"col\">Drops<span>packets</span></th>\
                     <th scope=\"col\">Marks<span>packets</span></th></tr></thead><tbody>\n"
        .to_owned();
    let used = finding.edges.iter().filter(|edge| edge.utilisation > 0.0);
    for edge in used.take(4 * LINES) {
        let ms = |us: Option<f64>| us.map_or("–".to_owned(), |us| format!("{:.2}", us / 1e3));
        // Writing to a string does not fail.
        let _ = writeln!(
            table,
            "<tr><td>{}</td><td>{:.2}</td><td>{:.1}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td></tr>",
            escaped(&edge.name),
            edge.throughput_bps / 1e6,
            edge.utilisation * 100.0,
            ms(edge.queueing_us.map(|spread| spread.p50)),
            ms(edge.queueing_us.map(|spread| spread.p95)),
            edge.dropped + edge.lost,
            edge.marked,
        );
    }
    table + "</tbody></table></div>\n"
}

/// Notices of a report at most.
const NOTICES: usize = 20;

pub(super) fn notices<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> String {
    let all = findings.into_iter().flat_map(|finding| &finding.notices);
    all.take(NOTICES)
        .map(|notice| format!("<p class=\"disturbed\">{}</p>\n", escaped(notice)))
        .collect()
}

/// Steps of a line in time.
const POINTS: usize = 600;

fn in_time(finding: &Finding) -> Data {
    let flows = || finding.flows.iter().take(LINES);
    let ends = flows().filter_map(|flow| Some(flow.samples.last()?.at_s));
    let end_s = ends.fold(finding.measured_s, f64::max);
    let step_s = end_s / POINTS as f64;
    let slot = |at_s: f64| ((at_s / step_s - 1e-6).max(0.0) as usize).min(POINTS - 1);
    let of_flows = |value: fn(&FlowSample) -> Option<f64>| -> Vec<Line> {
        let line = |(run, flow): (usize, &crate::findings::FlowFinding)| {
            let mut values = vec![None; POINTS];
            for sample in &flow.samples {
                values[slot(sample.at_s)] = value(sample).map(rounded);
            }
            Line {
                label: flow.name.clone(),
                run,
                dashed: false,
                values,
            }
        };
        flows().enumerate().map(line).collect()
    };
    let of_edges = |value: fn(&EdgeSample) -> Option<f64>| -> Vec<Line> {
        let used = finding.edges.iter().filter(|edge| edge.utilisation > 0.0);
        let line = |(run, edge): (usize, &crate::findings::EdgeFinding)| {
            let mut values = vec![None; POINTS];
            for sample in &edge.samples {
                values[slot(sample.at_s)] = value(sample).map(rounded);
            }
            Line {
                label: edge.name.clone(),
                run,
                dashed: true,
                values,
            }
        };
        used.take(LINES).enumerate().map(line).collect()
    };
    let plots = vec![
        Plot {
            title: "Congestion window".into(),
            note: "of each sender".into(),
            unit: "kB".into(),
            lines: of_flows(|sample| Some(sample.cwnd_bytes as f64 / 1e3)),
        },
        Plot {
            title: "Throughput".into(),
            note: "of each flow".into(),
            unit: "Mbit/s".into(),
            lines: of_flows(|sample| Some(sample.throughput_bps / 1e6)),
        },
        Plot {
            title: "RTT".into(),
            note: "smoothed, of each sender".into(),
            unit: "ms".into(),
            lines: of_flows(|sample| (sample.srtt_us > 0).then(|| sample.srtt_us as f64 / 1e3)),
        },
        Plot {
            title: "Queueing delay".into(),
            note: "mean over packets that left each link’s queue".into(),
            unit: "ms".into(),
            lines: of_edges(|sample| sample.queueing_us.map(|us| us / 1e3)),
        },
        Plot {
            title: "Drops".into(),
            note: "at each link, in an interval".into(),
            unit: "packets".into(),
            lines: of_edges(|sample| Some(sample.dropped as f64)),
        },
    ];
    Data {
        x: X::time(end_s, POINTS),
        columns: 1,
        plots,
    }
}
