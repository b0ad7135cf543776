//! Careful Resume (RFC 9959): a flow begins with part of the capacity that an earlier flow observed
//! on the same path.
//!
//! A plane with Careful Resume ([`Plane::resume_carefully`](crate::Plane::resume_carefully)) has every
//! algorithm that it takes in count what its flows deliver, and remembers, for each pair of a local
//! address and a remote prefix, the capacity and the least RTT. A new flow of such a path begins under a
//! program of the plane's own, which goes through the phases of RFC 9959 §3 at each ACK; then the flow's
//! algorithm begins with the window that was validated. No algorithm is edited for it, and flows of
//! all datapaths share what was observed.

mod config;
mod memory;
mod observe;
mod resuming;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Capabilities, Signal, SignalSet};
pub use config::{CarefulResumeConfig, InvalidCarefulResume};
pub(crate) use memory::{Claim, Endpoint, Memory, Set};
pub(crate) use observe::{Due, Observation, counting};
pub(crate) use resuming::Resuming;

/// What the program of Careful Resume reads.
const SIGNALS: [Signal; 8] = [
    Signal::Now,
    Signal::BytesAcked,
    Signal::BytesMisordered,
    Signal::EcnPackets,
    Signal::LostPkts,
    Signal::BytesInFlight,
    Signal::RttSampleUs,
    Signal::WasTimeout,
];

/// Whether flows of a datapath can resume carefully.
pub(crate) fn fits(capabilities: &Capabilities) -> bool {
    let signals: SignalSet = SIGNALS.into_iter().collect();
    capabilities.abilities.rate && signals.minus(capabilities.signals.present()).is_empty()
}

/// What Careful Resume has done, from the plane's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CarefulResumeStatus {
    /// Sets of parameters that are remembered now, one for each path.
    pub sets: u64,
    /// Observations that were saved, as new sets or in place of former ones.
    pub saved: u64,
    /// Sets that were forgotten at the end of their lifetime.
    pub expired: u64,
    /// Sets that made room for others.
    pub evicted: u64,
    /// Flows that began with a set.
    pub started: u64,
    /// Flows that raised their window to a part of the saved one: entered the Unvalidated Phase.
    pub jumped: u64,
    /// Flows all of whose unvalidated packets arrived without congestion.
    pub validated: u64,
    /// Flows that entered the Safe Retreat Phase, or had a timeout after they jumped; each deletes its
    /// set.
    pub retreated: u64,
}

/// What the flows of a plane share.
#[derive(Debug, Clone)]
pub(crate) struct Shared(Arc<Mutex<Memory>>);

impl Shared {
    pub(crate) fn new(config: CarefulResumeConfig) -> Self {
        Self(Arc::new(Mutex::new(Memory::new(config))))
    }

    /// An author's code runs while nothing is locked, so a panic of it poisons nothing.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
