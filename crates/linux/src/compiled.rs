//! A datapath program as eBPF: the code around it that reads and sets a TCP socket, and its loading
//! into the kernel.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use fairwater_exec::ebpf::asm::Asm;
use fairwater_exec::ebpf::{Alu, Cond, Host, Insn, Reg, Size, generate};
use fairwater_exec::frame::{self, FrameLayout};
use fairwater_lang::{Program, Signal};
use libbpf_rs::libbpf_sys;

use crate::kernel_types::KernelTypes;
use crate::layout;
use crate::{LinuxError, wakeup};

/// An offset in a frame as an instruction has it.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "a frame's fixed part has 512 bytes"
)]
const fn offset(bytes: usize) -> i16 {
    assert!(bytes < frame::VARIABLES as usize);
    bytes as i16
}

/// Offset of `Ack.now` in the frame.
const NOW: i16 = frame::SIGNALS + 8 * Signal::Now as i16;

/// Kernel callback that a program is tail-called from. A program is loaded once for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Callback {
    /// `cong_control`, at each ACK.
    Ack,
    /// `set_state`, at a retransmission timeout.
    Timeout,
}

/// Where the programs of an algorithm will run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) types: &'a KernelTypes,
    pub(crate) layout: FrameLayout,
    pub(crate) frames: BorrowedFd<'a>,
    pub(crate) events: BorrowedFd<'a>,
    pub(crate) plane: BorrowedFd<'a>,
}

/// Where one program of an algorithm will run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) context: &'a Context<'a>,
    pub(crate) callback: Callback,
    /// The program's index among its algorithm's.
    pub(crate) index: u32,
}

/// `R7` is the socket, the first argument of both callbacks. Neither calls the program of a flow
/// that has a fault (`may_run` in `bpf/fairwater.bpf.c`).
impl Host for Entry<'_> {
    fn enter(&self, asm: &mut Asm) {
        let slot = -8;
        let found = asm.label();
        asm.load(Size::U64, Reg::R7, Reg::R1, 0);
        // The callback that calls the program has checked that `init` wrote the slot.
        let slot_of_socket = self.context.types.icsk_ca_priv + offset(layout::PRIVATE_SLOT);
        asm.load(Size::U32, Reg::R1, Reg::R7, slot_of_socket);
        asm.store(Size::U32, Reg::R10, slot, Reg::R1);
        asm.mov(Reg::R2, Reg::R10);
        asm.alu(Alu::Add, Reg::R2, i32::from(slot));
        asm.map_fd(Reg::R1, self.context.frames.as_raw_fd());
        asm.call(libbpf_sys::BPF_FUNC_map_lookup_elem.cast_signed());
        asm.jump_if(Cond::Ne, Reg::R0, 0, found);
        asm.exit();
        asm.bind(found);
        asm.mov(Reg::R6, Reg::R0);
    }

    /// Whole segments, at least one, at most what the socket's owner allows.
    fn apply_cwnd(&self, asm: &mut Asm) {
        let (positive, fits) = (asm.label(), asm.label());
        asm.load(Size::U32, Reg::R2, Reg::R7, self.context.types.mss_cache);
        asm.alu(Alu::Div, Reg::R1, Reg::R2);
        asm.jump_if(Cond::Ne, Reg::R1, 0, positive);
        asm.mov(Reg::R1, 1);
        asm.bind(positive);
        asm.load(
            Size::U32,
            Reg::R2,
            Reg::R7,
            self.context.types.snd_cwnd_clamp,
        );
        asm.jump_if(Cond::Le, Reg::R1, Reg::R2, fits);
        asm.mov(Reg::R1, Reg::R2);
        asm.bind(fits);
        asm.store(
            Size::U32,
            Reg::R6,
            offset(layout::frame::CWND_PACKETS),
            Reg::R1,
        );
        asm.store(Size::U32, Reg::R7, self.context.types.snd_cwnd, Reg::R1);
    }

    /// The kernel paces by itself; no `fq` qdisc is needed. Without a rate the kernel side goes
    /// back to the window at the next ACK.
    fn apply_rate(&self, asm: &mut Asm) {
        let (fits, done) = (asm.label(), asm.label());
        asm.jump_if(Cond::Eq, Reg::R1, 0, done);
        asm.load(
            Size::U64,
            Reg::R2,
            Reg::R7,
            self.context.types.sk_max_pacing_rate,
        );
        asm.jump_if(Cond::Le, Reg::R1, Reg::R2, fits);
        asm.mov(Reg::R1, Reg::R2);
        asm.bind(fits);
        asm.store(
            Size::U64,
            Reg::R7,
            self.context.types.sk_pacing_rate,
            Reg::R1,
        );
        asm.load(
            Size::U32,
            Reg::R2,
            Reg::R7,
            self.context.types.sk_pacing_status,
        );
        asm.jump_if(Cond::Ne, Reg::R2, 0, done);
        asm.mov(Reg::R2, layout::SK_PACING_NEEDED.cast_signed());
        asm.store(
            Size::U32,
            Reg::R7,
            self.context.types.sk_pacing_status,
            Reg::R2,
        );
        asm.bind(done);
    }

    fn report(&self, asm: &mut Asm, len: u32) {
        asm.store(
            Size::U32,
            Reg::R6,
            offset(layout::frame::REPORT_PROGRAM),
            self.index.cast_signed(),
        );
        self.choose_wakeup(asm);
        asm.map_fd(Reg::R1, self.context.events.as_raw_fd());
        asm.mov(Reg::R2, Reg::R6);
        asm.alu(Alu::Add, Reg::R2, i32::from(frame::REPORT));
        asm.mov(Reg::R3, len.cast_signed());
        asm.call(libbpf_sys::BPF_FUNC_ringbuf_output.cast_signed());
    }

    fn leave(&self, asm: &mut Asm) {
        asm.mov(Reg::R0, 0);
        asm.exit();
    }
}

