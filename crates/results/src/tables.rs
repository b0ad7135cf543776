//! The points of a grid as tables, one row a flow, a group, a class of requests, an edge or a
//! sample, each with the variables of its point.

use crate::parquet::Table;
use crate::{CongestionState, FlowSample, PointResult, Spread};

/// A row of some table, and the point that it belongs to.
type Rows<'a, T> = Vec<(&'a PointResult, T)>;

/// The files of all tables.
pub(crate) const TABLES: [&str; 9] = [
    "groups.parquet",
    "flows.parquet",
    "edges.parquet",
    "requests.parquet",
    "flow_series.parquet",
    "edge_series.parquet",
    "completions.parquet",
    "bundles.parquet",
    "bundle_series.parquet",
];

/// All tables that have rows, with the names of their files; `variables` are the sweep's, each a
/// column `$name`.
#[must_use]
pub fn tables(points: &[PointResult], variables: &[&str]) -> Vec<(&'static str, Table)> {
    let tables = [
        Some(groups(points, variables)),
        Some(flows(points, variables)),
        Some(edges(points, variables)),
        requests(points, variables),
        flow_samples(points, variables),
        edge_samples(points, variables),
        completions(points, variables),
        bundles(points, variables),
        bundle_samples(points, variables),
    ];
    let named = TABLES.into_iter().zip(tables);
    named
        .filter_map(|(name, table)| Some((name, table?)))
        .collect()
}

