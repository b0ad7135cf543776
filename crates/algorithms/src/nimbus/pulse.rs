//! The pulses that are laid over the sending rate ("Elasticity detection", §4; Bundler §4.3).

use std::f64::consts::PI;

/// f_p: pulses a second.
pub(super) const FREQUENCY_HZ: f64 = 5.0;
/// One pulse, µs.
pub(super) const PERIOD_US: u64 = 200_000;
/// The height of a pulse, as a share of the bottleneck's rate (Bundler §5.1).
const HEIGHT: f64 = 0.25;

/// What to add to the rate at this time, as a share of the bottleneck's rate. An asymmetric
/// sinusoid: up by a quarter for a quarter of the period, down by a twelfth for the rest. Its mean
/// is 0, so even a flow with a twelfth of the link can send it.
pub(super) fn at(time_us: u64) -> f64 {
    let phase = (time_us % PERIOD_US) as f64 / PERIOD_US as f64;
    if phase < 0.25 {
        HEIGHT * libm::sin(PI * phase / 0.25)
    } else {
        -HEIGHT / 3.0 * libm::sin(PI * (phase - 0.25) / 0.75)
    }
}
