//! The findings of a grid as tables, one row a flow, a group, a class of requests, an edge or a
//! sample, each with the variables of its point.

use super::parquet::Table;
use super::{Finding, Spread};

/// A row of some table, and the point that it belongs to.
type Rows<'a, T> = Vec<(&'a Finding, T)>;

/// The files of all tables.
pub(super) const TABLES: [&str; 6] = [
    "groups.parquet",
    "flows.parquet",
    "edges.parquet",
    "requests.parquet",
    "flow_series.parquet",
    "edge_series.parquet",
];

/// All tables that have rows, with the names of their files; `variables` are the sweep's, each a
/// column `$name`.
#[must_use]
pub fn tables(findings: &[Finding], variables: &[&str]) -> Vec<(&'static str, Table)> {
    let tables = [
        Some(groups(findings, variables)),
        Some(flows(findings, variables)),
        Some(edges(findings, variables)),
        requests(findings, variables),
        flow_samples(findings, variables),
        edge_samples(findings, variables),
    ];
    let named = TABLES.into_iter().zip(tables);
    named
        .filter_map(|(name, table)| Some((name, table?)))
        .collect()
}

/// The columns that say which point a row belongs to.
fn keyed<T>(rows: &Rows<'_, T>, variables: &[&str]) -> Table {
    let mut table = Table::default();
    table.whole(
        "point",
        rows.iter().map(|(finding, _)| finding.point as u64),
    );
    table.whole("seed", rows.iter().map(|(finding, _)| finding.seed));
    for name in variables {
        let value = |finding: &Finding| finding.variables.get(*name).cloned().unwrap_or_default();
        table.text(&format!("${name}"), rows.iter().map(|(f, _)| value(f)));
    }
    table
}

/// One of the numbers of a distribution.
type Part = fn(Spread) -> Option<f64>;

fn spread<T>(table: &mut Table, name: &str, rows: &Rows<'_, T>, of: impl Fn(&T) -> Option<Spread>) {
    let parts: [(&str, Part); 6] = [
        ("min", |s| s.min),
        ("mean", |s| s.mean),
        ("p50", |s| Some(s.p50)),
        ("p95", |s| Some(s.p95)),
        ("p99", |s| s.p99),
        ("max", |s| s.max),
    ];
    for (part, take) in parts {
        let values = rows.iter().map(|(_, row)| of(row).and_then(take));
        table.number(&format!("{name}_{part}"), values);
    }
}

fn groups(findings: &[Finding], variables: &[&str]) -> Table {
    let rows: Rows<'_, _> = each(findings, |finding| &finding.groups);
    let mut table = keyed(&rows, variables);
    let all = || rows.iter().map(|(_, row)| row);
    table.text("group", all().map(|row| row.name.clone()));
    table.text("algorithm", all().map(|row| row.algorithm.clone()));
    table.whole("flows", all().map(|row| row.flows as u64));
    table.number("throughput_bps", all().map(|row| Some(row.throughput_bps)));
    table.number("jain", all().map(|row| Some(row.jain)));
    table.whole("retransmissions", all().map(|row| row.retransmissions));
    table.whole("timeouts", all().map(|row| row.timeouts));
    table.whole("marked", all().map(|row| row.marked));
    table.whole("unfinished", all().map(|row| row.unfinished));
    table
}

