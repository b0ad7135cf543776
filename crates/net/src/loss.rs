//! Random loss.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Parts in a billion.
const BILLION: u32 = 1_000_000_000;

/// The probability that a packet is lost, in parts per billion so that text states it exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct LossRate(u32);

impl LossRate {
    /// No loss.
    pub const NONE: LossRate = LossRate(0);

    /// `ppb` parts per billion; `None` above one billion.
    pub const fn from_ppb(ppb: u32) -> Option<Self> {
        if ppb > BILLION {
            None
        } else {
            Some(LossRate(ppb))
        }
    }

    /// Parts per billion.
    pub const fn ppb(self) -> u32 {
        self.0
    }
}

/// Independent loss of each packet, reproducible from a seed on every machine.
#[derive(Debug)]
pub struct RandomLoss {
    rate: LossRate,
    rng: ChaCha8Rng,
}

impl RandomLoss {
    /// Loss at `rate`; equal seeds lose the same packets.
    pub fn new(rate: LossRate, seed: u64) -> Self {
        RandomLoss {
            rate,
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// Whether the next packet to arrive is lost.
    pub fn strikes(&mut self) -> bool {
        self.rate.0 > 0 && self.rng.random_range(0..BILLION) < self.rate.0
    }
}
