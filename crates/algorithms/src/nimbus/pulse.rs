//! The pulses that are laid over the sending rate ("Elasticity detection", §4; Bundler §4.3).

use std::f64::consts::PI;

use fairwater_plane::FlowInfo;

use crate::draws::Draws;

/// f_p: pulses a second.
pub(super) const FREQUENCY_HZ: f64 = 5.0;
/// One pulse, µs.
pub(super) const PERIOD_US: u64 = 200_000;
/// The height of a pulse, as a share of the bottleneck's rate (Bundler §5.1).
const HEIGHT: f64 = 0.25;

/// The height of a pulse at most, as a multiple of the flow's own rate: two thirds of the rate are cut
/// at the low of such a pulse.
const MOST_OF_OWN: f64 = 2.0;

/// The pulses of one flow. Each flow has a phase of its own, drawn from what identifies it: flows
/// whose clocks agree would pulse together, and the sum of their pulses would be many times as high.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pulses {
    shift_us: u64,
}

impl Pulses {
    pub(super) fn of(info: &FlowInfo) -> Self {
        Self {
            shift_us: Draws::of(info).up_to(PERIOD_US - 1),
        }
    }

    /// What to add to a rate at this time, in its unit, at a bottleneck of this capacity. An
    /// asymmetric sinusoid: up by a quarter of the capacity for a quarter of the period, down by a
    /// twelfth for the rest. Its mean is 0, so even a flow with an eighth of the link can send it
    /// whole.
    pub(super) fn at(self, time_us: u64, rate: f64, capacity: f64) -> f64 {
        let height = (HEIGHT * capacity).min(MOST_OF_OWN * rate);
        let phase = (time_us.saturating_add(self.shift_us) % PERIOD_US) as f64 / PERIOD_US as f64;
        if phase < 0.25 {
            height * libm::sin(PI * phase / 0.25)
        } else {
            -height / 3.0 * libm::sin(PI * (phase - 0.25) / 0.75)
        }
    }
}