fn requests(findings: &[Finding], variables: &[&str]) -> Option<Table> {
    let rows: Rows<'_, _> = findings
        .iter()
        .flat_map(|finding| {
            finding.groups.iter().flat_map(move |group| {
                let classes = group.requests.iter();
                classes.map(move |class| (finding, (group, class)))
            })
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    let mut table = keyed(&rows, variables);
    let all = || rows.iter().map(|(_, row)| row);
    table.text("group", all().map(|(group, _)| group.name.clone()));
    table.text("class", all().map(|(_, class)| class.class.clone()));
    table.whole("count", all().map(|(_, class)| class.count));
    spread(&mut table, "fct_us", &rows, |(_, class)| Some(class.fct_us));
    spread(&mut table, "slowdown", &rows, |(_, class)| {
        Some(class.slowdown)
    });
    Some(table)
}

fn flows(findings: &[Finding], variables: &[&str]) -> Table {
    let rows: Rows<'_, _> = each(findings, |finding| &finding.flows);
    let mut table = keyed(&rows, variables);
    let all = || rows.iter().map(|(_, row)| row);
    let group = |finding: &Finding, index: usize| {
        let group = finding.groups.get(index);
        group.map_or_else(String::new, |group| group.name.clone())
    };
    table.text("flow", all().map(|row| row.name.clone()));
    table.text("group", rows.iter().map(|(f, row)| group(f, row.group)));
    table.number("throughput_bps", all().map(|row| Some(row.throughput_bps)));
    table.whole("segments", all().map(|row| row.segments));
    table.whole("retransmissions", all().map(|row| row.retransmissions));
    table.whole("timeouts", all().map(|row| row.timeouts));
    table.whole("marked", all().map(|row| row.marked));
    spread(&mut table, "rtt_us", &rows, |row| row.rtt_us);
    spread(&mut table, "queueing_us", &rows, |row| row.queueing_us);
    table
}

fn edges(findings: &[Finding], variables: &[&str]) -> Table {
    let rows: Rows<'_, _> = each(findings, |finding| &finding.edges);
    let mut table = keyed(&rows, variables);
    let all = || rows.iter().map(|(_, row)| row);
    table.text("edge", all().map(|row| row.name.clone()));
    table.number("throughput_bps", all().map(|row| Some(row.throughput_bps)));
    table.number("utilisation", all().map(|row| Some(row.utilisation)));
    table.whole("packets", all().map(|row| row.packets));
    table.whole("dropped", all().map(|row| row.dropped));
    table.whole("lost", all().map(|row| row.lost));
    table.whole("marked", all().map(|row| row.marked));
    spread(&mut table, "queueing_us", &rows, |row| row.queueing_us);
    table
}

fn flow_samples(findings: &[Finding], variables: &[&str]) -> Option<Table> {
    let rows: Rows<'_, _> = findings
        .iter()
        .flat_map(|finding| {
            finding.flows.iter().flat_map(move |flow| {
                let samples = flow.samples.iter();
                samples.map(move |sample| (finding, (flow, sample)))
            })
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    let mut table = keyed(&rows, variables);
    let all = || rows.iter().map(|(_, row)| row);
    table.text("flow", all().map(|(flow, _)| flow.name.clone()));
    table.number("at_s", all().map(|(_, sample)| Some(sample.at_s)));
    table.whole("cwnd_bytes", all().map(|(_, sample)| sample.cwnd_bytes));
    table.whole("pacing_bps", all().map(|(_, sample)| sample.pacing_bps));
    table.whole("srtt_us", all().map(|(_, sample)| sample.srtt_us));
    let throughput = all().map(|(_, sample)| Some(sample.throughput_bps));
    table.number("throughput_bps", throughput);
    Some(table)
}

fn edge_samples(findings: &[Finding], variables: &[&str]) -> Option<Table> {
    let rows: Rows<'_, _> = findings
        .iter()
        .flat_map(|finding| {
            finding.edges.iter().flat_map(move |edge| {
                let samples = edge.samples.iter();
                samples.map(move |sample| (finding, (edge, sample)))
            })
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    let mut table = keyed(&rows, variables);
    let all = || rows.iter().map(|(_, row)| row);
    table.text("edge", all().map(|(edge, _)| edge.name.clone()));
    table.number("at_s", all().map(|(_, sample)| Some(sample.at_s)));
    let throughput = all().map(|(_, sample)| Some(sample.throughput_bps));
    table.number("throughput_bps", throughput);
    table.number("queueing_us", all().map(|(_, sample)| sample.queueing_us));
    table.whole("queued_bytes", all().map(|(_, sample)| sample.queued_bytes));
    table.whole("dropped", all().map(|(_, sample)| sample.dropped));
    table.whole("marked", all().map(|(_, sample)| sample.marked));
    Some(table)
}

fn each<'a, T>(findings: &'a [Finding], of: impl Fn(&'a Finding) -> &'a Vec<T>) -> Rows<'a, &'a T> {
    findings
        .iter()
        .flat_map(|finding| of(finding).iter().map(move |row| (finding, row)))
        .collect()
}
