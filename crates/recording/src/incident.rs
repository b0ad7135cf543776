//! What the service kept of a flow that fell back, through the flow's algorithm again.

use fairwater_plane::{Event, FlowInfo, Plane, ProgramId, RawReport};
use fairwater_service::Incident;
use serde::Serialize;
use thiserror::Error;

use crate::replay::{commands_of, plane_name};

/// Why an incident cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum IncidentError {
    /// There is no report.
    #[error("the incident has no reports")]
    NoReports,
    /// The plane has no such algorithm.
    #[error("algorithm `{0}` is not there")]
    NoAlgorithm(String),
    /// A report is of another program or of other fields than the algorithm has.
    #[error(
        "report {number} is of program `{program}`, which algorithm `{algorithm}` has not with these fields"
    )]
    Foreign {
        /// Number of the report, from 1.
        number: usize,
        /// The program's name.
        program: String,
        /// The algorithm's name.
        algorithm: String,
    },
}

/// What the algorithm did again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IncidentReplay {
    /// The algorithm.
    pub algorithm: String,
    /// The reports, in order.
    pub reports: Vec<ReplayedReport>,
    /// Why the plane withdrew the flow, if it did: at the last of `reports`.
    pub withdrawn: Option<String>,
}

/// A report and what the algorithm made of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReplayedReport {
    /// The datapath's time, µs.
    pub time_us: u64,
    /// Name of the program that reported.
    pub program: String,
    /// The window when the program reported, bytes.
    pub cwnd_bytes: u64,
    /// The commands, as JSON of [`crate::FlowCommand`].
    pub commands: Vec<String>,
}

/// Gives a new flow of the incident's algorithm the reports that were kept. The algorithm's state before
/// the first of them is not known, so its answers need not be those that it gave.
///
/// # Errors
/// See [`IncidentError`].
pub fn incident(incident: &Incident, mut plane: Plane) -> Result<IncidentReplay, IncidentError> {
    let first = incident.reports.first().ok_or(IncidentError::NoReports)?;
    // Reports of the algorithm that had the flow before a hand-over say nothing to the last one.
    let last = incident.reports.last().unwrap_or(first);
    let name = &last.algorithm;
    let index = plane.algorithms().iter().position(|a| a.name() == name);
    let index = index.ok_or_else(|| IncidentError::NoAlgorithm(name.clone()))?;
    let info = FlowInfo {
        cwnd: first.cwnd_bytes,
        rate: first.rate_bytes_per_s,
        now_us: first.time_us,
        ..incident
            .flow
            .as_ref()
            .map_or_else(FlowInfo::default, |flow| FlowInfo {
                local: flow.measures.local,
                remote: flow.measures.remote,
                srtt_us: flow.measures.srtt_us,
                tag: flow.measures.tag,
                ..FlowInfo::default()
            })
    };
    let flow = plane_name(0);
    let created = Event::Created {
        flow,
        algorithm: index,
        info: &info,
    };
    commands_of(&mut plane, created);
    let mut replay = IncidentReplay {
        algorithm: name.clone(),
        reports: Vec::new(),
        withdrawn: None,
    };
    let of_algorithm = (1..).zip(&incident.reports);
    for (number, report) in of_algorithm.filter(|(_, report)| report.algorithm == *name) {
        let foreign = || IncidentError::Foreign {
            number,
            program: report.program.clone(),
            algorithm: name.clone(),
        };
        let hosted = plane.algorithms().get(index);
        let programs = hosted.map_or(&[][..], |hosted| hosted.programs());
        let mut named = (0u32..).zip(programs);
        let (place, program) = named
            .find(|(_, program)| program.name() == report.program)
            .ok_or_else(foreign)?;
        let variables = program
            .program()
            .variables
            .iter()
            .take(program.report_len());
        let fields: Option<Vec<u64>> = variables
            .map(|variable| report.fields.get(&variable.name).copied())
            .collect();
        let fields = fields.ok_or_else(foreign)?;
        let raw = RawReport {
            program: ProgramId::new(u32::try_from(index).unwrap_or(u32::MAX), place),
            time_us: report.time_us,
            cwnd: report.cwnd_bytes,
            rate: report.rate_bytes_per_s,
            fields: &fields,
        };
        // The flow runs the program that reported, whatever a new flow begins with.
        let commands = commands_of(&mut plane, Event::Reported { flow, report: raw });
        replay.reports.push(ReplayedReport {
            time_us: report.time_us,
            program: report.program.clone(),
            cwnd_bytes: report.cwnd_bytes,
            commands,
        });
        replay.withdrawn = plane
            .drain_notices()
            .map(|notice| notice.reason.to_string())
            .next();
        if replay.withdrawn.is_some() {
            break;
        }
    }
    Ok(replay)
}
