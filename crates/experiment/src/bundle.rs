//! Boxes that shape a bundle of flows (Bundler §4).

use std::time::Duration;

use fairwater_net::QueueConfig;

use crate::EdgeId;

/// A pair of boxes around the flows that have the bundle's name: a sendbox in front of one edge, and
/// a receivebox where the flows' packets end.
#[derive(Debug, Clone, PartialEq)]
pub struct BundleConfig {
    /// Its name, which flows have as [`crate::FlowConfig::bundle`].
    pub name: String,
    /// The sendbox is in front of this edge: packets of the bundle to the receivers pass its queue
    /// before they enter the edge.
    pub at: EdgeId,
    /// The plane's algorithm that controls it, by name.
    pub algorithm: String,
    /// Scheduler of the sendbox's queue, and how much it holds.
    pub queue: QueueConfig,
    /// Most time in the sendbox's queue at its present rate.
    pub queue_time: Duration,
    /// Whether the boxes measure and never shape.
    pub observe: bool,
    /// Whether the sendbox detects buffer-filling cross traffic.
    pub detect: bool,
}
