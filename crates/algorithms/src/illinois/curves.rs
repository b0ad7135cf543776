//! How much to add and how much to take, by queueing delay (Liu, Başar and Srikant 2008).

/// The shape of the two curves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Curves {
    pub(super) alpha_min: f64,
    pub(super) alpha_max: f64,
    pub(super) beta_min: f64,
    pub(super) beta_max: f64,
}

/// d₁, d₂ and d₃ as shares of the greatest mean queueing delay.
const D1: f64 = 0.01;
const D2: f64 = 0.1;
const D3: f64 = 0.8;

impl Curves {
    /// Whether a delay is so short that the link is taken for idle: up to d₁.
    pub(super) fn is_low(delay: f64, greatest: f64) -> bool {
        delay <= D1 * greatest
    }

    /// α: segments to add each round trip, from the greatest at d₁ to the least at the greatest
    /// delay, along a hyperbola.
    pub(super) fn alpha(&self, delay: f64, greatest: f64) -> f64 {
        let d1 = D1 * greatest;
        if Self::is_low(delay, greatest) {
            return self.alpha_max;
        }
        let range = self.alpha_max - self.alpha_min;
        if range <= 0.0 {
            return self.alpha_max;
        }
        let k1 = (greatest - d1) * self.alpha_min * self.alpha_max / range;
        let k2 = (greatest - d1) * self.alpha_min / range - d1;
        (k1 / (k2 + delay)).clamp(self.alpha_min, self.alpha_max)
    }

    /// β: the share of cwnd that a loss takes, from the least up to d₂ to the greatest from d₃ on,
    /// along a line.
    pub(super) fn beta(&self, delay: f64, greatest: f64) -> f64 {
        if greatest <= 0.0 {
            return self.beta_max;
        }
        let along = ((delay / greatest - D2) / (D3 - D2)).clamp(0.0, 1.0);
        self.beta_min + along * (self.beta_max - self.beta_min)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAPER: Curves = Curves {
        alpha_min: 0.3,
        alpha_max: 10.0,
        beta_min: 0.125,
        beta_max: 0.5,
    };

    #[test]
    fn the_ends_of_the_curves_meet_their_limits() {
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a}, not {b}");
        near(PAPER.alpha(1.0, 100.0), 10.0);
        near(PAPER.alpha(1.000_000_000_01, 100.0), 10.0);
        near(PAPER.alpha(100.0, 100.0), 0.3);
        near(PAPER.beta(10.0, 100.0), 0.125);
        near(PAPER.beta(45.0, 100.0), 0.3125);
        near(PAPER.beta(80.0, 100.0), 0.5);
    }

    proptest! {
        /// The paper: α falls and β rises with the delay, α as a convex curve.
        #[test]
        fn more_delay_is_less_growth_and_deeper_cuts(
            greatest in 1e-3_f64..1e6,
            at in 0.0_f64..1.0,
            step in 0.001_f64..0.2,
        ) {
            let share = |x: f64| (at + x * step).min(1.0) * greatest;
            let alpha = [0.0, 1.0, 2.0].map(|x| PAPER.alpha(share(x), greatest));
            prop_assert!(alpha[0] >= alpha[1] && alpha[1] >= alpha[2]);
            if at > D1 && at + 2.0 * step <= 1.0 {
                prop_assert!(alpha[0] - alpha[1] >= alpha[1] - alpha[2] - 1e-9);
            }
            prop_assert!(PAPER.beta(share(0.0), greatest) <= PAPER.beta(share(1.0), greatest));
        }
    }
}
