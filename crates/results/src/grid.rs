//! A grid at a glance: each combination of the variables, with the mean of its seeds.

use crate::{PointResult, Spread};

/// Something that is read off a run, and how it is shown.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// What it is called.
    pub title: &'static str,
    /// More about it.
    pub note: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Its value of a run, if that has any.
    pub of: fn(&PointResult) -> Option<f64>,
}

/// The time in the bottleneck's queue.
fn queueing_ms(point: &PointResult, of: fn(&Spread) -> f64) -> Option<f64> {
    let spread = point.bottleneck()?.queueing_us;
    spread.as_ref().map(|spread| of(spread) / 1e3)
}

/// The share of the packets that came to the bottleneck, %.
fn share(point: &PointResult, of: fn(&crate::EdgeResult) -> u64) -> Option<f64> {
    let edge = point.bottleneck()?;
    let arrived = edge.packets + edge.dropped + edge.lost;
    (arrived > 0).then(|| of(edge) as f64 * 100.0 / arrived as f64)
}

/// All that are shown of a run.
pub const METRICS: [Metric; 13] = [
    Metric {
        title: "Throughput",
        note: "of all flows",
        unit: "Mbit/s",
        of: |point| Some(point.groups.iter().map(|g| g.throughput_bps).sum::<f64>() / 1e6),
    },
    Metric {
        title: "Utilisation",
        note: "of the busiest link",
        unit: "%",
        of: |point| point.bottleneck().map(|edge| edge.utilisation * 100.0),
    },
    Metric {
        title: "Queueing delay",
        note: "median, at the busiest link",
        unit: "ms, median",
        of: |point| queueing_ms(point, |spread| spread.p50),
    },
    Metric {
        title: "Queueing delay p95",
        note: "95th percentile, at the busiest link",
        unit: "ms",
        of: |point| queueing_ms(point, |spread| spread.p95),
    },
    Metric {
        title: "Loss",
        note: "drops and random loss at the busiest link",
        unit: "%",
        of: |point| share(point, |edge| edge.dropped + edge.lost),
    },
    Metric {
        title: "Marks",
        note: "packets marked at the busiest link",
        unit: "%",
        of: |point| share(point, |edge| edge.marked).filter(|share| *share > 0.0),
    },
    Metric {
        title: "Retransmissions",
        note: "of all flows",
        unit: "segments",
        of: |point| Some(point.flows.iter().map(|f| f.retransmissions).sum::<u64>() as f64),
    },
    Metric {
        title: "Fairness",
        note: "Jain’s index of the flows’ throughput",
        unit: "",
        of: |point| (point.flows.len() > 1).then_some(point.jain),
    },
    Metric {
        title: "Completion",
        note: "mean of all requests",
        unit: "ms",
        of: |point| point.of_requests(|class| class.fct_us.mean.unwrap_or(0.0) / 1e3),
    },
    Metric {
        title: "Completion p99",
        note: "99th percentile of each flow table’s requests, averaged over the tables",
        unit: "ms",
        of: |point| point.of_requests(|class| class.fct_us.p99.unwrap_or(0.0) / 1e3),
    },
    Metric {
        title: "Tail completion",
        note: "of the slowest request",
        unit: "ms",
        of: |point| {
            let classes = point
                .groups
                .iter()
                .filter_map(|group| group.requests.first());
            let longest = classes.filter_map(|class| class.fct_us.max);
            longest.reduce(f64::max).map(|us| us / 1e3)
        },
    },
    Metric {
        title: "Slowdown",
        note: "completion time over the least possible: median of each flow table, averaged",
        unit: "",
        of: |point| point.of_requests(|class| class.slowdown.p50),
    },
    Metric {
        title: "Slowdown p99",
        note: "completion time over the least possible: 99th percentile of each flow table, averaged",
        unit: "",
        of: |point| point.of_requests(|class| class.slowdown.p99.unwrap_or(0.0)),
    },
];

/// A combination of the variables.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Their values, in the order of the variables.
    pub values: Vec<String>,
    /// How many seeds were run.
    pub seeds: usize,
    /// For each of the metrics, the mean over the seeds that have it.
    pub means: Vec<Option<f64>>,
    /// For each of the metrics, the least and the greatest of those seeds.
    pub ranges: Vec<Option<(f64, f64)>>,
}

/// The metrics that any point has: those of `first` by title in its order, then the others.
#[must_use]
pub fn metrics(points: &[PointResult], first: &[String]) -> Vec<Metric> {
    let has = |metric: &Metric| points.iter().any(|point| (metric.of)(point).is_some());
    let place = |metric: &Metric| first.iter().position(|title| title == metric.title);
    let mut metrics: Vec<Metric> = METRICS.into_iter().filter(has).collect();
    metrics.sort_by_key(|metric| place(metric).unwrap_or(usize::MAX));
    metrics
}

/// A notice where several seeds gave equal results throughout: nothing in the scenario is random.
#[must_use]
pub fn equal_seeds(points: &[PointResult]) -> Option<String> {
    let is_equal = |a: &PointResult, b: &PointResult| {
        let b = PointResult {
            point: a.point,
            seed: a.seed,
            ..b.clone()
        };
        *a == b
    };
    let mut most = 1;
    for runs in points.chunk_by(|a, b| a.variables == b.variables) {
        if !runs.windows(2).all(|pair| is_equal(&pair[0], &pair[1])) {
            return None;
        }
        most = most.max(runs.len());
    }
    (most > 1)
        .then(|| format!("all {most} seeds gave equal results: nothing in this scenario is random"))
}

/// The rows of a grid, in its order.
#[must_use]
pub fn rows(points: &[PointResult], variables: &[&str], metrics: &[Metric]) -> Vec<Row> {
    let values = |point: &PointResult| -> Vec<String> {
        let value = |name: &&str| point.variables.get(*name).cloned().unwrap_or_default();
        variables.iter().map(value).collect()
    };
    let row = |runs: &[PointResult]| {
        let found: Vec<Vec<f64>> = metrics
            .iter()
            .map(|metric| runs.iter().filter_map(metric.of).collect())
            .collect();
        let mean = |found: &Vec<f64>| {
            (!found.is_empty()).then(|| found.iter().sum::<f64>() / found.len() as f64)
        };
        let range = |found: &Vec<f64>| {
            let least = found.iter().copied().reduce(f64::min)?;
            let most = found.iter().copied().reduce(f64::max)?;
            Some((least, most))
        };
        Row {
            values: runs.first().map(values).unwrap_or_default(),
            seeds: runs.len(),
            means: found.iter().map(mean).collect(),
            ranges: found.iter().map(range).collect(),
        }
    };
    points
        .chunk_by(|a, b| a.variables == b.variables)
        .map(row)
        .collect()
}
