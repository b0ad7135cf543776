//! The eBPF of a program on its own, without a datapath around it.

use super::longest;
use crate::ebpf::asm::Asm;
use crate::ebpf::{GenerateError, Host, Insn, Reg, generate as generate_for, insn};
use crate::frame::FrameLayout;
use fairwater_lang::Program;

/// The code of a program whose frame is the hook's context: cwnd and rate stay in it, and reports go
/// nowhere.
///
/// # Errors
/// The program exceeds a bound of eBPF.
pub fn generate(program: &Program) -> Result<Vec<Insn>, GenerateError> {
    let layout = FrameLayout::new(program.variables.len());
    generate_for(program, layout, &Bare)
}

struct Bare;

impl Host for Bare {
    fn enter(&self, asm: &mut Asm) {
        asm.mov(Reg::R6, Reg::R1);
    }

    fn apply_cwnd(&self, _: &mut Asm) {}

    fn apply_rate(&self, _: &mut Asm) {}

    fn report(&self, _: &mut Asm, _: u32) {}

    fn leave(&self, asm: &mut Asm) {
        asm.mov(Reg::R0, 0);
        asm.exit();
    }
}

/// The most instructions that one run of the code executes: the length of its longest path. Of code
/// that loops, which is never generated, all of its instructions.
#[must_use]
pub fn longest_path(code: &[Insn]) -> usize {
    let next: Vec<_> = (0..code.len()).map(|at| successors(code, at)).collect();
    longest::path(&vec![1; code.len()], &next).unwrap_or(code.len())
}

/// Where the code goes from the instruction in a slot.
fn successors(code: &[Insn], at: usize) -> Vec<usize> {
    let insn = code[at];
    let class = insn.code & insn::CLASS_MASK;
    let operation = insn.code & insn::OPERATION_MASK;
    if class != insn::class::JMP && class != insn::class::JMP32 {
        // The second slot of a 64-bit constant is a part of its first.
        let wide = insn.code == insn::class::LD | insn::MODE_IMM | crate::ebpf::Size::U64 as u8;
        return vec![at + if wide { 2 } else { 1 }];
    }
    let jump = |by: i32| (at + 1).checked_add_signed(by as isize);
    match operation {
        insn::EXIT if class == insn::class::JMP => Vec::new(),
        insn::CALL if class == insn::class::JMP => vec![at + 1],
        insn::JA if class == insn::class::JMP => jump(insn.off.into()).into_iter().collect(),
        insn::JA => jump(insn.imm).into_iter().collect(),
        _ => jump(insn.off.into()).into_iter().chain([at + 1]).collect(),
    }
}
