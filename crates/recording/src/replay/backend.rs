//! What runs a recording's programs again.

use fairwater_exec::interp;
use fairwater_exec::invocation::{Registers, control_fault, initial, reset_volatile, staged_value};
#[cfg(feature = "native")]
use fairwater_exec::native::Code;
use fairwater_lang::{Program, Signal, VarId};
use thiserror::Error;

use crate::record::{Controls, Invoked, State};

/// A back end cannot run a program.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{back_end} cannot run the programs: {why}")]
pub struct BackendError {
    /// The back end.
    pub back_end: &'static str,
    /// Why.
    pub why: String,
}

/// What one invocation did again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Window and rate afterwards; of an invocation that faulted, those before it.
    pub controls: Controls,
    /// The report variables, if the program reported.
    pub report: Option<Vec<u64>>,
    /// Bits of [`fairwater_exec::frame::Fault`]; 0 is none.
    pub fault: u32,
}

/// Runs the programs of a recording's flows.
pub trait Backend {
    /// The back end's name.
    fn name(&self) -> &'static str;

    /// Runs an invocation of a flow in this state, which takes the flow's next state.
    ///
    /// # Errors
    /// The back end cannot run it at all.
    fn invoke(
        &mut self,
        programs: &[&Program],
        state: &mut State,
        invoked: &Invoked,
    ) -> Result<Outcome, BackendError>;
}

/// The reference interpreter.
#[derive(Debug, Clone, Copy, Default)]
pub struct Interpreter;

impl Backend for Interpreter {
    fn name(&self) -> &'static str {
        "interpreter"
    }

    fn invoke(
        &mut self,
        programs: &[&Program],
        state: &mut State,
        invoked: &Invoked,
    ) -> Result<Outcome, BackendError> {
        Ok(invoke(
            programs,
            state,
            invoked,
            |at, registers, variables| {
                interp::run(programs[at], registers, variables, &invoked.signals)
            },
        ))
    }
}

/// Machine code of this machine.
#[cfg(feature = "native")]
#[derive(Debug)]
pub struct MachineCode {
    codes: Vec<Code>,
}

#[cfg(feature = "native")]
impl MachineCode {
    /// Compiles the programs.
    ///
    /// # Errors
    /// A program cannot be compiled here.
    pub fn compile(programs: &[&Program]) -> Result<Self, BackendError> {
        let codes = programs.iter().map(|program| Code::compile(program));
        let codes = codes.collect::<Result<_, _>>();
        codes
            .map(|codes| Self { codes })
            .map_err(|error| BackendError {
                back_end: NATIVE,
                why: error.to_string(),
            })
    }
}

#[cfg(feature = "native")]
const NATIVE: &str = "machine code";

#[cfg(feature = "native")]
impl Backend for MachineCode {
    fn name(&self) -> &'static str {
        NATIVE
    }

    fn invoke(
        &mut self,
        programs: &[&Program],
        state: &mut State,
        invoked: &Invoked,
    ) -> Result<Outcome, BackendError> {
        Ok(invoke(
            programs,
            state,
            invoked,
            |at, registers, variables| self.codes[at].run(registers, variables, &invoked.signals),
        ))
    }
}

/// Applies what is staged; the program that then runs, if the flow has one.
pub fn apply_stage(
    programs: &[&Program],
    state: &mut State,
    invoked: &Invoked,
) -> Option<(usize, Registers)> {
    let mut registers = Registers {
        cwnd: invoked.before.cwnd,
        rate: invoked.before.rate,
        timer_zero: state.timer_zero_us,
    };
    if let Some(stage) = &invoked.stage {
        if let Some(switch) = stage.switch {
            state.program = Some(switch);
            state.variables = initial(programs.get(switch as usize)?);
            registers.timer_zero = invoked.signals[Signal::Now];
        }
        let program = state.program.and_then(|at| programs.get(at as usize));
        for &(at, value) in &stage.updates {
            let value = program.and_then(|program| staged_value(program, VarId(at), value));
            let variable = state.variables.get_mut(usize::from(at));
            if let (Some(variable), Some(value)) = (variable, value) {
                *variable = value;
            }
        }
        registers.cwnd = stage.cwnd.unwrap_or(registers.cwnd);
        registers.rate = stage.rate.unwrap_or(registers.rate);
    }
    let at = state.program? as usize;
    let program = programs.get(at)?;
    (state.variables.len() == program.variables.len()).then_some((at, registers))
}

/// Judges what the program has set, and takes its report.
pub fn conclude(
    program: &Program,
    state: &mut State,
    before: Controls,
    registers: &Registers,
    has_reported: bool,
) -> Outcome {
    state.timer_zero_us = registers.timer_zero;
    if let Some(fault) = control_fault((before.cwnd, before.rate), registers) {
        state.program = None;
        state.variables.clear();
        state.controls = before;
        return Outcome {
            controls: before,
            report: None,
            fault: fault as u32,
        };
    }
    state.controls = Controls {
        cwnd: registers.cwnd,
        rate: registers.rate,
    };
    let report = has_reported.then(|| {
        let fields = state.variables[..program.report_len()].to_vec();
        reset_volatile(program, &mut state.variables);
        fields
    });
    Outcome {
        controls: state.controls,
        report,
        fault: 0,
    }
}

fn invoke(
    programs: &[&Program],
    state: &mut State,
    invoked: &Invoked,
    run: impl FnOnce(usize, &mut Registers, &mut [u64]) -> bool,
) -> Outcome {
    let Some((at, mut registers)) = apply_stage(programs, state, invoked) else {
        return Outcome::default();
    };
    let has_reported = run(at, &mut registers, &mut state.variables);
    conclude(
        programs[at],
        state,
        invoked.before,
        &registers,
        has_reported,
    )
}
