//! How fast reports go through a Python algorithm.

use std::time::Instant;

use fairwater_plane::{Command, CommandSink, Event, FlowId, FlowInfo, Plane, ProgramId, RawReport};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::algorithm;
use crate::command::refusal;
use crate::errors;

/// Takes the commands of a flow and counts them.
struct Counted(u64);

impl CommandSink for Counted {
    fn command(&mut self, _: FlowId, command: &Command) {
        self.0 += 1;
        std::hint::black_box(command);
    }
}

/// Hands the first program's reports to an algorithm, flow after flow, in the plane that hosts it
/// everywhere else. Returns the seconds that it took, and how many commands came of it.
#[pyfunction]
pub(crate) fn time_reports(
    py: Python<'_>,
    class: &Bound<'_, PyAny>,
    parameters: &Bound<'_, PyDict>,
    reports: u64,
    flows: u32,
) -> PyResult<(f64, u64)> {
    let choice = algorithm::choice(class, parameters).map_err(|unknown| refusal(py, unknown))?;
    let mut plane = Plane::new();
    plane
        .add(|programs| choice.build(programs))
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    let timed = py.detach(|| time(&mut plane, reports, flows.max(1)));
    if errors::was_interrupted() {
        return Err(PyKeyboardInterrupt::new_err(()));
    }
    match plane.drain_notices().next() {
        Some(notice) => Err(PyValueError::new_err(notice.to_string())),
        None => Ok(timed),
    }
}

fn time(plane: &mut Plane, reports: u64, flows: u32) -> (f64, u64) {
    let mut sink = Counted(0);
    let flow = |slot: u32| FlowId {
        slot,
        generation: 1,
    };
    for slot in 0..flows {
        let info = FlowInfo {
            local: ([10, 0, 0, 1], 1).into(),
            remote: ([10, 0, 0, 2], 2).into(),
            mss: 1448,
            cwnd: 14_480,
            srtt_us: 0,
            now_us: 0,
            tag: 0,
            ..FlowInfo::default()
        };
        let created = Event::Created {
            flow: flow(slot),
            algorithm: 0,
            info: &info,
        };
        plane.on_event(created, &mut sink);
    }
    let program = plane.algorithms()[0].programs()[0].report_len();
    let mut fields = vec![0; program];
    let start = Instant::now();
    for at in 0..reports {
        for (index, field) in fields.iter_mut().enumerate() {
            // A fresh, small number in each field, so that none is cached by Python.
            *field = 1000 + (at + index as u64) % 10_000;
        }
        let report = RawReport {
            program: ProgramId::new(0, 0),
            time_us: at,
            cwnd: 14_480 + at % 100_000,
            rate: 0,
            fields: &fields,
        };
        let flow = flow((at % u64::from(flows)) as u32);
        plane.on_event(Event::Reported { flow, report }, &mut sink);
    }
    (start.elapsed().as_secs_f64(), sink.0)
}
