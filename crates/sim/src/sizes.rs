//! Sizes and times of requests.

use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::SizeCdf;

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

    /// A size, bytes.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is checked to be from 0 to 2^53"
    )]
    pub(crate) fn draw(&self, rng: &mut ChaCha8Rng) -> u64 {
        (self.quantile(rng.random()) as u64).max(1)
    }
}

/// The time until the next arrival of a Poisson process with that mean time between arrivals.
pub(crate) fn until_next_arrival(mean_s: f64, rng: &mut ChaCha8Rng) -> Duration {
    /// Longer than any simulation.
    const MOST_S: f64 = 1e10;
    // In (0, 1], so that the logarithm is finite. `libm`'s is the same on every machine.
    let share = 1.0 - rng.random::<f64>();
    Duration::from_secs_f64((-libm::log(share) * mean_s).clamp(0.0, MOST_S))
}

/// A time from nothing to `most`.
pub(crate) fn jitter(most: Duration, rng: &mut ChaCha8Rng) -> Duration {
    let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(rng.random_range(0..=most))
}
