//! The plane, as an experiment describes it.

use std::time::Duration;

use fairwater_net::Time;

/// The plane, as far as it is simulated: who hosts which algorithm is the caller's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaneConfig {
    /// One-way delay between a datapath and the plane (CCP §7.3's staleness is twice this).
    pub delay: Duration,
    /// Interval at which the plane processes what has arrived; zero is at once.
    pub period: Duration,
    /// The plane is stopped in these times, rising: it takes up nothing and says nothing, and
    /// goes on afterwards. Flows go on under the datapaths' fallback.
    pub outages: Vec<(Time, Time)>,
    /// Silence after which the plane counts as gone; it speaks ten times as often.
    pub silence: Duration,
}

impl Default for PlaneConfig {
    fn default() -> Self {
        Self {
            delay: Duration::from_micros(10),
            period: Duration::ZERO,
            outages: Vec::new(),
            silence: Duration::from_millis(500),
        }
    }
}