impl Entry<'_> {
    /// Puts the ring's flags into `R4`: whether this report wakes the plane (`wakeup`).
    fn choose_wakeup(&self, asm: &mut Asm) {
        let force = libbpf_sys::BPF_RB_FORCE_WAKEUP.cast_signed();
        if self.callback == Callback::Timeout {
            return asm.mov(Reg::R4, force);
        }
        let (used_up, chosen) = (asm.label(), asm.label());
        let page = self.context.plane.as_raw_fd();
        asm.mov(Reg::R4, libbpf_sys::BPF_RB_NO_WAKEUP.cast_signed());
        asm.map_value(Reg::R1, page, layout::WAKEUPS_UNTIL_US);
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
}

/// Generates and loads a program (`fairwater-bench datapath` measures how long that takes).
///
/// # Errors
/// The program does not fit, or the kernel refuses it; the error then has the verifier's log.
pub(crate) fn load(
    algorithm: &str,
    name: &str,
    program: &Program,
    entry: &Entry<'_>,
) -> Result<OwnedFd, LinuxError> {
    let code =
        generate(program, entry.context.layout, entry).map_err(|source| LinuxError::Generate {
            algorithm: algorithm.to_owned(),
            program: name.to_owned(),
            source,
        })?;
    submit(name, &code, entry, None).or_else(|_| {
        let mut log = vec![0u8; 1 << 20];
        submit(name, &code, entry, Some(&mut log)).map_err(|source| {
            let end = log.iter().position(|b| *b == 0).unwrap_or(log.len());
            LinuxError::Refused {
                algorithm: algorithm.to_owned(),
                program: name.to_owned(),
                source,
                log: String::from_utf8_lossy(&log[..end]).into_owned(),
            }
        })
    })
}

fn submit(
    name: &str,
    code: &[Insn],
    entry: &Entry<'_>,
    log: Option<&mut [u8]>,
) -> io::Result<OwnedFd> {
    let kernel_name: String = name
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '_')
        .take(15)
        .collect();
    let kernel_name = CString::new(kernel_name)?;
    let types = entry.context.types;
    let member = match entry.callback {
        Callback::Ack => types.cong_control,
        Callback::Timeout => types.set_state,
    };
    let mut options = libbpf_sys::bpf_prog_load_opts {
        sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as libbpf_sys::size_t,
        attempts: 1,
        expected_attach_type: member,
        attach_btf_id: types.ops,
        ..Default::default()
    };
    if let Some(log) = log {
        options.log_level = 1;
        options.log_size = u32::try_from(log.len()).unwrap_or(u32::MAX);
        options.log_buf = log.as_mut_ptr().cast();
    }
    #[expect(unsafe_code, reason = "libbpf's loader takes raw instructions")]
    // SAFETY: `Insn` is laid out as `bpf_insn`; all pointers outlive the call; the descriptor
    // that comes back has no other owner.
    unsafe {
        let fd = libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_STRUCT_OPS,
            kernel_name.as_ptr(),
            c"GPL".as_ptr(),
            code.as_ptr().cast(),
            code.len() as libbpf_sys::size_t,
            &raw mut options,
        );
        if fd < 0 {
            Err(io::Error::from_raw_os_error(-fd))
        } else {
            Ok(OwnedFd::from_raw_fd(fd))
        }
    }
}
