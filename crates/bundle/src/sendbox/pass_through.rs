//! The rate while the bundle's traffic competes as it would without a sendbox: a controller holds the sendbox's own
//! queue short, just long enough that a detector of elastic traffic can pulse (Bundler §5.1).

use std::time::Duration;

use fairwater_net::Time;

/// Target of the queue's delay, q_T.
const TARGET: Duration = Duration::from_millis(10);
/// α, 1/s².
const ALPHA: f64 = 10.0;
/// β, 1/s.
const BETA: f64 = 10.0;
/// The longest step that the controller integrates over.
const MAX_STEP: f64 = 0.1;

/// The PI controller ṙ = α(q − q_T) + βq̇, with q in bytes and r in bytes/s (Bundler §5.1).
#[derive(Debug, Clone)]
pub struct PassThroughRate {
    rate: f64,
    last: Option<(Time, u64)>,
}

impl PassThroughRate {
    /// Begins at this rate, bytes/s.
    #[must_use]
    pub const fn new(rate: f64) -> Self {
        Self { rate, last: None }
    }

    /// The rate from now on, bytes/s, with this much in the queue; never below `floor`.
    pub fn update(&mut self, now: Time, queue_bytes: u64, floor: u64) -> u64 {
        if let Some((then, before)) = self.last.replace((now, queue_bytes)) {
            let step = now.since(then).as_secs_f64().min(MAX_STEP);
            let queue = queue_bytes as f64;
            let target = self.rate * TARGET.as_secs_f64();
            self.rate += ALPHA * (queue - target) * step + BETA * (queue - before as f64);
        }
        self.rate = self.rate.max(floor as f64);
        self.rate as u64
    }
}
