//! Where a replay first differs from its recording.

use std::fmt;

use fairwater_exec::frame::Fault;
use fairwater_lang::Program;
use serde::Serialize;

use super::backend::Outcome;
use crate::record::{Controls, Invoked, State};

/// A value that a replay has otherwise than the recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What replayed: a back end, or the algorithm.
    pub by: String,
    /// Number of the invocation, from 1 over the recording; of an event at the plane, of the last invocation
    /// before it.
    pub invocation: u64,
    /// Which of the recording's flows.
    pub flow: u32,
    /// The datapath's time, µs.
    pub time_us: u64,
    /// What differs.
    pub field: String,
    /// The recording's value.
    pub recorded: String,
    /// The replay's value.
    pub replayed: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: invocation {}, flow {}, {} µs: {} is {}, recorded {}",
            self.by,
            self.invocation,
            self.flow,
            self.time_us,
            self.field,
            self.replayed,
            self.recorded
        )
    }
}

/// A field with its recorded and its replayed value.
pub(crate) type Field = (String, String, String);

/// What an invocation did otherwise tha recorded.
pub(crate) fn of_outcome(
    program: Option<&Program>,
    recorded: &Invoked,
    replayed: &Outcome,
) -> Option<Field> {
    if recorded.fault != replayed.fault {
        return Some((
            "the fault".to_owned(),
            fault(recorded.fault),
            fault(replayed.fault),
        ));
    }
    // The fallback has then set the controls.
    if recorded.fault != 0 {
        return None;
    }
    of_controls(recorded.after, replayed.controls).or_else(|| {
        let (recorded, replayed) = (recorded.report.as_deref(), replayed.report.as_deref());
        match (recorded, replayed) {
            (None, None) => None,
            (Some(recorded), Some(replayed)) => {
                let name = |at: usize| format!("Report.{}", variable(program, at));
                of_values(recorded, replayed, name)
            }
            (recorded, replayed) => Some((
                "the report".to_owned(),
                presence(recorded.is_some()),
                presence(replayed.is_some()),
            )),
        }
    })
}

/// What a state has otherwise tha recorded.
pub(crate) fn of_state(
    program: Option<&Program>,
    recorded: &State,
    replayed: &State,
) -> Option<Field> {
    let other = of_program(recorded.program, replayed.program);
    if other.is_some() || recorded.program.is_none() {
        return other;
    }
    let name = |at: usize| format!("variable {}", variable(program, at));
    of_values(&recorded.variables, &replayed.variables, name).or_else(|| {
        of_values(&[recorded.timer_zero_us], &[replayed.timer_zero_us], |_| {
            "the time at which Micros is 0".to_owned()
        })
    })
}

/// Whether another program ran tha recorded, by indices of the recording's programs.
pub(crate) fn of_program(recorded: Option<u32>, replayed: Option<u32>) -> Option<Field> {
    let shown = |program: Option<u32>| match program {
        Some(program) => format!("program {program}"),
        None => "the fallback".to_owned(),
    };
    let field = || ("what runs".to_owned(), shown(recorded), shown(replayed));
    (recorded != replayed).then(field)
}

pub(crate) fn of_controls(recorded: Controls, replayed: Controls) -> Option<Field> {
    of_values(
        &[recorded.cwnd, recorded.rate],
        &[replayed.cwnd, replayed.rate],
        |at| if at == 0 { "Cwnd" } else { "Rate" }.to_owned(),
    )
}

pub(crate) fn of_values(
    recorded: &[u64],
    replayed: &[u64],
    name: impl Fn(usize) -> String,
) -> Option<Field> {
    if recorded.len() != replayed.len() {
        return Some((
            "the number of values".to_owned(),
            recorded.len().to_string(),
            replayed.len().to_string(),
        ));
    }
    let at = recorded.iter().zip(replayed).position(|(a, b)| a != b)?;
    Some((name(at), recorded[at].to_string(), replayed[at].to_string()))
}

fn variable(program: Option<&Program>, at: usize) -> String {
    let variable = program.and_then(|program| program.variables.get(at));
    variable.map_or_else(|| at.to_string(), |variable| variable.name.clone())
}

fn presence(is_there: bool) -> String {
    if is_there { "there" } else { "not there" }.to_owned()
}

fn fault(bits: u32) -> String {
    match bits {
        0 => "none".to_owned(),
        bits => format!("\"{}\"", Fault::reason(bits.into())),
    }
}
