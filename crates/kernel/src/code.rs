//! Pieces of generated code that are the same around a program in any kernel datapath.

use std::os::fd::AsRawFd;

use fairwater_exec::ebpf::asm::Asm;
use fairwater_exec::ebpf::{Alu, Cond, Reg, Size};
use fairwater_exec::frame;
use fairwater_lang::Signal;
use libbpf_rs::libbpf_sys;

use crate::{ProgramMaps, layout, wakeup};

/// An offset in a frame as an instruction has it.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "a frame's fixed part has 512 bytes"
)]
#[must_use]
pub const fn offset(bytes: usize) -> i16 {
    assert!(bytes < frame::VARIABLES as usize);
    bytes as i16
}

/// Offset of `Ack.now` in the frame.
const NOW: i16 = frame::SIGNALS + 8 * Signal::Now as i16;

/// Puts the address of the frame of the slot in `R1` into `R6`; leaves the program if there is none.
/// Uses the eight bytes below the frame pointer.
pub fn find_frame(asm: &mut Asm, maps: ProgramMaps<'_>) {
    let slot = -8;
    let found = asm.label();
    asm.store(Size::U32, Reg::R10, slot, Reg::R1);
    asm.mov(Reg::R2, Reg::R10);
    asm.alu(Alu::Add, Reg::R2, i32::from(slot));
    asm.map_fd(Reg::R1, maps.frames.as_raw_fd());
    asm.call(libbpf_sys::BPF_FUNC_map_lookup_elem.cast_signed());
    asm.jump_if(Cond::Ne, Reg::R0, 0, found);
    asm.exit();
    asm.bind(found);
    asm.mov(Reg::R6, Reg::R0);
}

/// Puts the report of `len` bytes in the frame at `R6` on the ring. It wakes the plane as its budget of
/// wake-ups says, or in any case if it is `urgent`.
pub fn report(asm: &mut Asm, maps: ProgramMaps<'_>, index: u32, len: u32, urgent: bool) {
    asm.store(
        Size::U32,
        Reg::R6,
        offset(layout::frame::REPORT_PROGRAM),
        index.cast_signed(),
    );
    choose_wakeup(asm, maps, urgent);
    asm.map_fd(Reg::R1, maps.events.as_raw_fd());
    asm.mov(Reg::R2, Reg::R6);
    asm.alu(Alu::Add, Reg::R2, i32::from(frame::REPORT));
    asm.mov(Reg::R3, len.cast_signed());
    asm.call(libbpf_sys::BPF_FUNC_ringbuf_output.cast_signed());
}

/// Puts the ring's flags into `R4`: whether this report wakes the plane (`wakeup`).
fn choose_wakeup(asm: &mut Asm, maps: ProgramMaps<'_>, urgent: bool) {
    let force = libbpf_sys::BPF_RB_FORCE_WAKEUP.cast_signed();
    if urgent {
        return asm.mov(Reg::R4, force);
    }
    let (used_up, chosen) = (asm.label(), asm.label());
    asm.mov(Reg::R4, libbpf_sys::BPF_RB_NO_WAKEUP.cast_signed());
    asm.map_value(Reg::R1, maps.page.as_raw_fd(), layout::WAKEUPS_UNTIL_US);
    asm.load(Size::U64, Reg::R2, Reg::R6, NOW);
    asm.load(Size::U64, Reg::R3, Reg::R1, 0);
    asm.jump_if(Cond::Ge, Reg::R3, Reg::R2, used_up);
    asm.mov(Reg::R3, Reg::R2);
    asm.bind(used_up);
    asm.mov(Reg::R5, Reg::R3);
    asm.alu(Alu::Sub, Reg::R5, Reg::R2);
    asm.jump_if(Cond::Ge, Reg::R5, wakeup::BURST_US as i32, chosen);
    asm.alu(Alu::Add, Reg::R3, wakeup::PERIOD_US as i32);
    asm.store(Size::U64, Reg::R1, 0, Reg::R3);
    asm.mov(Reg::R4, force);
    asm.bind(chosen);
}
