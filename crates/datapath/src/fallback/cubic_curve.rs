//! CUBIC's window over time (RFC 9438 §4.2), in bytes and µs, by integers.

/// 10¹⁹ / C, C = 0.4 segments/s³ (RFC 9438 §4.1): W_cubic − W_max is mss × Δt³ over a quarter of it,
/// with Δt in µs.
const TEN_18_BY_C: u128 = 2_500_000_000_000_000_000;

/// One congestion avoidance stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Epoch {
    /// When it began, µs.
    start_us: u64,
    /// When the curve reaches its origin, µs after that (K).
    k_us: u64,
    /// The plateau of the curve, bytes: W_max, or cwnd at the start when that is higher.
    origin: u64,
}

impl Epoch {
    /// A stage that begins with this cwnd, bytes. A `w_max` below it, and 0 for none, puts the plateau
    /// at cwnd (RFC 9438 §4.8, §4.10).
    pub(super) fn new(start_us: u64, cwnd: u64, w_max: u64, mss: u64) -> Self {
        let origin = w_max.max(cwnd);
        // RFC 9438 §4.2 (Figure 2): K = ∛((W_max - cwnd_epoch) / C).
        let cube = u128::from(origin - cwnd) * TEN_18_BY_C / u128::from(mss.max(1));
        Self {
            start_us,
            k_us: cube_root(cube),
            origin,
        }
    }

    /// Time in which the flow could not use its window does not count (RFC 9438 §5.8).
    pub(super) fn skip(&mut self, us: u64) {
        self.start_us = self.start_us.saturating_add(us);
    }

    /// W_cubic at that time (RFC 9438 §4.2 Figure 1), bytes.
    pub(super) fn window(&self, at_us: u64, mss: u64) -> u64 {
        let t = at_us.saturating_sub(self.start_us);
        let off = u128::from(t.abs_diff(self.k_us).min(1 << 42));
        let delta = (off * off * off).saturating_mul(u128::from(mss)) / TEN_18_BY_C;
        let delta = u64::try_from(delta).unwrap_or(u64::MAX);
        if t < self.k_us {
            self.origin.saturating_sub(delta)
        } else {
            self.origin.saturating_add(delta)
        }
    }
}

/// The greatest integer whose cube is at most `x`.
fn cube_root(x: u128) -> u64 {
    let (mut low, mut high) = (0_u64, 1 << 42);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        let m = u128::from(middle);
        if m * m * m <= x {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn cube_root_is_the_floor(x in 0_u128..1 << 125) {
            let root = u128::from(cube_root(x));
            prop_assert!(root.pow(3) <= x);
            prop_assert!((root + 1).pow(3) > x);
        }

        /// RFC 9438 §4.2's Figure 1, in floating point.
        #[test]
        fn the_curve_is_the_rfcs(
            cwnd in 1_000_u64..1 << 32,
            above in 0_u64..1 << 32,
            t_us in 0_u64..120_000_000,
            mss in 500_u64..9_000,
        ) {
            let w_max = cwnd + above;
            let epoch = Epoch::new(7, cwnd, w_max, mss);
            let (m, t) = (mss as f64, t_us as f64 / 1e6);
            let k = (above as f64 / m / 0.4).cbrt();
            let expected = (0.4 * (t - k).powi(3) + w_max as f64 / m) * m;
            let window = epoch.window(7 + t_us, mss) as f64;
            prop_assert!((window - expected.max(0.0)).abs() < 2.0 + expected * 1e-5, "{window}, {expected}");
        }
    }
}
