//! Replays: the recorded signals through other back ends, and through the algorithm.

mod algorithm;
mod backend;
mod difference;
#[cfg(feature = "ebpf")]
mod kernel_code;
mod open_loop;

use std::collections::HashMap;

use fairwater_lang::Program;
use serde::Serialize;

use crate::reader::Recording;
use crate::record::{Invoked, Record, State, What};

pub use algorithm::{AlgorithmReplay, algorithm};
pub(crate) use algorithm::{commands_of, name as plane_name};
#[cfg(feature = "native")]
pub use backend::MachineCode;
pub use backend::{Backend, BackendError, Interpreter, Outcome, apply_stage, conclude};
pub use difference::Difference;
#[cfg(feature = "ebpf")]
pub use kernel_code::KernelCode;
pub use open_loop::{Compared, OpenLoop, OpenLoopError, open_loop};

/// What a replay of all programs by one back end found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BackendReplay {
    /// The back end.
    pub back_end: String,
    /// Invocations that were run again and compared.
    pub invocations: u64,
    /// Invocations that no program ran, or of which the state before is not known.
    pub skipped: u64,
    /// Reports that were compared.
    pub reports: u64,
    /// The first difference, at which the replay ended.
    pub difference: Option<Difference>,
}

/// Runs every invocation of a recording again by a back end, and compares window, rate, report and
/// fault of each with what was recorded, up to the first difference.
///
/// # Errors
/// The back end cannot run a program.
pub fn programs(
    recording: &Recording,
    back_end: &mut dyn Backend,
) -> Result<BackendReplay, BackendError> {
    let programs: Vec<&Program> = recording.programs.iter().map(|(_, p)| p).collect();
    let mut lanes = Lanes::default();
    let mut replay = BackendReplay {
        back_end: back_end.name().to_owned(),
        invocations: 0,
        skipped: 0,
        reports: 0,
        difference: None,
    };
    let mut number = 0;
    for record in &recording.records {
        let found = match &record.what {
            What::State(recorded) => lanes.state(record.flow, recorded, &programs),
            What::Invoked(invoked) => {
                number += 1;
                let state = lanes.state_before(record);
                let Some(state) = state.filter(|_| invoked.program.is_some()) else {
                    replay.skipped += 1;
                    lanes.fallback(record);
                    continue;
                };
                let outcome = back_end.invoke(&programs, state, invoked)?;
                replay.invocations += 1;
                replay.reports += u64::from(outcome.report.is_some());
                let program = invoked.program.and_then(|at| programs.get(at as usize));
                let ran = (invoked.fault == 0).then_some(state.program).flatten();
                difference::of_outcome(program.copied(), invoked, &outcome).or_else(|| {
                    let recorded = invoked.program.filter(|_| invoked.fault == 0);
                    difference::of_program(recorded, ran)
                })
            }
            What::Ended => {
                lanes.flows.remove(&record.flow);
                None
            }
            What::Gap => {
                lanes.flows.clear();
                None
            }
            _ => None,
        };
        if let Some((field, recorded, replayed)) = found {
            replay.difference = Some(Difference {
                by: replay.back_end.clone(),
                invocation: number,
                flow: record.flow,
                time_us: record.time_us,
                field,
                recorded,
                replayed,
            });
            break;
        }
    }
    Ok(replay)
}

/// What an invocation did otherwise tha recorded, as one clause.
pub(crate) fn difference_of(
    program: &Program,
    recorded: &Invoked,
    replayed: &Outcome,
) -> Option<String> {
    difference::of_outcome(Some(program), recorded, replayed)
        .map(|(field, recorded, replayed)| format!("{field} is {replayed}, recorded {recorded}"))
}

/// The states of flows, as far as they are known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lanes {
    pub(crate) flows: HashMap<u32, State>,
}

impl Lanes {
    /// A recorded state: what differs from the flow's, or the flow's from now on.
    fn state(
        &mut self,
        flow: u32,
        recorded: &State,
        programs: &[&Program],
    ) -> Option<difference::Field> {
        match self.flows.get(&flow) {
            Some(state) => {
                let program = recorded.program.and_then(|at| programs.get(at as usize));
                difference::of_state(program.copied(), recorded, state)
            }
            None => {
                self.flows.insert(flow, recorded.clone());
                None
            }
        }
    }

    fn state_before(&mut self, record: &Record) -> Option<&mut State> {
        self.flows.get_mut(&record.flow)
    }

    /// The fallback ran: it leaves no program.
    pub(crate) fn fallback(&mut self, record: &Record) {
        if let (Some(state), What::Invoked(invoked)) =
            (self.flows.get_mut(&record.flow), &record.what)
        {
            state.program = None;
            state.variables.clear();
            state.controls = invoked.after;
        }
    }
}
