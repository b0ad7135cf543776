//! Gradient ascent on the utility (NSDI '18 §4): which rates to try, and the next rate by their
//! utilities. Rates are in Mbit/s, as in the paper's constants.

use super::interval::IntervalUtility;

/// ω₀: the first bound of a step, in parts of the rate.
const BOUNDARY: f64 = 0.05;
/// δ: how much wider the bound becomes each time that a step meets it.
const WIDENING: f64 = 0.1;
/// θ₀: Mbit/s of step for a gradient of one utility per Mbit/s.
const CONVERSION: f64 = 1.0;
/// No rate is below two small segments a second.
pub(super) const LEAST_MBIT: f64 = 0.01;
/// No rate is above what a datapath accepts, 2⁴⁰ bytes/s, with room for a probe.
pub(super) const MOST_MBIT: f64 = 7e6;

/// Most trials of the same rates before the flow steps, even if their difference may be chance.
const MOST_TRIALS: u32 = 8;

/// Doubling ends when the utility falls by more than so many standard deviations: ending it at a low
/// rate costs far more than one more interval at twice the rate.
const START_TOLERANCE: f64 = 2.0;

/// Rate and search state of one flow.
#[derive(Debug, Clone)]
pub(super) struct Ascent {
    rate: f64,
    /// ε.
    probe: f64,
    stage: Stage,
}

/// At the beginning of a climb.
const PROBING: Stage = Stage::Probing(
    Streak {
        upwards: false,
        steps: 0,
        widened: 0,
    },
    Trials {
        count: 0,
        higher: Sum::NONE,
        lower: Sum::NONE,
    },
);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    /// Doubling the rate as long as the utility rises; holds the utility of the rate before.
    Starting(IntervalUtility),
    /// Two rates are tried.
    Probing(Streak, Trials),
}

/// The steps in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Streak {
    upwards: bool,
    /// τ: how many steps in this direction.
    steps: u32,
    /// k: how many times the bound was widened.
    widened: u32,
}

/// Trials of the same two rates: sums over their intervals.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Trials {
    count: u32,
    higher: Sum,
    lower: Sum,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Sum {
    intervals: f64,
    utility: f64,
    variance: f64,
}

impl Sum {
    const NONE: Self = Self {
        intervals: 0.0,
        utility: 0.0,
        variance: 0.0,
    };

    fn add(&mut self, utility: &IntervalUtility) {
        self.intervals += 1.0;
        self.utility += utility.value;
        self.variance += utility.variance;
    }

    /// The mean, and its variance.
    fn mean(&self) -> (f64, f64) {
        let n = self.intervals.max(1.0);
        (self.utility / n, self.variance / (n * n))
    }
}

/// The rates to try next, one an interval, and the rate to go on with until the outcome is known.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Trial {
    pub(super) rates: Vec<f64>,
    pub(super) after: f64,
}

impl Trial {
    /// Whether the same rate has the greater utility in each pair. Otherwise the authors' code of
    /// NSDI '18 does not step either. A change of the path during a pair favours its first rate, or its
    /// second; the pairs are in opposite order, so that they then contradict each other.
    fn pairs_agree(&self, utilities: &[IntervalUtility]) -> bool {
        let mut upwards = self
            .rates
            .chunks_exact(2)
            .zip(utilities.chunks_exact(2))
            .map(|(rates, utilities)| {
                (rates[0] > rates[1]) == (utilities[0].value > utilities[1].value)
            });
        let first = upwards.next();
        upwards.all(|other| Some(other) == first)
    }
}

impl Ascent {
    /// Starts at `rate`; `probe` is the distance of the tried rates from it, in parts of the rate.
    pub(super) fn new(rate: f64, probe: f64) -> Self {
        Self {
            rate: rate.clamp(LEAST_MBIT, MOST_MBIT),
            probe,
            // Sending nothing has utility 0.
            stage: Stage::Starting(IntervalUtility::default()),
        }
    }

    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// What to try next. Pairs are tried forwards and then backwards, so that a path which changes
    /// steadily favours neither rate; whether the `upper` comes first is to be drawn
    /// (NSDI '18 §4), so that flows do not probe in step.
    pub(super) fn trial(&self, upper: bool) -> Trial {
        let rates = match self.stage {
            Stage::Starting(_) => vec![self.rate],
            Stage::Probing(..) => {
                let sign = if upper { self.probe } else { -self.probe };
                [sign, -sign, -sign, sign]
                    .map(|part| self.rate * (1.0 + part))
                    .to_vec()
            }
        };
        Trial {
            rates,
            after: self.rate,
        }
    }

