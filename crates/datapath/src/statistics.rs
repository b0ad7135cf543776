//! Counters of a datapath.

use fairwater_proto::{RefusalCounts, RefusalReason};

use crate::outgoing::NotQueued;

/// Counters since the datapath began, and the numbers of its flows and programs now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DatapathStatistics {
    /// Flows now.
    pub flows: u32,
    /// Programs installed now, over all peers.
    pub programs: u32,
    /// Commands that were taken.
    pub commands: u64,
    /// Programs that were installed; the same one again under the same number does not count.
    pub installs: u64,
    /// Programs that could not be compiled to machine code and are interpreted.
    pub not_native: u64,
    /// Reports that were queued for a peer.
    pub reports: u64,
    /// Reports that were dropped because [`crate::Config::queue_bytes`] were waiting already.
    pub reports_dropped: u64,
    /// Messages that were not sent because the peer's dialect cannot express them, or because they
    /// were longer than a packet of the caller's.
    pub unsendable: u64,
    /// Times that a running flow went under the fallback because its plane was silent.
    pub fallbacks: u64,
    /// Flows whose program was stopped for good.
    pub faults: u64,
    /// Times that a peer fell silent.
    pub silences: u64,
    /// Times that a peer turned out to be a new plane, which knew no flow.
    pub restarts: u64,
    /// Messages of ours that a peer refused.
    pub refused_by_peer: u64,
    /// Closed flows that were never announced as closed, because their slots were needed.
    pub closes_lost: u64,
    pub(crate) refused: RefusalCounts,
}

impl DatapathStatistics {
    /// Messages refused for that reason. A refused message changes nothing.
    #[must_use]
    pub fn refused(&self, reason: RefusalReason) -> u64 {
        self.refused.of(reason)
    }

    /// Messages refused for any reason.
    #[must_use]
    pub fn refused_total(&self) -> u64 {
        self.refused.total()
    }

    pub(crate) fn count_report(&mut self, queued: Result<(), NotQueued>) {
        *match queued {
            Ok(()) => &mut self.reports,
            Err(NotQueued::Full) => &mut self.reports_dropped,
            Err(NotQueued::Inexpressible) => &mut self.unsendable,
        } += 1;
    }

    pub(crate) fn refuse(&mut self, reason: RefusalReason) {
        self.refused.add(reason);
    }
}
