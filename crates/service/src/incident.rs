//! What is kept of a flow that went under a fallback: the file that a bug report needs.

use std::collections::BTreeMap;

use fairwater_plane::{FlowId, LoadedProgram, ProgramId};
use serde::{Deserialize, Serialize};

use crate::DatapathId;
use crate::flow_status::{FlowMeasures, FlowStatus};
use crate::report_log::LoggedReport;
use crate::service::{Service, Shared};

/// Reports of a flow that an incident keeps, at most.
const REPORTS: usize = 32;

/// Incidents that wait to be drained; further ones are only counted. When a plane was silent, all
/// its flows come back at once.
const MOST: usize = 64;

/// A flow left its algorithm, for good or until its plane was back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incident {
    /// Why, as one clause.
    pub cause: String,
    /// The flow's number.
    pub number: u32,
    /// Distinguishes the flow from those that had the number before.
    pub generation: u32,
    /// What was known of the flow; nothing if it ended meanwhile.
    pub flow: Option<FlowStatus>,
    /// Version of the plane.
    pub version: String,
    /// The flow's last reports, the oldest first.
    pub reports: Vec<ReportRecord>,
}

/// A report of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportRecord {
    /// The datapath's time, µs.
    pub time_us: u64,
    /// Name of the algorithm whose program reported.
    pub algorithm: String,
    /// Name of the program that reported.
    pub program: String,
    /// cwnd after the invocation, bytes.
    pub cwnd_bytes: u64,
    /// Pacing rate after the invocation, bytes/s; 0 is none.
    pub rate_bytes_per_s: u64,
    /// The report variables, by name.
    pub fields: BTreeMap<String, u64>,
}

/// Causes of incidents that are not made yet.
#[derive(Debug, Default)]
pub(crate) struct Causes {
    waiting: Vec<(FlowId, String)>,
    /// Incidents that found no room, from the start.
    omitted: u64,
}

impl Causes {
    pub(crate) fn push(&mut self, flow: FlowId, cause: impl FnOnce() -> String) {
        if self.waiting.len() < MOST {
            self.waiting.push((flow, cause()));
        } else {
            self.omitted += 1;
        }
    }
}

impl Service {
    /// Times that a flow left its algorithm of which no [`Incident`] tells, because too many did at
    /// once.
    #[must_use]
    pub fn incidents_omitted(&self) -> u64 {
        self.shared.causes.omitted
    }

    /// Makes the incidents of what has happened since the last call; `measure` answers for direct
    /// datapaths.
    pub(crate) fn collect_incidents(
        &mut self,
        measure: &mut dyn FnMut(DatapathId, FlowId) -> Option<FlowMeasures>,
    ) -> Vec<Incident> {
        self.shared.collect_notices();
        let waiting = std::mem::take(&mut self.shared.causes.waiting);
        let made = waiting.into_iter().map(|(flow, cause)| Incident {
            cause,
            number: flow.slot,
            generation: flow.generation,
            flow: self.flow_status(flow, measure),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            reports: self.shared.last_reports(flow),
        });
        made.collect()
    }
}

impl Shared {
    fn last_reports(&self, flow: FlowId) -> Vec<ReportRecord> {
        let logged = self.log.last(flow, REPORTS);
        logged
            .into_iter()
            .map(|report| self.record(report))
            .collect()
    }

    fn record(&self, report: LoggedReport) -> ReportRecord {
        let (algorithm, program) = self.names(report.program);
        let names = program.map(|program| {
            let variables = program.program().variables.iter();
            variables.map(|variable| variable.name.clone()).collect()
        });
        let names: Vec<String> = names.unwrap_or_default();
        ReportRecord {
            time_us: report.time_us,
            algorithm: algorithm.to_owned(),
            program: program.map_or_else(String::new, |program| program.name().to_owned()),
            cwnd_bytes: report.cwnd,
            rate_bytes_per_s: report.rate,
            fields: names.into_iter().zip(report.fields).collect(),
        }
    }

    fn names(&self, id: ProgramId) -> (&str, Option<&LoadedProgram>) {
        let hosted = self.plane.algorithms().get(id.algorithm() as usize);
        let program = hosted.and_then(|hosted| hosted.programs().get(id.index() as usize));
        (hosted.map_or("", |hosted| hosted.name()), program)
    }
}
