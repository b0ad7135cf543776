//! The report of a scenario: a run in time, here, or a grid by its variables.

use std::fmt::Write;

use super::grid;
use super::layout::GridLayout;
use super::page::{COLOURS, Data, Head, Line, Page, Plot, X, escaped, rounded, warning};
use super::sender::{state_plot, window_plot};
use crate::{EdgeSample, FlowSample, GroupResult, PointResult};

/// Lines of a plot at most: as many as there are colours.
const LINES: usize = COLOURS;

/// The report of what a scenario measured, as the text of an HTML file that refers to no other.
/// `variables` are those of its sweep; a grid is drawn as `layout` says.
pub fn points(
    title: &str,
    points: &[PointResult],
    variables: &[&str],
    layout: &GridLayout,
) -> String {
    match points {
        [alone] => run(title, alone),
        _ => grid::html(title, points, variables, layout),
    }
}

pub(super) fn column(title: &'static str, unit: &str) -> Head {
    Head {
        title,
        unit: unit.to_owned(),
    }
}

fn run(title: &str, point: &PointResult) -> String {
    let mut rows = String::new();
    for (index, flow) in point.flows.iter().enumerate() {
        let key = if index < LINES {
            format!(
                "<span class=\"key\" style=\"background: var(--s{})\"></span>",
                index + 1
            )
        } else {
            String::new()
        };
        let group = point.groups.get(flow.group);
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
            point.measured_s, point.backend, point.seed
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
        below: requests(point) + &edges(point) + &notices([point], None),
        notes: "Throughput is payload that the receiver had in order; on real TCP, IP packets that \
                left the bottleneck. Plots show the first eight flows.",
        data: in_time(point),
    }
    .html()
}

/// Steps of a distribution.
const CDF_STEPS: usize = 300;

/// The distribution of each table's completion times.
fn completions(point: &PointResult) -> Option<Plot> {
    let times = |group: &GroupResult| -> Vec<f64> {
        let mut times: Vec<f64> = group.completions.iter().map(|r| r.fct_us / 1e3).collect();
        times.sort_by(f64::total_cmp);
        times
    };
    let groups: Vec<(&str, Vec<f64>)> = point
        .groups
        .iter()
        .map(|group| (group.name.as_str(), times(group)))
        .filter(|(_, times)| !times.is_empty())
        .take(LINES)
        .collect();
    let least = groups
        .iter()
        .map(|(_, times)| times[0])
        .reduce(f64::min)?
        .max(1e-6);
    let most = groups
        .iter()
        .filter_map(|(_, times)| times.last().copied())
        .reduce(f64::max)?;
    // A distribution of one value has some width too.
    let ratio = (most / least).max(1.01);
    let step = |n: usize| least * ratio.powf(n as f64 / (CDF_STEPS - 1) as f64);
    let steps: Vec<f64> = (0..CDF_STEPS).map(step).collect();
    let line = |(run, (name, times)): (usize, &(&str, Vec<f64>))| Line {
        label: (*name).to_owned(),
        run,
        dashed: false,
        values: steps
            .iter()
            .map(|step| {
                let done = times.partition_point(|time| *time <= step * (1.0 + 1e-9));
                Some(rounded(done as f64 * 100.0 / times.len() as f64))
            })
            .collect(),
    };
    Some(Plot {
        title: "Completion".into(),
        note: "cumulative share of the requests by completion time".into(),
        unit: "%".into(),
        lines: groups.iter().enumerate().map(line).collect(),
        x: Some(X::logarithmic("completion time", "ms", steps.clone())),
    })
}

/// The requests by size, in a table of their own.
fn requests(point: &PointResult) -> String {
    if point.groups.iter().all(|group| group.requests.is_empty()) {
        return String::new();
    }
    let mut table = "<div class=\"wide\"><table><thead><tr><th scope=\"col\">Requests</th>\
                     <th scope=\"col\">Size</th><th scope=\"col\">Done</th>\
                     <th scope=\"col\">Completion<span>ms, median</span></th>\
                     <th scope=\"col\">Completion<span>ms, 95th percentile</span></th>\
                     <th scope=\"col\">Completion<span>ms, 99th percentile</span></th>\
                     <th scope=\"col\">Slowdown<span>median</span></th>\
                     <th scope=\"col\">Slowdown<span>99th percentile</span></th></tr></thead><tbody>\n"
        .to_owned();
    let number = |value: Option<f64>| value.map_or("–".to_owned(), |n| format!("{n:.2}"));
    for group in &point.groups {
        for class in &group.requests {
            // Writing to a string does not fail.
            let _ = writeln!(
                table,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.2}</td><td>{:.2}</td><td>{}</td>\
                 <td>{:.2}</td><td>{}</td></tr>",
                escaped(&group.name),
                escaped(&class.class),
                class.count,
                class.fct_us.p50 / 1e3,
                class.fct_us.p95 / 1e3,
                number(class.fct_us.p99.map(|us| us / 1e3)),
                class.slowdown.p50,
                number(class.slowdown.p99),
            );
        }
    }
    table + "</tbody></table></div>\n"
}

