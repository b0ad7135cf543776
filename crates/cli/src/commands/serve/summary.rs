//! What a server did, from its start.

use std::collections::BTreeMap;
use std::fmt;

use fairwater_proto::RefusalReason;
use fairwater_service::Service;
use serde::Serialize;

/// What `fairwater serve --json` prints.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    algorithms: Vec<Algorithm>,
    flows: u64,
    reports: u64,
    /// Flows of datapaths that knew an earlier plane, found by their reports.
    found_again: u64,
    unknown_algorithm: u64,
    /// Messages refused, by reason; those that never were are left out.
    refused: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
struct Algorithm {
    name: String,
    flows: u64,
    reports: u64,
    withdrawn: u64,
}

impl Summary {
    pub(super) fn of(service: &Service) -> Self {
        let statistics = service.statistics();
        let algorithms = service.plane().algorithms().iter().map(|hosted| {
            let counts = hosted.statistics();
            Algorithm {
                name: hosted.name().to_owned(),
                flows: counts.started,
                reports: counts.reports,
                withdrawn: counts.withdrawn,
            }
        });
        let refused = RefusalReason::ALL
            .into_iter()
            .map(|reason| (format!("{reason:?}"), statistics.refused(reason)))
            .filter(|(_, count)| *count > 0);
        Self {
            algorithms: algorithms.collect(),
            flows: statistics.flows_total,
            reports: statistics.reports,
            found_again: statistics.found_again,
            unknown_algorithm: statistics.unknown_algorithm,
            refused: refused.collect(),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after {} flows and {} reports", self.flows, self.reports)
    }
}
