//! What a service counts.

use fairwater_proto::{RefusalCounts, RefusalReason};

/// Counts of a service from its start, over all peers, those that are gone included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServiceStatistics {
    /// Peers that are there now.
    pub peers: u64,
    /// Flows that there are now.
    pub flows: u64,
    /// Flows that there have been.
    pub flows_total: u64,
    /// Newcomers that were refused because there were too many peers or open files.
    pub peers_refused: u64,
    /// Packets received.
    pub packets: u64,
    /// Reports that were for the plane to judge.
    pub reports: u64,
    /// Flows of peers that knew the plane before it was restarted, found by their reports.
    pub found_again: u64,
    /// Flows that asked for an algorithm that is not hosted, and got the first.
    pub unknown_algorithm: u64,
    /// Commands merged into one that its peer had not taken yet.
    pub merged: u64,
    /// Refusals that a peer was not told of, having too many to read already.
    pub untold: u64,
    /// Notices that were not drained in time.
    pub notices_lost: u64,
    pub(super) refused: RefusalCounts,
}

impl ServiceStatistics {
    /// Messages, and packets that were none, refused for this reason.
    #[must_use]
    pub fn refused(&self, reason: RefusalReason) -> u64 {
        self.refused.of(reason)
    }

    /// Messages refused for any reason.
    #[must_use]
    pub fn refused_total(&self) -> u64 {
        self.refused.total()
    }

    pub(super) fn refuse(&mut self, reason: RefusalReason) {
        self.refused.add(reason);
    }
}
