//! A datapath program as eBPF: the code around it that reads and sets a TCP socket.

use fairwater_exec::ebpf::asm::Asm;
use fairwater_exec::ebpf::{Alu, Cond, Host, Reg, Size};
use fairwater_kernel::code::{find_frame, offset, report};
use fairwater_kernel::{CWND_PACKETS, ProgramMaps, Target};
use libbpf_rs::libbpf_sys;

use crate::kernel_types::KernelTypes;
use crate::layout;

/// Kernel callback that a program is tail-called from. A program is loaded once for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Callback {
    /// `cong_control`, at each ACK.
    Ack,
    /// `set_state`, at a retransmission timeout.
    Timeout,
}

/// A callback's code around a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) types: &'a KernelTypes,
    pub(crate) maps: ProgramMaps<'a>,
    pub(crate) callback: Callback,
    /// The program's index among all.
    pub(crate) index: u32,
}

/// `R7` is the socket, the first argument of both callbacks. Neither calls the program of a flow
/// that has a fault (`may_run` in `bpf/fairwater.bpf.c`).
impl Host for Entry<'_> {
    fn enter(&self, asm: &mut Asm) {
        asm.load(Size::U64, Reg::R7, Reg::R1, 0);
        // The callback that calls the program has checked that `init` wrote the slot.
        let slot = self.types.icsk_ca_priv + offset(layout::PRIVATE_SLOT);
        asm.load(Size::U32, Reg::R1, Reg::R7, slot);
        find_frame(asm, self.maps);
    }

    /// Whole segments, at least one, at most what the socket's owner allows.
    fn apply_cwnd(&self, asm: &mut Asm) {
        let (positive, fits) = (asm.label(), asm.label());
        asm.load(Size::U32, Reg::R2, Reg::R7, self.types.mss_cache);
        asm.alu(Alu::Div, Reg::R1, Reg::R2);
        asm.jump_if(Cond::Ne, Reg::R1, 0, positive);
        asm.mov(Reg::R1, 1);
        asm.bind(positive);
        asm.load(Size::U32, Reg::R2, Reg::R7, self.types.snd_cwnd_clamp);
        asm.jump_if(Cond::Le, Reg::R1, Reg::R2, fits);
        asm.mov(Reg::R1, Reg::R2);
        asm.bind(fits);
        asm.store(Size::U32, Reg::R6, offset(CWND_PACKETS), Reg::R1);
        asm.store(Size::U32, Reg::R7, self.types.snd_cwnd, Reg::R1);
    }

    /// The kernel paces by itself; no `fq` qdisc is needed. Without a rate the kernel side goes
    /// back to the window at the next ACK.
    fn apply_rate(&self, asm: &mut Asm) {
        let (fits, done) = (asm.label(), asm.label());
        asm.jump_if(Cond::Eq, Reg::R1, 0, done);
        asm.load(Size::U64, Reg::R2, Reg::R7, self.types.sk_max_pacing_rate);
        asm.jump_if(Cond::Le, Reg::R1, Reg::R2, fits);
        asm.mov(Reg::R1, Reg::R2);
        asm.bind(fits);
        asm.store(Size::U64, Reg::R7, self.types.sk_pacing_rate, Reg::R1);
        asm.load(Size::U32, Reg::R2, Reg::R7, self.types.sk_pacing_status);
        asm.jump_if(Cond::Ne, Reg::R2, 0, done);
        asm.mov(Reg::R2, layout::SK_PACING_NEEDED.cast_signed());
        asm.store(Size::U32, Reg::R7, self.types.sk_pacing_status, Reg::R2);
        asm.bind(done);
    }

    fn report(&self, asm: &mut Asm, len: u32) {
        let urgent = self.callback == Callback::Timeout;
        report(asm, self.maps, self.index, len, urgent);
    }

    fn leave(&self, asm: &mut Asm) {
        asm.mov(Reg::R0, 0);
        asm.exit();
    }
}

impl<'a> Entry<'a> {
    /// What the kernel is asked to load.
    pub(crate) fn target(self) -> Target<Entry<'a>> {
        Target {
            kind: libbpf_sys::BPF_PROG_TYPE_STRUCT_OPS,
            attach_type: match self.callback {
                Callback::Ack => self.types.cong_control,
                Callback::Timeout => self.types.set_state,
            },
            attach_btf_id: self.types.ops,
            host: self,
        }
    }
}
