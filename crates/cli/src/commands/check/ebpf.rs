//! The eBPF of a program on its own, without a datapath around it.

use fairwater_exec::ebpf::{GenerateError, Host, Reg, asm::Asm, generate, listing};
use fairwater_exec::frame::FrameLayout;
use fairwater_lang::Program;

/// The instructions as text, one a line, for flows that have room for this program.
///
/// # Errors
/// The program exceeds a bound of eBPF.
pub(super) fn listing_of(program: &Program) -> Result<String, GenerateError> {
    let layout = FrameLayout::new(program.variables.len());
    Ok(listing(&generate(program, layout, &Bare)?))
}

/// No datapath: the frame is the context, cwnd and rate stay in it, reports go nowhere.
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
