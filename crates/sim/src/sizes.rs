//! Sizes and times of requests.

use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::SizeCdf;

/// A size, bytes.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is checked to be from 0 to 2^53"
)]
pub(crate) fn draw(sizes: &SizeCdf, rng: &mut ChaCha8Rng) -> u64 {
    (sizes.quantile(rng.random()) as u64).max(1)
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
