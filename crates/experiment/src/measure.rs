//! What is written down.

use std::time::Duration;

use fairwater_net::Time;

use crate::{EdgeId, Experiment, NodeId};

/// What is written down besides summaries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measure {
    /// Counts of summaries begin here: the time before is for warming up.
    pub from: Time,
    /// Interval of samples of each flow and edge; `None` takes none.
    pub interval: Option<Duration>,
    /// Each request is written down, not only summaries of them.
    pub requests: bool,
    /// Upper ends of the size classes that requests are summarised by, rising, bytes; what is larger
    /// is one class more.
    pub size_classes: Vec<u64>,
    /// Every packet that enters one of these nodes or leaves it, for captures.
    pub capture: Vec<NodeId>,
    /// Edge whose packets are reported one by one, for measurement by packet.
    pub watch: Option<EdgeId>,
}

/// Size classes unless others are asked for: 10 kB, 100 kB, 1 MB and 10 MB.
pub const SIZE_CLASSES: [u64; 4] = [10_000, 100_000, 1_000_000, 10_000_000];

impl Default for Measure {
    fn default() -> Self {
        Self {
            from: Time::ZERO,
            interval: None,
            requests: false,
            size_classes: SIZE_CLASSES.to_vec(),
            capture: Vec::new(),
            watch: None,
        }
    }
}

/// Samples of all flows and edges together, when the interval is left to
/// [`Experiment::sample_interval`].
pub const SAMPLE_BUDGET: u64 = 500_000;

impl Experiment {
    /// The interval that gives each flow and edge `most` samples, or fewer where all of them
    /// together would have too many.
    #[must_use]
    pub fn sample_interval(&self, most: u32) -> Duration {
        let sampled = (self.flows.len() + self.edges.len()).max(1) as u64;
        let each = (SAMPLE_BUDGET / sampled).clamp(1, u64::from(most.max(1)));
        let each = u32::try_from(each).unwrap_or(most);
        (self.duration / each).max(Duration::from_nanos(1))
    }
}