    /// Takes the utility of each rate of a trial.
    pub(super) fn learn(&mut self, trial: &Trial, utilities: &[IntervalUtility]) {
        match self.stage {
            Stage::Starting(before) => {
                let Some(&utility) = utilities.first() else {
                    return;
                };
                let deviation = (before.variance + utility.variance).sqrt();
                if utility.value + START_TOLERANCE * deviation > before.value {
                    self.stage = Stage::Starting(utility);
                    self.set_rate(2.0 * self.rate);
                } else {
                    self.stage = PROBING;
                    self.set_rate(self.rate / 2.0);
                }
            }
            // The path changed meanwhile: the pairs say nothing about the rate.
            Stage::Probing(..) if !trial.pairs_agree(utilities) => self.stage = PROBING,
            Stage::Probing(streak, mut trials) => {
                trials.count += 1;
                for (rate, utility) in trial.rates.iter().zip(utilities) {
                    if *rate > trial.after {
                        trials.higher.add(utility);
                    } else {
                        trials.lower.add(utility);
                    }
                }
                self.decide(streak, trials);
            }
        }
    }

    /// Steps, unless the difference may be chance: then the trial is repeated.
    fn decide(&mut self, streak: Streak, trials: Trials) {
        let (higher, lower) = (trials.higher.mean(), trials.lower.mean());
        let difference = higher.0 - lower.0;
        let deviation = (higher.1 + lower.1).sqrt();
        if difference.abs() < deviation && trials.count < MOST_TRIALS {
            self.stage = Stage::Probing(streak, trials);
        } else {
            self.step(streak, difference / (2.0 * self.probe * self.rate));
        }
    }

    /// A retransmission timeout: nothing of what was out is known to have arrived.
    pub(super) fn time_out(&mut self) {
        self.stage = PROBING;
        self.set_rate(self.rate / 2.0);
    }

    /// NSDI '18 §4: the step is the gradient times the confidence, within a bound that
    /// grows as long as it holds the steps back.
    fn step(&mut self, before: Streak, gradient: f64) {
        self.stage = Stage::Probing(before, Trials::default());
        if gradient == 0.0 || !gradient.is_finite() {
            return;
        }
        let upwards = gradient > 0.0;
        let mut streak = if upwards == before.upwards {
            before
        } else {
            Streak::default()
        };
        streak.upwards = upwards;
        streak.steps = streak.steps.saturating_add(1);
        let wanted = CONVERSION * confidence(streak.steps) * gradient.abs() / self.rate;
        let bound = BOUNDARY + WIDENING * f64::from(streak.widened);
        let part = if wanted > bound {
            streak.widened = streak.widened.saturating_add(1);
            bound
        } else {
            let needed = libm::ceil((wanted - BOUNDARY) / WIDENING).max(0.0);
            streak.widened = needed as u32;
            wanted
        };
        let part = part.min(MOST_STEP);
        self.stage = Stage::Probing(streak, Trials::default());
        self.set_rate(self.rate * if upwards { 1.0 + part } else { 1.0 - part });
    }

    fn set_rate(&mut self, rate: f64) {
        self.rate = rate.clamp(LEAST_MBIT, MOST_MBIT);
    }
}

/// No step is more than half of the rate, whichever way.
const MOST_STEP: f64 = 0.5;

/// m(τ), the confidence amplifier (NSDI '18 §4).
fn confidence(steps: u32) -> f64 {
    let steps = f64::from(steps);
    if steps <= 3.0 {
        steps
    } else {
        2.0 * steps - 3.0
    }
}
