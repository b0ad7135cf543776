//! Gradient ascent on the utility (NSDI '18 §4): which rates to try, and where to go by what they
//! were worth. Rates are in Mbit/s here, as the paper's constants have them.

use super::interval::Worth;

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

/// How many trials of the same rates are waited for until their difference is beyond chance.
const MOST_TRIALS: u32 = 8;

/// The start goes on unless the utility fell by so many standard deviations of what chance does: an
/// end at a low rate costs far more than an interval at twice the last.
const START_DOUBT: f64 = 2.0;

/// Where one flow stands.
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
    Evidence {
        trials: 0,
        higher: Sum::NONE,
        lower: Sum::NONE,
    },
);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    /// Doubling as long as the utility rises; what the rate before was worth.
    Starting(Worth),
    /// Two rates are tried.
    Probing(Streak, Evidence),
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

/// What trials of the same rates have shown: sums over intervals.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Evidence {
    trials: u32,
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

    fn add(&mut self, worth: &Worth) {
        self.intervals += 1.0;
        self.utility += worth.utility;
        self.variance += worth.variance;
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
    /// Whether each pair finds the same rate the better one. The authors' code of NSDI '18 decides
    /// nothing otherwise. What others do to the path meanwhile favours the first rate of each pair,
    /// or the second; the pairs are in opposite order, so that they contradict each other then.
    fn pairs_agree(&self, worths: &[Worth]) -> bool {
        let mut upwards =
            self.rates
                .chunks_exact(2)
                .zip(worths.chunks_exact(2))
                .map(|(rates, worths)| {
                    (rates[0] > rates[1]) == (worths[0].utility > worths[1].utility)
                });
        let first = upwards.next();
        upwards.all(|other| Some(other) == first)
    }
}

impl Ascent {
    /// From this rate on, with probes that far from the rate, in parts of it.
    pub(super) fn new(rate: f64, probe: f64) -> Self {
        Self {
            rate: rate.clamp(LEAST_MBIT, MOST_MBIT),
            probe,
            // Nothing is worth nothing.
            stage: Stage::Starting(Worth::default()),
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

    /// What the rates of a trial were worth, an interval each.
    pub(super) fn learn(&mut self, trial: &Trial, worths: &[Worth]) {
        match self.stage {
            Stage::Starting(before) => {
                let Some(&worth) = worths.first() else {
                    return;
                };
                let doubt = (before.variance + worth.variance).sqrt();
                if worth.utility + START_DOUBT * doubt > before.utility {
                    self.stage = Stage::Starting(worth);
                    self.go(2.0 * self.rate);
                } else {
                    self.stage = PROBING;
                    self.go(self.rate / 2.0);
                }
            }
            // Others changed the path: the pairs tell nothing of the rate.
            Stage::Probing(..) if !trial.pairs_agree(worths) => self.stage = PROBING,
            Stage::Probing(streak, mut evidence) => {
                evidence.trials += 1;
                for (rate, worth) in trial.rates.iter().zip(worths) {
                    if *rate > trial.after {
                        evidence.higher.add(worth);
                    } else {
                        evidence.lower.add(worth);
                    }
                }
                self.weigh(streak, evidence);
            }
        }
    }

    /// Steps, unless the difference may be a chance of losses: then the trial is done again.
    fn weigh(&mut self, streak: Streak, evidence: Evidence) {
        let (higher, lower) = (evidence.higher.mean(), evidence.lower.mean());
        let difference = higher.0 - lower.0;
        let doubt = (higher.1 + lower.1).sqrt();
        if difference.abs() < doubt && evidence.trials < MOST_TRIALS {
            self.stage = Stage::Probing(streak, evidence);
        } else {
            self.step(streak, difference / (2.0 * self.probe * self.rate));
        }
    }

    /// A retransmission timeout: nothing of what was out is known to have arrived.
    pub(super) fn time_out(&mut self) {
        self.stage = PROBING;
        self.go(self.rate / 2.0);
    }

    /// NSDI '18 §4: the step is the gradient times the confidence, within a bound that
    /// grows as long as it holds the steps back.
    fn step(&mut self, before: Streak, gradient: f64) {
        self.stage = Stage::Probing(before, Evidence::default());
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
        self.stage = Stage::Probing(streak, Evidence::default());
        self.go(self.rate * if upwards { 1.0 + part } else { 1.0 - part });
    }

    fn go(&mut self, rate: f64) {
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
