//! What a host keeps of flows that left their algorithm.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use fairwater_service::Incident;
use serde::{Deserialize, Serialize};

/// Incidents that are kept; the oldest go first.
pub const MOST_INCIDENTS: usize = 256;

/// An incident and when it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptIncident {
    /// Number of the incident, from 1 since the plane's start.
    pub id: u64,
    /// When the plane noticed, µs since 1970 (UTC).
    pub unix_us: u64,
    /// What happened.
    #[serde(flatten)]
    pub incident: Incident,
}

/// The last incidents.
#[derive(Debug, Default)]
pub(super) struct Incidents {
    kept: VecDeque<KeptIncident>,
    total: u64,
}

impl Incidents {
    pub(super) fn keep(&mut self, incident: Incident, at: SystemTime) {
        if self.kept.len() == MOST_INCIDENTS {
            self.kept.pop_front();
        }
        self.total += 1;
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.kept.push_back(KeptIncident {
            id: self.total,
            unix_us: u64::try_from(since.as_micros()).unwrap_or(u64::MAX),
            incident,
        });
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &KeptIncident> {
        self.kept.iter()
    }

    /// Incidents since the plane's start.
    pub(super) fn total(&self) -> u64 {
        self.total
    }
}
