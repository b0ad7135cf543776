//! Counts.

use fairwater_proto::{RefusalCounts, RefusalReason};

use crate::outgoing::NotQueued;

/// Counts since the datapath began, and what it keeps now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
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
    /// Messages that the peer's dialect has no way to say, or that were longer than a packet of
    /// the caller's: not sent.
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
    /// Ends of flows that a peer was never told, because their slots were needed for others'.
    pub closes_lost: u64,
    pub(crate) refused: RefusalCounts,
}

impl Statistics {
    /// Messages that were refused for that reason. None of them changed anything.
    #[must_use]
    pub fn refused(&self, reason: RefusalReason) -> u64 {
        self.refused.of(reason)
    }

    /// Messages that were refused.
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
