//! How much is in flight: a setting of both versions.

use std::ops::RangeInclusive;

pub(super) const RANGE: RangeInclusive<f64> = 1.0..=10.0;

/// Both versions' usual gain.
pub(super) const USUAL: f64 = 2.0;

/// As the program has it.
pub(super) fn thousandths(gain: f64) -> u64 {
    (gain * 1e3).round() as u64
}
