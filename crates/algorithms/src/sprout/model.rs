//! The model of a link whose rate wanders (Winstein, Sivaraman & Balakrishnan, NSDI '13 §3): packets
//! come as a Poisson process whose rate does a Brownian motion, and which, once it is 0, tends to
//! stay there. What follows from the model alone is computed once and shared by all flows.

/// Rates that are told apart, from 0 to [`MOST_RATE`] (NSDI '13 §3).
pub(super) const BINS: usize = 256;
/// Packets/s (NSDI '13 §3); see [`super::belief`] for links that are faster.
pub(super) const MOST_RATE: f32 = 1_000.0;
/// NSDI '13 §3.
pub(super) const TICK_US: u64 = 20_000;
pub(super) const TICK_S: f32 = 0.02;
/// How far the forecast reaches, ticks (NSDI '13 §3).
pub(super) const TICKS: usize = 8;
/// Cumulative counts that are told apart: what the greatest rate delivers in all ticks, and more.
const COUNTS: usize = 256;
/// Standard deviations beyond which the Gaussian is cut off.
const REACH: f32 = 5.0;

/// A distribution over the bins.
pub(super) type Distribution = [f32; BINS];

/// What a rate becomes in a tick, and what it delivers in several.
pub(super) struct Model {
    /// `[from][to]`: probabilities.
    transition: Vec<Distribution>,
    /// Bins farther apart than this have none.
    reach: usize,
    /// `[tick][count][from]`: the probability that no more than `count` packets have come when
    /// `tick + 1` ticks have passed.
    cumulative: Vec<Distribution>,
    /// ln of each bin's rate; of the first, which is 0, unused.
    ln_rate: Distribution,
}

impl Model {
    /// `volatility`: σ, packets/s after one second; `escape`: λz, how often an outage ends, 1/s.
    pub(super) fn new(volatility: f32, escape: f32) -> Self {
        let deviation = volatility * TICK_S.sqrt();
        let reach = ((REACH * deviation / width()).ceil() as usize).clamp(1, BINS - 1);
        let stays = libm::expf(-escape * TICK_S);
        let transition: Vec<_> = (0..BINS).map(|i| moves(i, deviation, stays)).collect();
        let cumulative = deliveries(&transition, reach);
        let mut ln_rate = [0.0; BINS];
        for (i, ln) in ln_rate.iter_mut().enumerate().skip(1) {
            *ln = libm::logf(rate(i));
        }
        Self {
            transition,
            reach,
            cumulative,
            ln_rate,
        }
    }

    pub(super) fn ln_rate(&self, bin: usize) -> f32 {
        self.ln_rate[bin]
    }

    /// One tick of the Brownian motion.
    pub(super) fn evolve(&self, now: &Distribution) -> Distribution {
        let mut next = [0.0; BINS];
        for (from, probability) in now.iter().enumerate() {
            let range = near(from, self.reach);
            let targets = next[range.clone()].iter_mut();
            for (to, share) in targets.zip(&self.transition[from][range]) {
                *to += probability * share;
            }
        }
        next
    }

    /// The most packets that come within so many ticks, 1 to [`TICKS`], with a probability of at
    /// least 1 − `quantile` (NSDI '13 §3: the cautious forecast).
    pub(super) fn cautious(&self, now: &Distribution, ticks: usize, quantile: f32) -> usize {
        let first = (ticks.clamp(1, TICKS) - 1) * COUNTS;
        let table = &self.cumulative[first..first + COUNTS];
        table.partition_point(|at_most| dot(now, at_most) < quantile)
    }
}

/// Between the rates of two bins, packets/s.
fn width() -> f32 {
    MOST_RATE / (BINS - 1) as f32
}

/// Of a bin, packets/s.
pub(super) fn rate(bin: usize) -> f32 {
    bin as f32 * width()
}

fn near(bin: usize, reach: usize) -> std::ops::Range<usize> {
    bin.saturating_sub(reach)..(bin + reach + 1).min(BINS)
}

/// Where a rate goes in a tick. From 0 it goes anywhere only when the outage ends.
fn moves(from: usize, deviation: f32, stays: f32) -> Distribution {
    let below = |x: f32| 0.5 * libm::erfcf(-x / (deviation * std::f32::consts::SQRT_2));
    let mut to = [0.0; BINS];
    for (bin, share) in to.iter_mut().enumerate() {
        let apart = rate(bin) - rate(from);
        if apart.abs() <= REACH * deviation {
            *share = below(apart + width() / 2.0) - below(apart - width() / 2.0);
        }
    }
    if from == 0 {
        let leaving: f32 = to[1..].iter().sum();
        for share in &mut to[1..] {
            *share *= (1.0 - stays) / leaving.max(f32::MIN_POSITIVE);
        }
        to[0] = stays;
    }
    normalise(&mut to);
    to
}

/// Cumulative distributions of what comes within 1, 2, … ticks, by the rate before.
fn deliveries(transition: &[Distribution], reach: usize) -> Vec<Distribution> {
    let poisson: Vec<_> = (0..BINS).map(|bin| poisson(rate(bin) * TICK_S)).collect();
    let mut cumulative = Vec::with_capacity(TICKS * COUNTS);
    // Before the first tick nothing has come.
    let mut so_far = vec![[0.0_f32; COUNTS]; BINS];
    for counts in &mut so_far {
        counts[0] = 1.0;
    }
    for _ in 0..TICKS {
        let added: Vec<_> = so_far
            .iter()
            .zip(&poisson)
            .map(|(counts, tick)| convolve(counts, tick))
            .collect();
        for (from, counts) in so_far.iter_mut().enumerate() {
            *counts = [0.0; COUNTS];
            for to in near(from, reach) {
                let share = transition[from][to];
                for (count, more) in counts.iter_mut().zip(&added[to]) {
                    *count += share * more;
                }
            }
        }
        let mut sums = [0.0_f32; BINS];
        for count in 0..COUNTS {
            for (sum, counts) in sums.iter_mut().zip(&so_far) {
                *sum += counts[count];
            }
            cumulative.push(sums);
        }
    }
    cumulative
}

/// P(0), P(1), … of a Poisson distribution, as far as it matters.
fn poisson(mean: f32) -> Vec<f32> {
    let mut terms = vec![libm::expf(-mean)];
    let most = (mean + 6.0 * mean.sqrt()).ceil() as usize + 1;
    for n in 1..=most {
        let last = terms[n - 1];
        terms.push(last * mean / n as f32);
    }
    terms
}

/// What does not fit counts as the most.
fn convolve(counts: &[f32; COUNTS], tick: &[f32]) -> [f32; COUNTS] {
    let mut sum = [0.0; COUNTS];
    for (n, probability) in tick.iter().enumerate() {
        for (to, from) in sum[n..].iter_mut().zip(counts) {
            *to += probability * from;
        }
        let beyond: f32 = counts[COUNTS - n..].iter().sum();
        sum[COUNTS - 1] += probability * beyond;
    }
    sum
}

/// In eight sums, which a processor adds at once.
fn dot(a: &Distribution, b: &Distribution) -> f32 {
    let mut sums = [0.0_f32; 8];
    for (a, b) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    sums.iter().sum()
}

/// Makes the sum 1; whether there was any.
pub(super) fn normalise(distribution: &mut Distribution) -> bool {
    let sum: f32 = distribution.iter().sum();
    if !sum.is_normal() {
        return false;
    }
    for probability in distribution {
        *probability /= sum;
    }
    true
}
