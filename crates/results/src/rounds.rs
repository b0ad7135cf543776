//! A comparison that ran several times: medians and spread.

use serde::Serialize;

use crate::{Fallback, Results, RunResult, jain};

/// The rounds of a comparison. Serialised, it is the JSON of `fairwater try --rounds`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RoundResults {
    /// By candidate, over all rounds.
    pub runs: Vec<RunSummary>,
    /// Jain's index of the candidates' throughput; `None` where each had the link alone.
    pub jain: Option<Summary>,
    /// The same with the kernel's algorithm in the place of each other candidate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Box<RoundResults>>,
    /// Each round, its runs in the order asked for.
    pub rounds: Vec<Results>,
}

/// One candidate over all rounds; the quantities are those of [`RunResult`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunSummary {
    /// The candidate's label.
    pub name: String,
    /// Bits per second that left the bottleneck.
    pub throughput_bps: Summary,
    /// The throughput's share of what the bottleneck could carry.
    pub utilisation: Summary,
    /// The median time that its packets spent in the queue, ms.
    pub queueing_delay_p50_ms: Summary,
    /// The 95th percentile of that time, ms.
    pub queueing_delay_p95_ms: Summary,
    /// The share of its packets that were dropped at the bottleneck.
    pub loss: Summary,
    /// Segments that its sender sent again.
    pub retransmissions: Summary,
    /// CPU time; `None` in the simulator.
    pub cpu_seconds: Option<Summary>,
    /// Rounds that the machine disturbed in each of their tries.
    pub disturbed_rounds: usize,
    /// The longest time that the flow ran without its algorithm in a round.
    pub fallback: Option<Fallback>,
}

/// A quantity over rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// The median.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Summary {
    /// Of these values; zeros of none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_unstable_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (values.first(), values.last()) else {
            return Self {
                median: 0.0,
                min: 0.0,
                max: 0.0,
            };
        };
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            1 => values[middle],
            _ => values[middle - 1].midpoint(values[middle]),
        };
        Self { median, min, max }
    }
}

impl RoundResults {
    /// Summarises rounds whose runs are in the same order.
    #[must_use]
    pub fn of(rounds: Vec<Results>, baseline: Option<RoundResults>) -> Self {
        let candidates = rounds.iter().map(|round| round.runs.len()).min();
        let runs = (0..candidates.unwrap_or(0)).map(|index| {
            let of_candidate = rounds.iter().map(|round| &round.runs[index]);
            RunSummary::of(&of_candidate.collect::<Vec<_>>())
        });
        Self {
            runs: runs.collect(),
            jain: rounds
                .iter()
                .all(|round| round.together && round.runs.len() > 1)
                .then(|| Summary::of(rounds.iter().map(jain_of))),
            baseline: baseline.map(Box::new),
            rounds,
        }
    }
}

/// Jain's index of the throughput of a round's runs.
fn jain_of(round: &Results) -> f64 {
    let throughputs: Vec<f64> = round.runs.iter().map(|run| run.throughput_bps).collect();
    jain(&throughputs)
}

impl RunSummary {
    fn of(runs: &[&RunResult]) -> Self {
        let summary = |of: fn(&RunResult) -> f64| Summary::of(runs.iter().map(|run| of(run)));
        let cpu: Vec<f64> = runs.iter().filter_map(|run| run.cpu_seconds).collect();
        let fallbacks = runs.iter().filter_map(|run| run.fallback.clone());
        Self {
            name: runs
                .first()
                .map_or_else(String::new, |run| run.name.clone()),
            throughput_bps: summary(|run| run.throughput_bps),
            utilisation: summary(|run| run.utilisation),
            queueing_delay_p50_ms: summary(|run| run.queueing_delay_ms.p50),
            queueing_delay_p95_ms: summary(|run| run.queueing_delay_ms.p95),
            loss: summary(|run| run.loss),
            retransmissions: summary(|run| run.retransmissions as f64),
            cpu_seconds: (!cpu.is_empty()).then(|| Summary::of(cpu)),
            disturbed_rounds: runs.iter().filter(|run| run.disturbed).count(),
            fallback: fallbacks.max_by(|a, b| a.share.total_cmp(&b.share)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_of_the_middle() {
        let median = |values: &[f64]| Summary::of(values.iter().copied()).median;
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-12);
        let spread = Summary::of([5.0, -1.0]);
        assert!((spread.min + 1.0).abs() < 1e-12 && (spread.max - 5.0).abs() < 1e-12);
    }
}
