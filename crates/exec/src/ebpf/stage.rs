//! The code that applies what the plane staged; it lies off the hot path.

use super::asm::{Asm, Label};
use super::expr::signal_at;
use super::insn::{Cond, Reg, Size};
use crate::frame::{
    APPLIED, CWND, FrameLayout, INSTALLED, RATE, SET_CWND, SET_RATE, STAGE_CWND, STAGE_INSTALL,
    STAGE_RATE, STAGE_SET, TIMER_ZERO,
};
use fairwater_lang::{Program, Scope, Signal, Type, Variable};

use Reg::{R1, R2, R6};

/// Applies the stage whose sequence is in `R1`, then goes to `back`.
///
/// The plane may write to the stage meanwhile: each of its words is read once, and a stage that
/// was torn so is followed by one of another sequence, which is applied too.
pub(super) fn apply(asm: &mut Asm, program: &Program, layout: FrameLayout, back: Label) {
    let updates = asm.label();
    asm.store(Size::U32, R6, APPLIED, R1);
    asm.load(Size::U32, R1, R6, STAGE_INSTALL);
    asm.load(Size::U32, R2, R6, INSTALLED);
    asm.jump_if(Cond::Eq, R1, R2, updates);
    asm.store(Size::U32, R6, INSTALLED, R1);
    asm.load(Size::U64, R1, R6, signal_at(Signal::Now));
    asm.store(Size::U64, R6, TIMER_ZERO, R1);
    for (i, variable) in program.variables.iter().enumerate() {
        initialise(asm, layout, i, variable);
    }

    asm.bind(updates);
    asm.load(Size::U32, R1, R6, STAGE_SET);
    for (bit, from, to) in [(SET_CWND, STAGE_CWND, CWND), (SET_RATE, STAGE_RATE, RATE)] {
        unless_set(asm, bit, |asm, skip| {
            asm.load(Size::U64, R2, R6, from);
            asm.store(Size::U64, R6, to, R2);
            asm.bind(skip);
        });
    }
    for (half, variables) in program.variables.chunks(32).enumerate() {
        if variables.iter().all(|v| v.scope != Scope::Control) {
            continue;
        }
        let none = asm.label();
        asm.load(Size::U32, R1, R6, (layout.staged_mask() + 4 * half) as i16);
        asm.jump_if(Cond::Eq, R1, 0, none);
        for (bit, variable) in variables.iter().enumerate() {
            if variable.scope != Scope::Control {
                continue;
            }
            let i = 32 * half + bit;
            unless_set(asm, 1 << bit, |asm, skip| {
                asm.load(Size::U64, R2, R6, layout.staged_value(i) as i16);
                if variable.ty == Type::Bool {
                    let done = asm.label();
                    asm.jump_if(Cond::Eq, R2, 0, done);
                    asm.mov(R2, 1);
                    asm.bind(done);
                }
                asm.store(Size::U64, R6, layout.variable(i) as i16, R2);
                asm.bind(skip);
            });
        }
        asm.bind(none);
    }
    asm.jump(back);
}

/// Sets a variable to its initial value; `R2` may be lost.
pub(super) fn initialise(asm: &mut Asm, layout: FrameLayout, i: usize, variable: &Variable) {
    let at = layout.variable(i) as i16;
    match i32::try_from(variable.init.cast_signed()) {
        Ok(imm) => asm.store(Size::U64, R6, at, imm),
        Err(_) => {
            asm.constant(R2, variable.init);
            asm.store(Size::U64, R6, at, R2);
        }
    }
}

/// Goes to the label that `then` binds unless a bit of `R1`'s low 32 is set.
fn unless_set(asm: &mut Asm, bit: u32, then: impl FnOnce(&mut Asm, Label)) {
    let (set, skip) = (asm.label(), asm.label());
    asm.jump_if32(Cond::Set, R1, bit.cast_signed(), set);
    asm.jump(skip);
    asm.bind(set);
    then(asm, skip);
}
