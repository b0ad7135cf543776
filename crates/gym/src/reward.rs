//! What is wanted.

use crate::paths::SettingsErrors;

/// Weights of the reward of a step:
///
/// `throughput · u − delay · min(q, 4) − loss · l`
///
/// where *u* is the payload delivered, by what the bottleneck could have carried in that time (0 to
/// 1); *q* the mean time in queues by the RTT of the path without any; and *l* the share of packets
/// lost. A flow that fills the link without a queue or loss has a reward of `throughput` a step.
///
/// *u* and *q* are of the true path, which a policy does not observe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reward {
    /// Weight of *u*, from 0 to 1000.
    pub throughput: f64,
    /// Weight of *q*, from 0 to 1000.
    pub delay: f64,
    /// Weight of *l*, from 0 to 1000.
    pub loss: f64,
}

impl Default for Reward {
    fn default() -> Self {
        Self {
            throughput: 1.0,
            delay: 0.5,
            loss: 1.0,
        }
    }
}

/// Queues in RTTs beyond which more does not count: one outlier is not to outweigh an episode.
const MAX_QUEUE: f64 = 4.0;

impl Reward {
    pub(crate) fn of(&self, utilisation: f64, queue: f64, loss: f64) -> f64 {
        self.throughput * utilisation.clamp(0.0, 1.0)
            - self.delay * queue.clamp(0.0, MAX_QUEUE)
            - self.loss * loss
    }

    pub(crate) fn check(&self) -> Result<(), SettingsErrors> {
        let weights = [
            ("throughput", self.throughput),
            ("delay", self.delay),
            ("loss", self.loss),
        ];
        let wrong = weights
            .iter()
            .filter(|(_, weight)| !(0.0..=1000.0).contains(weight));
        let errors: Vec<_> = wrong
            .map(|(name, weight)| format!("the weight of {name} is {weight}: expected 0 to 1000"))
            .collect();
        if errors.is_empty() {
            Ok(())
        } else {
            Err(SettingsErrors { errors })
        }
    }
}
