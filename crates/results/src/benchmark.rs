//! What a benchmark measured: values by name, one a round.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Values of a benchmark, in its rounds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct BenchmarkResult {
    /// The benchmark: the subcommand of `fairwater-bench`.
    pub benchmark: String,
    /// What was measured, in the order of the first round.
    pub series: Vec<BenchmarkSeries>,
    /// What else used the machine in each round, as a clause; `None` if little did.
    pub disturbed: Vec<Option<String>>,
}

/// One measure of a benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkSeries {
    /// Name of the measure.
    pub measure: String,
    /// What was varied, with its value: `flows` is `16`.
    pub variables: BTreeMap<String, String>,
    /// One a round.
    pub values: Vec<f64>,
}

impl BenchmarkResult {
    /// Of a benchmark that has not begun.
    #[must_use]
    pub fn new(benchmark: &str) -> Self {
        Self {
            benchmark: benchmark.to_owned(),
            ..Self::default()
        }
    }

    /// How many rounds are complete.
    #[must_use]
    pub fn rounds(&self) -> usize {
        self.disturbed.len()
    }

    /// The rounds that nothing disturbed.
    pub fn calm_rounds(&self) -> impl Iterator<Item = usize> {
        let rounds = self.disturbed.iter().enumerate();
        rounds.filter_map(|(round, disturbed)| disturbed.is_none().then_some(round))
    }

    /// Adds a value of the current round.
    pub fn push(&mut self, measure: &str, variables: &[(&str, &str)], value: f64) {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let variables: BTreeMap<String, String> = variables.iter().map(owned).collect();
        let is_same =
            |series: &BenchmarkSeries| series.measure == measure && series.variables == variables;
        match self.series.iter().position(is_same) {
            Some(at) => self.series[at].values.push(value),
            None => self.series.push(BenchmarkSeries {
                measure: measure.to_owned(),
                variables,
                values: vec![value],
            }),
        }
    }

    /// The values of a measure whose variables have all these values; `None` if there are none, or
    /// several such series.
    #[must_use]
    pub fn find(&self, measure: &str, wanted: &BTreeMap<String, String>) -> Option<&[f64]> {
        let has = |series: &&BenchmarkSeries| {
            let mut all = wanted.iter();
            series.measure == measure
                && all.all(|(name, value)| series.variables.get(name) == Some(value))
        };
        let mut found = self.series.iter().filter(has);
        match (found.next(), found.next()) {
            (Some(one), None) => Some(&one.values),
            _ => None,
        }
    }

    /// Adds the rounds of another run of the same benchmark.
    pub fn append(&mut self, other: Self) {
        for series in other.series {
            let is_same = |own: &BenchmarkSeries| {
                own.measure == series.measure && own.variables == series.variables
            };
            match self.series.iter().position(is_same) {
                Some(at) => self.series[at].values.extend(series.values),
                None => self.series.push(series),
            }
        }
        self.disturbed.extend(other.disturbed);
    }
}
