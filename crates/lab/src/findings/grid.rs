//! A grid at a glance: each combination of the variables, with the mean of its seeds.

use super::{Finding, Spread};

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
    pub of: fn(&Finding) -> Option<f64>,
}

/// The time in the bottleneck's queue.
fn queueing_ms(finding: &Finding, of: fn(&Spread) -> f64) -> Option<f64> {
    let spread = finding.bottleneck()?.queueing_us;
    spread.as_ref().map(|spread| of(spread) / 1e3)
}

/// The share of the packets that came to the bottleneck, %.
fn share(finding: &Finding, of: fn(&super::EdgeFinding) -> u64) -> Option<f64> {
    let edge = finding.bottleneck()?;
    let arrived = edge.packets + edge.dropped + edge.lost;
    (arrived > 0).then(|| of(edge) as f64 * 100.0 / arrived as f64)
}

/// All that are shown of a run.
pub const METRICS: [Metric; 12] = [
    Metric {
        title: "Throughput",
        note: "of all flows",
        unit: "Mbit/s",
        of: |finding| Some(finding.groups.iter().map(|g| g.throughput_bps).sum::<f64>() / 1e6),
    },
    Metric {
        title: "Utilisation",
        note: "of the link that was used most",
        unit: "%",
        of: |finding| finding.bottleneck().map(|edge| edge.utilisation * 100.0),
    },
    Metric {
        title: "Queueing delay",
        note: "median, at the link that was used most",
        unit: "ms",
        of: |finding| queueing_ms(finding, |spread| spread.p50),
    },
    Metric {
        title: "Queueing delay p95",
        note: "95th percentile, at the link that was used most",
        unit: "ms",
        of: |finding| queueing_ms(finding, |spread| spread.p95),
    },
    Metric {
        title: "Loss",
        note: "drops and random loss at the link that was used most",
        unit: "%",
        of: |finding| share(finding, |edge| edge.dropped + edge.lost),
    },
    Metric {
        title: "Marks",
        note: "at the link that was used most",
        unit: "%",
        of: |finding| share(finding, |edge| edge.marked).filter(|share| *share > 0.0),
    },
    Metric {
        title: "Retransmissions",
        note: "of all flows",
        unit: "segments",
        of: |finding| Some(finding.flows.iter().map(|f| f.retransmissions).sum::<u64>() as f64),
    },
    Metric {
        title: "Fairness",
        note: "Jain’s index of the flows’ throughput",
        unit: "",
        of: |finding| (finding.flows.len() > 1).then_some(finding.jain),
    },
    Metric {
        title: "Completion",
        note: "mean of all requests",
        unit: "ms",
        of: |finding| finding.of_requests(|class| class.fct_us.mean.unwrap_or(0.0) / 1e3),
    },
    Metric {
        title: "Completion p99",
        note: "99th percentile of each flow table’s requests, their mean",
        unit: "ms",
        of: |finding| finding.of_requests(|class| class.fct_us.p99.unwrap_or(0.0) / 1e3),
    },
    Metric {
        title: "Tail completion",
        note: "of the request that took longest",
        unit: "ms",
        of: |finding| {
            let classes = finding
                .groups
                .iter()
                .filter_map(|group| group.requests.first());
            let longest = classes.filter_map(|class| class.fct_us.max);
            longest.reduce(f64::max).map(|us| us / 1e3)
        },
    },
    Metric {
        title: "Slowdown p99",
        note: "99th percentile of completion over the least possible, the mean of flow tables",
        unit: "",
        of: |finding| finding.of_requests(|class| class.slowdown.p99.unwrap_or(0.0)),
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

/// The metrics that any finding has.
#[must_use]
pub fn metrics(findings: &[Finding]) -> Vec<Metric> {
    let has = |metric: &Metric| {
        findings
            .iter()
            .any(|finding| (metric.of)(finding).is_some())
    };
    METRICS.into_iter().filter(has).collect()
}

/// The rows of a grid, in its order.
#[must_use]
pub fn rows(findings: &[Finding], variables: &[&str], metrics: &[Metric]) -> Vec<Row> {
    let values = |finding: &Finding| -> Vec<String> {
        let value = |name: &&str| finding.variables.get(*name).cloned().unwrap_or_default();
        variables.iter().map(value).collect()
    };
    let row = |runs: &[Finding]| {
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
    findings
        .chunk_by(|a, b| a.variables == b.variables)
        .map(row)
        .collect()
}
