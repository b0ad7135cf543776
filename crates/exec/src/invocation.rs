//! What surrounds a program's run in every invocation, whichever backend runs it.
//!
//! The order is that of [`fairwater_lang::Program`]'s module: apply what is staged, run the events
//! ([`crate::interp::run`] or compiled code), judge the controls, take the report.

use alloc::vec::Vec;

use fairwater_lang::{MAX_RATE, Program, Scope, Type, VarId};

use crate::frame::Fault;

/// What a program works on besides its variables. Compiled code takes it by address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Registers {
    /// `Cwnd`, bytes.
    pub cwnd: u64,
    /// `Rate`, bytes/s; 0 is none.
    pub rate: u64,
    /// `Micros` reads `Ack.now` minus this, µs, wrapping.
    pub timer_zero: u64,
}

/// Why controls that a program or the plane has set cannot be applied; `before` is `(cwnd, rate)`
/// at the start of the invocation. Controls that did not change are not judged.
#[must_use]
pub const fn control_fault(before: (u64, u64), after: &Registers) -> Option<Fault> {
    if before.0 == after.cwnd && before.1 == after.rate {
        None
    } else if after.cwnd == 0 {
        Some(Fault::CwndZero)
    } else if after.rate > MAX_RATE {
        Some(Fault::RateAbsurd)
    } else {
        None
    }
}

/// The variables of a program that has just been switched to.
#[must_use]
pub fn initial(program: &Program) -> Vec<u64> {
    program.variables.iter().map(|v| v.init).collect()
}

/// Gives the volatile variables their initial values again: what follows a report.
pub fn reset_volatile(program: &Program, variables: &mut [u64]) {
    for (value, declared) in variables.iter_mut().zip(&program.variables) {
        if declared.volatile {
            *value = declared.init;
        }
    }
}

/// What a staged update sets the variable to: a boolean becomes 1 unless it is 0. `None` if there
/// is no such variable or it is not of [`Scope::Control`]: the update has no effect.
#[must_use]
pub fn staged_value(program: &Program, variable: VarId, value: u64) -> Option<u64> {
    let declared = program.variables.get(usize::from(variable.0))?;
    if declared.scope != Scope::Control {
        return None;
    }
    Some(match declared.ty {
        Type::Bool => u64::from(value != 0),
        Type::Num => value,
    })
}
