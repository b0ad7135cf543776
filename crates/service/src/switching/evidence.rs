//! Evidence from pairs of periods that may be looked at after each pair.
//!
//! In each pair one period has the present algorithm and one the other, in an order drawn by lot. If
//! the algorithm makes no difference, the lot decides which of the two values is called which, so the
//! logarithm of their ratio is as likely positive as negative, whatever its size. A bet on its sign
//! is then fair: the bettor's capital is an e-process, and the chance that it ever reaches 1/α is at
//! most α (Ville's inequality; Ramdas et al., "Game-theoretic statistics and safe anytime-valid
//! inference", Statistical Science 2023). Nothing is assumed of the values.

/// Parts of its capital that each of the bettors stakes on a pair.
const STAKES: [f64; 3] = [0.3, 0.6, 1.0];

/// A ratio that differs by this much, as a logarithm, is bet on with three quarters of the stake.
const SCALE: f64 = 0.1;

/// The largest logarithm of a ratio that is told: a factor of about a million.
const LARGEST: f64 = 14.0;

/// What pairs of values tell: the present algorithm's and the other's.
#[derive(Debug, Clone, Default)]
pub(super) struct Evidence {
    /// Logarithms of the ratio of the other's value to the present's.
    logs: Vec<f64>,
    /// Capital of who bets that the other's is larger, by stake.
    larger: Capital,
    /// The same, that it is smaller.
    smaller: Capital,
}

#[derive(Debug, Clone)]
struct Capital([f64; STAKES.len()]);

impl Default for Capital {
    fn default() -> Self {
        Self([1.0; STAKES.len()])
    }
}

impl Capital {
    fn bet(&mut self, payoff: f64) {
        for (capital, stake) in self.0.iter_mut().zip(STAKES) {
            *capital *= 1.0 + stake * payoff;
        }
    }

    fn total(&self) -> f64 {
        self.0.iter().sum::<f64>() / STAKES.len() as f64
    }
}

impl Evidence {
    /// Takes the values of a pair; `floor` is the least that can be told from 0.
    pub(super) fn add(&mut self, present: f64, other: f64, floor: f64) {
        let floor = floor.max(f64::MIN_POSITIVE);
        let log = ((other + floor) / (present + floor)).ln();
        if !log.is_finite() {
            return;
        }
        let log = log.clamp(-LARGEST, LARGEST);
        let payoff = (log / SCALE).tanh();
        self.larger.bet(payoff);
        self.smaller.bet(-payoff);
        self.logs.push(log);
    }

    /// How strongly the pairs say that the other's is larger: as odds to 1.
    pub(super) fn larger(&self) -> f64 {
        self.larger.total()
    }

    /// How strongly the pairs say that the other's is smaller: as odds to 1.
    pub(super) fn smaller(&self) -> f64 {
        self.smaller.total()
    }

    /// Median ratio of the other's value to the present's; `None` before the first pair.
    pub(super) fn ratio(&self) -> Option<f64> {
        let mut logs = self.logs.clone();
        logs.sort_by(f64::total_cmp);
        let upper = *logs.get(logs.len() / 2)?;
        let lower = *logs.get((logs.len() - 1) / 2)?;
        Some(((upper + lower) / 2.0).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_pairs_that_leave_no_doubt_suffice() {
        let mut evidence = Evidence::default();
        for _ in 0..7 {
            evidence.add(10.0, 1.0, 0.0);
        }
        assert!(evidence.smaller() >= 40.0, "{}", evidence.smaller());
        assert!(evidence.larger() < 0.1);
        assert!((evidence.ratio().unwrap() - 0.1).abs() < 1e-9);
    }

    #[test]
    fn nothing_is_no_evidence() {
        let mut evidence = Evidence::default();
        for _ in 0..50 {
            evidence.add(0.0, 0.0, 1.0);
        }
        assert!((evidence.smaller() - 1.0).abs() < 1e-9);
        assert_eq!(evidence.ratio(), Some(1.0));
    }

    #[test]
    fn values_that_mean_nothing_harm_nothing() {
        let mut evidence = Evidence::default();
        evidence.add(f64::NAN, 1.0, 0.0);
        evidence.add(0.0, f64::INFINITY, 0.0);
        assert_eq!(evidence.ratio(), None);
        evidence.add(0.0, 1.0, 0.0);
        assert!(evidence.ratio().unwrap().is_finite());
    }
}
