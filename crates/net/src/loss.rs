//! Loss that no queue is to blame for.

use crate::Probability;
use crate::probability::Draws;

/// How packets are lost before the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LossConfig {
    /// None are.
    #[default]
    None,
    /// Each by itself, with the same probability.
    Random(Probability),
    /// In bursts.
    GilbertElliott(GilbertElliott),
}

/// Loss by a chain of two states, good and bad (Gilbert 1960, Elliott 1963; the `gemodel` of
/// tc-netem(8)). A packet is lost with its state's probability, then the state may change. In the
/// long run a share `p / (p + r)` of packets meets the bad state, `1 / r` packets at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GilbertElliott {
    /// p: from good to bad, after each packet.
    pub to_bad: Probability,
    /// r: from bad to good, after each packet.
    pub to_good: Probability,
    /// 1 − h: a packet is lost in the bad state.
    pub loss_in_bad: Probability,
    /// 1 − k: a packet is lost in the good state.
    pub loss_in_good: Probability,
}

impl GilbertElliott {
    /// Gilbert's simplest: every packet of the bad state is lost, none of the good one.
    pub const fn bursts(to_bad: Probability, to_good: Probability) -> Self {
        GilbertElliott {
            to_bad,
            to_good,
            loss_in_bad: Probability::ALWAYS,
            loss_in_good: Probability::NEVER,
        }
    }
}

/// Loses packets; reproducible from a seed on every machine. Begins in the good state.
#[derive(Debug, Clone)]
pub struct Loss {
    config: LossConfig,
    draws: Draws,
    bad: bool,
}

impl Loss {
    /// Equal configurations and seeds lose the same packets.
    pub fn new(config: LossConfig, seed: u64) -> Self {
        Loss {
            config,
            draws: Draws::new(seed, 0),
            bad: false,
        }
    }

    /// Whether the next packet to arrive is lost.
    #[inline]
    pub fn strikes(&mut self) -> bool {
        match self.config {
            LossConfig::None => false,
            LossConfig::Random(probability) => self.draws.happens(probability),
            LossConfig::GilbertElliott(model) => {
                let (loss, change) = if self.bad {
                    (model.loss_in_bad, model.to_good)
                } else {
                    (model.loss_in_good, model.to_bad)
                };
                let lost = self.draws.happens(loss);
                self.bad ^= self.draws.happens(change);
                lost
            }
        }
    }
}
