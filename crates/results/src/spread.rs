//! Distributions in a few numbers, and fairness.

use serde::{Deserialize, Serialize};

/// A distribution in six numbers; those that were not measured are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Spread {
    /// The least.
    pub min: Option<f64>,
    /// The mean.
    pub mean: Option<f64>,
    /// The median.
    pub p50: f64,
    /// 95 of 100 are at most this.
    pub p95: f64,
    /// 99 of 100 are at most this.
    pub p99: Option<f64>,
    /// The greatest.
    pub max: Option<f64>,
}

impl Spread {
    /// Of all values, each percentile the least value that so many do not exceed; zeros of none.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let rank = |percent: usize| {
            let rank = (values.len() * percent).div_ceil(100).max(1);
            values.get(rank - 1).copied().unwrap_or(0.0)
        };
        let sum: f64 = values.iter().sum();
        Spread {
            min: Some(values.first().copied().unwrap_or(0.0)),
            mean: Some(sum / values.len().max(1) as f64),
            p50: rank(50),
            p95: rank(95),
            p99: Some(rank(99)),
            max: Some(values.last().copied().unwrap_or(0.0)),
        }
    }
}

/// Jain's index, (Σx)² / (n Σx²), 0 to 1; 1 of nothing (Jain, Chiu & Hawe, DEC-TR-301, 1984).
#[must_use]
pub fn jain(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|x| x * x).sum();
    if squares > 0.0 {
        sum * sum / (values.len() as f64 * squares)
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_there() {
        let spread = Spread::of((1..=200).rev().map(f64::from).collect());
        assert_eq!((spread.p50, spread.p95), (100.0, 190.0));
        assert_eq!((spread.p99, spread.max), (Some(198.0), Some(200.0)));
        assert_eq!((spread.min, spread.mean), (Some(1.0), Some(100.5)));
        assert_eq!(Spread::of(vec![7.0]).p50, 7.0);
        assert_eq!(Spread::of(Vec::new()).p95, 0.0);
    }

    #[test]
    fn fairness_is_one_of_equals_and_one_over_n_of_one_alone() {
        assert_eq!(jain(&[3.0, 3.0, 3.0]), 1.0);
        assert_eq!(jain(&[5.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!(jain(&[0.0, 0.0]), 1.0);
        assert_eq!(jain(&[]), 1.0);
    }
}
