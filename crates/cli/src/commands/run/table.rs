//! The results as tables.

use comfy_table::{CellAlignment, Table, presets};
use fairwater_results::{FlowResult, PointResult, RequestClass, Spread, grid};

use crate::units;

/// Flows of a table that are shown one by one.
const FLOWS: usize = 20;

/// Of one run its flows, its requests and its links; of a grid a line for each point.
pub(super) fn table(
    results: &[PointResult],
    variables: &[&str],
    first_metrics: &[String],
) -> String {
    match results {
        [alone] => {
            let mut text = flows(alone);
            text += &requests(alone);
            text += &edges(alone);
            text += &fallbacks(results);
            text
        }
        _ => points(results, variables, first_metrics) + &fallbacks(results),
    }
}

fn aligned(head: &[&str], left: usize, rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(head);
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(left) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{}\n", table.trim_fmt())
}

/// Flows that ran without their algorithm for part of the time, the first of them.
fn fallbacks(results: &[PointResult]) -> String {
    let all = results.iter().flat_map(|result| {
        let of_flow = |flow: &FlowResult| {
            let fallback = flow.fallback.as_ref()?;
            let place = match results.len() {
                1 => String::new(),
                _ => format!("point {}: ", result.point),
            };
            Some(format!("{place}{}\n", fallback.sentence(&flow.name)))
        };
        result.flows.iter().filter_map(of_flow)
    });
    let all: Vec<_> = all.collect();
    let mut text: String = all.iter().take(FLOWS).map(String::as_str).collect();
    if all.len() > FLOWS {
        text += &format!(
            "and {} more flows that ran without their algorithm\n",
            all.len() - FLOWS
        );
    }
    text
}

fn us(us: f64) -> String {
    if us < 999.5 {
        format!("{us:.1} µs")
    } else {
        units::micros(us.round() as u64)
    }
}

fn maybe_us(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), us)
}

fn flows(result: &PointResult) -> String {
    let head = [
        "flow",
        "algorithm",
        "throughput",
        "RTT p50",
        "p95",
        "sent again",
        "timeouts",
        "marks",
    ];
    let rtt = |spread: Option<Spread>, of: fn(Spread) -> f64| maybe_us(spread.map(of));
    let mut rows = Vec::new();
    for (index, group) in result.groups.iter().enumerate() {
        let flows = result.flows.iter().filter(|flow| flow.group == index);
        if group.flows > FLOWS {
            let fairness = format!("{} flows, fairness {:.3}", group.flows, group.jain);
            rows.push(vec![
                format!("{} ({fairness})", group.name),
                group.algorithm.clone(),
                units::bit_rate(group.throughput_bps),
                "–".to_owned(),
                "–".to_owned(),
                group.retransmissions.to_string(),
                group.timeouts.to_string(),
                group.marked.to_string(),
            ]);
            continue;
        }
        for flow in flows {
            rows.push(vec![
                flow.name.clone(),
                group.algorithm.clone(),
                units::bit_rate(flow.throughput_bps),
                rtt(flow.rtt_us, |spread| spread.p50),
                rtt(flow.rtt_us, |spread| spread.p95),
                flow.retransmissions.to_string(),
                flow.timeouts.to_string(),
                flow.marked.to_string(),
            ]);
        }
    }
    let mut text = aligned(&head, 2, rows);
    if result.flows.len() > 1 {
        text += &format!("Fairness of all flows (Jain's index): {:.3}\n", result.jain);
    }
    text
}

fn requests(result: &PointResult) -> String {
    let head = [
        "requests",
        "size",
        "done",
        "completion p50",
        "p95",
        "p99",
        "slowdown p50",
        "p99",
    ];
    let row = |name: &str, class: &RequestClass| {
        vec![
            name.to_owned(),
            class.class.clone(),
            class.count.to_string(),
            us(class.fct_us.p50),
            us(class.fct_us.p95),
            maybe_us(class.fct_us.p99),
            format!("{:.2}", class.slowdown.p50),
            class
                .slowdown
                .p99
                .map_or("–".to_owned(), |n| format!("{n:.2}")),
        ]
    };
    let mut rows = Vec::new();
    for group in &result.groups {
        rows.extend(group.requests.iter().map(|class| row(&group.name, class)));
    }
    if rows.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}", aligned(&head, 2, rows));
    let unfinished: u64 = result.groups.iter().map(|group| group.unfinished).sum();
    if unfinished > 0 {
        text += &format!("{unfinished} were not done at the end\n");
    }
    text
}

fn edges(result: &PointResult) -> String {
    let head = [
        "link",
        "throughput",
        "utilisation",
        "queueing p50",
        "p95",
        "p99",
        "drops",
        "lost",
        "marks",
    ];
    let queueing =
        |spread: Option<Spread>, of: fn(Spread) -> Option<f64>| maybe_us(spread.and_then(of));
    let mut used: Vec<_> = result.used_edges().collect();
    used.sort_by(|a, b| b.utilisation.total_cmp(&a.utilisation));
    let rows = used.iter().take(FLOWS).map(|edge| {
        vec![
            edge.name.clone(),
            units::bit_rate(edge.throughput_bps),
            format!("{:.1} %", edge.utilisation * 100.0),
            queueing(edge.queueing_us, |spread| Some(spread.p50)),
            queueing(edge.queueing_us, |spread| Some(spread.p95)),
            queueing(edge.queueing_us, |spread| spread.p99),
            edge.dropped.to_string(),
            edge.lost.to_string(),
            edge.marked.to_string(),
        ]
    });
    format!("\n{}", aligned(&head, 1, rows.collect()))
}

fn points(results: &[PointResult], variables: &[&str], first_metrics: &[String]) -> String {
    let metrics = grid::metrics(results, first_metrics);
    let titles = metrics.iter().map(|metric| match metric.unit {
        "" => metric.title.to_owned(),
        unit => format!("{}, {unit}", metric.title),
    });
    let mut head: Vec<String> = variables.iter().map(|name| (*name).to_owned()).collect();
    head.push("seeds".to_owned());
    head.extend(titles);
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let rows = grid::rows(results, variables, &metrics);
    let cells = rows.into_iter().map(|row| {
        let mut cells = row.values;
        cells.push(row.seeds.to_string());
        let shown = |mean: &Option<f64>| mean.map_or("–".to_owned(), |mean| format!("{mean:.3}"));
        cells.extend(row.means.iter().map(shown));
        cells
    });
    aligned(&head, variables.len(), cells.collect())
}