/// The columns that say which point a row belongs to.
fn keyed<T>(rows: &Rows<'_, T>, variables: &[&str]) -> Table {
    let mut table = Table::default();
    table.whole("point", rows.iter().map(|(point, _)| point.point as u64));
    table.whole("seed", rows.iter().map(|(point, _)| point.seed));
    for name in variables {
        let value = |point: &PointResult| point.variables.get(*name).cloned().unwrap_or_default();
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

fn groups(points: &[PointResult], variables: &[&str]) -> Table {
    let rows: Rows<'_, _> = each(points, |point| &point.groups);
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

fn requests(points: &[PointResult], variables: &[&str]) -> Option<Table> {
    let rows = each_within(points, |point| &point.groups, |group| &group.requests)?;
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

fn completions(points: &[PointResult], variables: &[&str]) -> Option<Table> {
    let rows = each_within(points, |point| &point.groups, |group| &group.completions)?;
    let mut table = keyed(&rows, variables);
    let all = || rows.iter().map(|(_, row)| row);
    table.text("group", all().map(|(group, _)| group.name.clone()));
    table.number("start_s", all().map(|(_, request)| Some(request.start_s)));
    table.whole("bytes", all().map(|(_, request)| request.bytes));
    table.number("fct_us", all().map(|(_, request)| Some(request.fct_us)));
    table.number("ideal_us", all().map(|(_, request)| Some(request.ideal_us)));
    Some(table)
}

fn flows(points: &[PointResult], variables: &[&str]) -> Table {
    let rows: Rows<'_, _> = each(points, |point| &point.flows);
    let mut table = keyed(&rows, variables);
    let all = || rows.iter().map(|(_, row)| row);
    let group = |point: &PointResult, index: usize| {
        let group = point.groups.get(index);
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
    let fallback = |row: &&crate::FlowResult| row.fallback.clone();
    let share = all().map(|row| Some(fallback(row).map_or(0.0, |fallback| fallback.share)));
    table.number("fallback_share", share);
    let reason = all().map(|row| fallback(row).map_or_else(String::new, |f| f.reason));
    table.text("fallback_reason", reason);
    table
}

fn edges(points: &[PointResult], variables: &[&str]) -> Table {
    let rows: Rows<'_, _> = each(points, |point| &point.edges);
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

fn flow_samples(points: &[PointResult], variables: &[&str]) -> Option<Table> {
    let rows = each_within(points, |point| &point.flows, |flow| &flow.samples)?;
    let mut table = keyed(&rows, variables);
    let all = || rows.iter().map(|(_, row)| row);
    table.text("flow", all().map(|(flow, _)| flow.name.clone()));
    table.number("at_s", all().map(|(_, sample)| Some(sample.at_s)));
    table.whole("cwnd_bytes", all().map(|(_, sample)| sample.cwnd_bytes));
    let ssthresh = all().map(|(_, sample)| sample.ssthresh_bytes.map(|bytes| bytes as f64));
    table.number("ssthresh_bytes", ssthresh);
    let state = |sample: &FlowSample| sample.state.map_or("", CongestionState::name).to_owned();
    table.text("state", all().map(|(_, sample)| state(sample)));
    table.whole("pacing_bps", all().map(|(_, sample)| sample.pacing_bps));
    table.whole("srtt_us", all().map(|(_, sample)| sample.srtt_us));
    let throughput = all().map(|(_, sample)| Some(sample.throughput_bps));
    table.number("throughput_bps", throughput);
    Some(table)
}

fn edge_samples(points: &[PointResult], variables: &[&str]) -> Option<Table> {
    let rows = each_within(points, |point| &point.edges, |edge| &edge.samples)?;
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

fn bundles(points: &[PointResult], variables: &[&str]) -> Option<Table> {
    let rows = each_within(points, |point| &point.edges, |edge| &edge.bundles)?;
    let mut table = keyed(&rows, variables);
    let all = || rows.iter().map(|(_, row)| row);
    table.text("edge", all().map(|(edge, _)| edge.name.clone()));
    table.text("bundle", all().map(|(_, bundle)| bundle.bundle.clone()));
    let throughput = all().map(|(_, bundle)| Some(bundle.throughput_bps));
    table.number("throughput_bps", throughput);
    table.whole("packets", all().map(|(_, bundle)| bundle.packets));
    table.whole("dropped", all().map(|(_, bundle)| bundle.dropped));
    spread(&mut table, "queueing_us", &rows, |(_, bundle)| {
        bundle.queueing_us
    });
    Some(table)
}

fn bundle_samples(points: &[PointResult], variables: &[&str]) -> Option<Table> {
    let mut rows = Vec::new();
    for point in points {
        for edge in &point.edges {
            for bundle in &edge.bundles {
                let samples = bundle.samples.iter();
                rows.extend(samples.map(|sample| (point, (edge, bundle, sample))));
            }
        }
    }
    if rows.is_empty() {
        return None;
    }
    let mut table = keyed(&rows, variables);
    let all = || rows.iter().map(|(_, row)| row);
    table.text("edge", all().map(|(edge, ..)| edge.name.clone()));
    table.text("bundle", all().map(|(_, bundle, _)| bundle.bundle.clone()));
    table.number("at_s", all().map(|(.., sample)| Some(sample.at_s)));
    let arrived = all().map(|(.., sample)| Some(sample.arrived_bps));
    table.number("arrived_bps", arrived);
    let throughput = all().map(|(.., sample)| Some(sample.throughput_bps));
    table.number("throughput_bps", throughput);
    table.number("queueing_us", all().map(|(.., sample)| sample.queueing_us));
    table.whole(
        "queued_bytes",
        all().map(|(.., sample)| sample.queued_bytes),
    );
    table.whole("dropped", all().map(|(.., sample)| sample.dropped));
    Some(table)
}

fn each<'a, T>(
    points: &'a [PointResult],
    of: impl Fn(&'a PointResult) -> &'a Vec<T>,
) -> Rows<'a, &'a T> {
    points
        .iter()
        .flat_map(|point| of(point).iter().map(move |row| (point, row)))
        .collect()
}

/// The rows of what is within each group, flow or edge of each point; `None` when there are none.
fn each_within<'a, A, B>(
    points: &'a [PointResult],
    outer: impl Fn(&'a PointResult) -> &'a Vec<A>,
    inner: impl Fn(&'a A) -> &'a Vec<B>,
) -> Option<Rows<'a, (&'a A, &'a B)>> {
    let mut rows = Vec::new();
    for point in points {
        for of in outer(point) {
            rows.extend(inner(of).iter().map(|row| (point, (of, row))));
        }
    }
    (!rows.is_empty()).then_some(rows)
}