/// The links with a queue, in a table of their own.
fn edges(point: &PointResult) -> String {
    let mut table = "<div class=\"wide\"><table><thead><tr><th scope=\"col\">Link</th>\
                     <th scope=\"col\">Throughput<span>Mbit/s</span></th>\
                     <th scope=\"col\">Utilisation<span>%</span></th>\
                     <th scope=\"col\">Queueing delay<span>ms, median</span></th>\
                     <th scope=\"col\">Queueing delay<span>ms, 95th percentile</span></th>\
                     <th scope=\"col\">Drops<span>packets</span></th>\
                     <th scope=\"col\">Marks<span>packets</span></th></tr></thead><tbody>\n"
        .to_owned();
    let used = point.used_edges();
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

pub(super) fn notices<'a>(
    points: impl IntoIterator<Item = &'a PointResult>,
    of_all: Option<String>,
) -> String {
    let all = points.into_iter().flat_map(|point| {
        let fallbacks = point.flows.iter().filter_map(|flow| {
            let fallback = flow.fallback.as_ref()?;
            Some(fallback.sentence(&flow.name))
        });
        fallbacks.chain(point.notices.iter().cloned())
    });
    let all = of_all.into_iter().chain(all);
    all.take(NOTICES).map(|text| warning(&text)).collect()
}

/// Steps of a line in time.
const POINTS: usize = 600;

fn in_time(point: &PointResult) -> Data {
    let flows = || point.flows.iter().take(LINES);
    let ends = flows().filter_map(|flow| Some(flow.samples.last()?.at_s));
    let end_s = ends.fold(point.measured_s, f64::max);
    let step_s = end_s / POINTS as f64;
    let slot = |at_s: f64| ((at_s / step_s - 1e-6).max(0.0) as usize).min(POINTS - 1);
    let of_flows = |value: fn(&FlowSample) -> Option<f64>| -> Vec<Line> {
        let line = |(run, flow): (usize, &crate::FlowResult)| {
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
        let used = point.used_edges();
        let line = |(run, edge): (usize, &crate::EdgeResult)| {
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
    let windows = of_flows(|sample| Some(sample.cwnd_bytes as f64 / 1e3));
    let thresholds = of_flows(|sample| Some(sample.ssthresh_bytes? as f64 / 1e3));
    let states = of_flows(|sample| Some(f64::from(sample.state? as u8)));
    let mut plots = vec![
        window_plot(windows, thresholds),
        Plot {
            title: "Throughput".into(),
            note: "of each flow".into(),
            unit: "Mbit/s".into(),
            lines: of_flows(|sample| Some(sample.throughput_bps / 1e6)),
            x: None,
        },
        Plot {
            title: "RTT".into(),
            note: "smoothed, of each sender".into(),
            unit: "ms".into(),
            lines: of_flows(|sample| (sample.srtt_us > 0).then(|| sample.srtt_us as f64 / 1e3)),
            x: None,
        },
        Plot {
            title: "Queueing delay".into(),
            note: "mean over packets that left each link’s queue".into(),
            unit: "ms".into(),
            lines: of_edges(|sample| sample.queueing_us.map(|us| us / 1e3)),
            x: None,
        },
        Plot {
            title: "Drops".into(),
            note: "at each link, in an interval".into(),
            unit: "packets".into(),
            lines: of_edges(|sample| Some(sample.dropped as f64)),
            x: None,
        },
    ];
    plots.extend(state_plot(states));
    plots.extend(completions(point));
    Data {
        x: X::time(end_s, POINTS),
        columns: 1,
        plots,
    }
}
