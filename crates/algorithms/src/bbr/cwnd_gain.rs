//! How much is in flight: a setting of both versions.

use std::ops::RangeInclusive;

use fairwater_plane::AlgorithmError;

use crate::spec::{Parameter, Settings, within};

const KEY: &str = "cwnd_gain";
const RANGE: RangeInclusive<f64> = 1.0..=10.0;

pub(super) const PARAMETER: Parameter = Parameter {
    key: KEY,
    range: "a number from 1 to 10",
    default: "2",
    meaning: "cwnd while cruising, in bandwidth-delay products",
};

/// Both versions' usual gain.
pub(super) const USUAL: f64 = 2.0;

pub(super) fn from_settings(settings: &mut Settings<'_>) -> f64 {
    settings.decimal(KEY, RANGE).unwrap_or(USUAL)
}

pub(super) fn check(gain: f64) -> Result<(), AlgorithmError> {
    within(&[PARAMETER], KEY, &RANGE, gain, "")
}

/// As the program has it.
pub(super) fn thousandths(gain: f64) -> u64 {
    (gain * 1e3).round() as u64
}
