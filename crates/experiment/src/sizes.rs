//! Distributions of request sizes.

use thiserror::Error;

/// A distribution of sizes, linear between its points.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeCdf {
    /// `(bytes, probability of at most that many)`: neither falls, no two points are the same, and
    /// the last probability is 1. A size drawn is whole, and at least 1 byte.
    pub points: Vec<(f64, f64)>,
}

/// Wrong with a distribution of sizes. Points count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum SizeError {
    /// There are no points.
    #[error("the distribution of sizes has no points")]
    Empty,
    /// A size is not a number from 0 to 2⁵³.
    #[error("point {point} of the sizes has {bytes} bytes: expected 0 to 2^53")]
    Bytes {
        /// Which.
        point: usize,
        /// Its size.
        bytes: f64,
    },
    /// A probability is not between 0 and 1.
    #[error("point {point} of the sizes has probability {probability}: expected 0 to 1")]
    Probability {
        /// Which.
        point: usize,
        /// Its probability.
        probability: f64,
    },
    /// A point does not lie above the one before.
    #[error("point {point} of the sizes is not above the one before it")]
    DoesNotRise {
        /// Which.
        point: usize,
    },
    /// The last probability is not 1.
    #[error("the probabilities of the sizes end at {0}, not at 1")]
    NotWhole(f64),
}

impl SizeCdf {
    /// The mean, bytes.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let mut mean = 0.0;
        let mut before = None;
        for &(bytes, probability) in &self.points {
            let (was_bytes, was) = before.unwrap_or((bytes, 0.0));
            mean += (probability - was) * f64::midpoint(bytes, was_bytes);
            before = Some((bytes, probability));
        }
        mean
    }

    /// The size that so large a share of the sizes does not exceed, bytes.
    #[must_use]
    pub fn quantile(&self, share: f64) -> f64 {
        let above = self.points.partition_point(|point| point.1 < share);
        let Some(&(high, p_high)) = self.points.get(above).or(self.points.last()) else {
            return 0.0;
        };
        match above
            .checked_sub(1)
            .and_then(|below| self.points.get(below))
        {
            Some(&(low, p_low)) if p_high > p_low => {
                low + (high - low) * ((share - p_low) / (p_high - p_low)).clamp(0.0, 1.0)
            }
            _ => high,
        }
    }

    /// Everything that is wrong with it.
    #[must_use]
    pub fn errors(&self) -> Vec<SizeError> {
        const MAX_BYTES: f64 = 9_007_199_254_740_992.0;
        let mut found = Vec::new();
        let mut before: Option<(f64, f64)> = None;
        for (point, &(bytes, probability)) in self.points.iter().enumerate() {
            if !(0.0..=MAX_BYTES).contains(&bytes) {
                found.push(SizeError::Bytes { point, bytes });
            }
            if !(0.0..=1.0).contains(&probability) {
                found.push(SizeError::Probability { point, probability });
            }
            let now = (bytes, probability);
            let rises =
                before.is_none_or(|was| bytes >= was.0 && probability >= was.1 && now != was);
            if !rises {
                found.push(SizeError::DoesNotRise { point });
            }
            before = Some(now);
        }
        match self.points.last() {
            None => found.push(SizeError::Empty),
            Some(&(_, 1.0)) => {}
            Some(&(_, last)) => found.push(SizeError::NotWhole(last)),
        }
        found
    }
}
