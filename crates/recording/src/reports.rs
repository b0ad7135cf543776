//! Reports on their way to the plane, so that a report is written once though it is seen twice.

use std::collections::{HashMap, VecDeque};

use crate::record::{Invoked, Record, Report, What};

/// Reports of a flow that are kept for the plane, at most; the oldest are then written twice.
const MOST: usize = 256;

/// Reports that invocations made and that the plane has not taken in yet, by flow.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reports {
    flows: HashMap<u32, VecDeque<(u64, Report)>>,
}

impl Reports {
    /// Takes note of a record, in the order of the recording.
    pub(crate) fn note(&mut self, record: &Record) {
        match &record.what {
            What::Invoked(invoked) => self.invoked(record.flow, record.time_us, invoked),
            What::Ended => drop(self.flows.remove(&record.flow)),
            What::Gap => self.flows.clear(),
            _ => {}
        }
    }

    fn invoked(&mut self, flow: u32, time_us: u64, invoked: &Invoked) {
        let (Some(fields), Some(program)) = (&invoked.report, invoked.program) else {
            return;
        };
        let reports = self.flows.entry(flow).or_default();
        if reports.len() == MOST {
            reports.pop_front();
        }
        let report = Report {
            program,
            controls: invoked.after,
            fields: fields.clone(),
        };
        reports.push_back((time_us, report));
    }

    /// The report that the flow's program made at this time, and forgets those before.
    pub(crate) fn take(&mut self, flow: u32, time_us: u64) -> Option<Report> {
        let reports = self.flows.get_mut(&flow)?;
        let at = reports.iter().position(|(time, _)| *time == time_us)?;
        reports.drain(..at);
        reports.pop_front().map(|(_, report)| report)
    }
}
