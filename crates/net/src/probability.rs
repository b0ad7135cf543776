//! Chances, exact and the same on every machine.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Parts in a billion.
const BILLION: u32 = 1_000_000_000;

/// A probability in parts per billion, so that text states it exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Probability(u32);

impl Probability {
    /// Never.
    pub const NEVER: Probability = Probability(0);

    /// Always.
    pub const ALWAYS: Probability = Probability(BILLION);

    /// `ppb` parts per billion; `None` above one billion.
    pub const fn from_ppb(ppb: u32) -> Option<Self> {
        if ppb > BILLION {
            None
        } else {
            Some(Probability(ppb))
        }
    }

    /// `percent` hundredths, or always above 100.
    pub const fn percent(percent: u32) -> Self {
        if percent > 100 {
            Probability::ALWAYS
        } else {
            Probability(percent * (BILLION / 100))
        }
    }

    /// Parts per billion.
    pub const fn ppb(self) -> u32 {
        self.0
    }

    /// From 0 to 1.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(BILLION)
    }
}

/// Draws from one seed, the same on every machine. Each part of a link has a stream of its own, so
/// that what one draws changes nothing for another.
#[derive(Debug, Clone)]
pub(crate) struct Draws(ChaCha8Rng);

impl Draws {
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Draws(rng)
    }

    /// Whether something of probability `p` happens; draws nothing for what never does.
    pub(crate) fn happens(&mut self, p: Probability) -> bool {
        p.0 > 0 && self.0.random_range(0..BILLION) < p.0
    }

    /// Evenly from 0 to `max`, both included.
    pub(crate) fn up_to(&mut self, max: u64) -> u64 {
        self.0.random_range(0..=max)
    }

    /// Evenly from 0, included, to 1, not included: a multiple of 2⁻⁵³.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.0.random::<u64>() >> 11) as f64 / (1u64 << 53) as f64
    }
}
