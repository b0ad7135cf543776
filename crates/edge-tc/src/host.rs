//! A flow's program as eBPF for tc: the code around it.

use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use fairwater_exec::ebpf::asm::Asm;
use fairwater_exec::ebpf::{Host, Reg, Size};
use fairwater_kernel::code::{find_frame, report};
use fairwater_kernel::{ProgramMaps, Target};
use libbpf_rs::libbpf_sys;

use crate::Programs;
use crate::skeleton::types;

/// `TC_ACT_UNSPEC`, which is `TCX_NEXT`: the packet goes on to the next program.
const GO_ON: i32 = -1;

/// Offset of `cb[0]` in the context, where the calling program leaves the flow's slot.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "the context has less than 256 bytes"
)]
const SLOT: i16 = offset_of!(types::__sk_buff, cb) as i16;

/// The code around one program. `R7` is the packet. `fw_from_guest` and `fw_to_guest` do not call the
/// program of a flow that has a fault.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    maps: ProgramMaps<'a>,
    enforcing: BorrowedFd<'a>,
    /// Index of the program among all.
    index: u32,
}

impl Host for Entry<'_> {
    fn enter(&self, asm: &mut Asm) {
        asm.mov(Reg::R7, Reg::R1);
        asm.load(Size::U32, Reg::R1, Reg::R7, SLOT);
        find_frame(asm, self.maps);
    }

    /// The enforcing program takes it from the frame.
    fn apply_cwnd(&self, _: &mut Asm) {}

    /// The enforcing program takes it from the frame.
    fn apply_rate(&self, _: &mut Asm) {}

    fn report(&self, asm: &mut Asm, len: u32) {
        report(asm, self.maps, self.index, len, false);
    }

    /// A tail call does not return, so the rewriting comes by another one. If that program is gone, the
    /// process is, and no flow's program runs from then on.
    fn leave(&self, asm: &mut Asm) {
        asm.mov(Reg::R1, Reg::R7);
        asm.map_fd(Reg::R2, self.enforcing.as_raw_fd());
        asm.mov(Reg::R3, 0);
        asm.call(libbpf_sys::BPF_FUNC_tail_call.cast_signed());
        asm.mov(Reg::R0, GO_ON);
        asm.exit();
    }
}

impl Programs {
    /// What the kernel is asked to load for the flow's program of that index: for
    /// [`ProgramSet::install`](fairwater_kernel::ProgramSet::install) into [`Programs::programs`].
    /// `attach_type` stays 0, as that of the C programs is: the kernel lets no two values share a
    /// program array.
    #[must_use]
    pub fn target(&self, index: u32) -> Target<Entry<'_>> {
        Target {
            host: Entry {
                maps: ProgramMaps {
                    frames: self.frames.as_fd(),
                    events: self.events.as_fd(),
                    page: self.page.as_fd(),
                },
                enforcing: self.enforcing.as_fd(),
                index,
            },
            kind: libbpf_sys::BPF_PROG_TYPE_SCHED_CLS,
            attach_type: 0,
            attach_btf_id: 0,
        }
    }
}
