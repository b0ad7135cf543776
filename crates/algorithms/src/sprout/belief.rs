//! A flow's belief: the probability of each rate of its link, by Bayes' rule.
//!
//! The model counts packets, at most 1000 a second: 11.6 Mbit/s. For faster links a flow counts
//! larger quanta of two packets, four packets, and so on.

use std::sync::Arc;

use super::model::{BINS, Distribution, MOST_RATE, Model, TICK_US, TICKS, normalise, rate};

/// The quantum doubles when the mean rate is above this part of [`MOST_RATE`].
const CROWDED: f32 = 0.7;
/// The quantum halves when the mean rate is below this part of [`MOST_RATE`].
const SPARSE: f32 = 0.2;

/// Probabilities of the link's rate.
pub(super) struct Belief {
    model: Arc<Model>,
    rates: Distribution,
    packet: f32,
    /// Bytes that the model counts as one packet.
    quantum: f32,
}

impl Belief {
    /// All rates equally likely (NSDI '13 §3).
    pub(super) fn new(model: Arc<Model>, packet_bytes: u64) -> Self {
        let packet = packet_bytes.max(1) as f32;
        Self {
            model,
            rates: [1.0 / BINS as f32; BINS],
            packet,
            quantum: packet,
        }
    }

    /// A tick passes.
    pub(super) fn evolve(&mut self) {
        self.rates = self.model.evolve(&self.rates);
    }

    /// `bytes` arrived within `seconds`, and the link could not carry more.
    pub(super) fn observe(&mut self, bytes: f32, seconds: f32) {
        let n = bytes / self.quantum;
        let ln_s = libm::logf(seconds);
        // Of P(n | λ) only what depends on λ, relative to its greatest value.
        let likelihood = |bin: usize| n * (self.model.ln_rate(bin) + ln_s) - rate(bin) * seconds;
        let greatest = if n > 0.0 { n * libm::logf(n) - n } else { 0.0 };
        let mut weights = [0.0; BINS];
        for (bin, weight) in weights.iter_mut().enumerate() {
            *weight = match bin {
                0 if n > 0.0 => 0.0,
                0 => 1.0,
                _ => libm::expf((likelihood(bin) - greatest).min(0.0)),
            };
        }
        self.weigh(&weights);
    }

    /// `bytes` arrived within `seconds`, and more might have, had more been sent.
    pub(super) fn observe_at_least(&mut self, bytes: f32, seconds: f32) {
        let n = bytes / self.quantum;
        let mut weights = [0.0; BINS];
        for (bin, weight) in weights.iter_mut().enumerate() {
            // By the normal distribution with the mean and the variance of Poisson's.
            let mean = rate(bin) * seconds;
            let z = (mean - n + 0.5) / mean.max(0.25).sqrt();
            *weight = 0.5 * libm::erfcf(-z / std::f32::consts::SQRT_2);
        }
        self.weigh(&weights);
    }

    /// Bytes that arrive within `within_us` with a probability of 1 − `quantile`. The model forecasts
    /// whole ticks; times between and beyond them are interpolated linearly.
    pub(super) fn forecast(&self, within_us: u64, quantile: f32) -> f32 {
        let at = |ticks: usize| {
            if ticks == 0 {
                return 0.0;
            }
            self.model.cautious(&self.rates, ticks, quantile) as f32
        };
        let ticks = within_us as f32 / TICK_US as f32;
        let packets = if ticks >= TICKS as f32 {
            at(TICKS) * ticks / TICKS as f32
        } else {
            let whole = ticks as usize;
            let (before, after) = (at(whole), at(whole + 1));
            before + (after - before) * (ticks - whole as f32)
        };
        packets * self.quantum
    }

    /// Mean of the distribution, bytes/s.
    pub(super) fn mean_rate(&self) -> f32 {
        self.mean() * self.quantum
    }

    fn mean(&self) -> f32 {
        let rates = self.rates.iter().enumerate();
        rates.map(|(bin, p)| p * rate(bin)).sum()
    }

    /// Bayes' rule. If the observation was impossible by the present distribution, the distribution
    /// starts anew from it.
    fn weigh(&mut self, weights: &Distribution) {
        let before = self.rates;
        for (probability, weight) in self.rates.iter_mut().zip(weights) {
            *probability *= weight;
        }
        if !normalise(&mut self.rates) {
            self.rates = *weights;
            if !normalise(&mut self.rates) {
                // No rate explains so many packets: the greatest rate is the nearest.
                self.rates = before;
                self.rates[BINS - 1] = 1.0;
                normalise(&mut self.rates);
            }
        }
        self.rescale();
    }

    fn rescale(&mut self) {
        let mean = self.mean();
        if mean > CROWDED * MOST_RATE {
            let mut halved = [0.0; BINS];
            for (bin, probability) in self.rates.iter().enumerate() {
                halved[bin.div_ceil(2)] += probability;
            }
            self.rates = halved;
            self.quantum *= 2.0;
        } else if mean < SPARSE * MOST_RATE && self.quantum > self.packet {
            let mut doubled = [0.0; BINS];
            for (bin, probability) in self.rates[..BINS / 2].iter().enumerate() {
                doubled[2 * bin] += probability / 2.0;
                doubled[(2 * bin).saturating_sub(1)] += probability / 2.0;
            }
            if normalise(&mut doubled) {
                self.rates = doubled;
                self.quantum /= 2.0;
            }
        }
    }
}
