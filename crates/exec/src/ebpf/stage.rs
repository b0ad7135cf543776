//! The code that applies what the plane staged; it lies off the hot path.

use super::asm::{Asm, Label};
use super::expr::signal_at;
use super::insn::{Alu, Cond, Reg, Size};
use crate::frame::{
    APPLIED, CWND, FrameLayout, INSTALLED, RATE, SET_CWND, SET_RATE, STAGE_CWND, STAGE_INSTALL,
    STAGE_RATE, STAGE_SET, TIMER_ZERO,
};
use fairwater_lang::{Program, Scope, Signal, Type, Variable};

use Reg::{R1, R2, R3, R4, R6};

/// At `stage`, applies the stage whose sequence is in `R1`, then goes to `back`. No code falls
/// into it.
///
/// The plane may write to the stage meanwhile: each of its words is read once, and a stage that
/// was torn so is followed by one of another sequence, which is applied too.
pub(super) fn apply(
    asm: &mut Asm,
    program: &Program,
    layout: FrameLayout,
    stage: Label,
    back: Label,
) {
    // The updates come first, so that a switch of program goes on to them by a jump: there the
    // verifier keeps a state, and need not check them once more for stages without a switch.
    let updates = asm.label();
    asm.bind(updates);
    apply_updates(asm, program, layout);
    asm.jump(back);

    asm.bind(stage);
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
    asm.jump(updates);
}

/// Sets what the stage sets: the controls, then the control variables.
fn apply_updates(asm: &mut Asm, program: &Program, layout: FrameLayout) {
    asm.load(Size::U32, R1, R6, STAGE_SET);
    for (bit, from, to) in [(SET_CWND, STAGE_CWND, CWND), (SET_RATE, STAGE_RATE, RATE)] {
        asm.load(Size::U64, R2, R6, from);
        take_if_set(asm, bit.trailing_zeros() as usize, to);
    }
    for word in 0..layout.staged_words() {
        let staged: Vec<_> = program
            .variables
            .iter()
            .enumerate()
            .filter(|(i, v)| v.scope == Scope::Control && layout.staged_bit(*i).0 == word)
            .collect();
        if staged.is_empty() {
            continue;
        }
        asm.load(Size::U64, R1, R6, (layout.staged_mask() + 8 * word) as i16);
        for (i, variable) in staged {
            let (_, bit) = layout.staged_bit(i);
            asm.load(Size::U64, R2, R6, layout.staged_value(i) as i16);
            if variable.ty == Type::Bool {
                // Of `x` and `-x` one has the highest bit, unless `x` is 0.
                asm.mov(R3, 0);
                asm.alu(Alu::Sub, R3, R2);
                asm.alu(Alu::Or, R2, R3);
                asm.alu(Alu::Rsh, R2, 63);
            }
            take_if_set(asm, bit, layout.variable(i) as i16);
        }
    }
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

/// Sets the word at `to` to `R2` if bit `bit` of `R1` is 1. Without a branch: the verifier would
/// follow each, and a stage is rare.
fn take_if_set(asm: &mut Asm, bit: usize, to: i16) {
    asm.mov(R3, R1);
    asm.alu(Alu::Lsh, R3, 63 - bit as i32);
    asm.alu(Alu::Arsh, R3, 63);
    asm.load(Size::U64, R4, R6, to);
    asm.alu(Alu::Xor, R2, R4);
    asm.alu(Alu::And, R2, R3);
    asm.alu(Alu::Xor, R2, R4);
    asm.store(Size::U64, R6, to, R2);
}
