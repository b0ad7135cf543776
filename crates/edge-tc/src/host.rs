//! A flow's program as eBPF for tc: the code around it, and its loading into the kernel.

use std::ffi::CString;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use fairwater_exec::ebpf::asm::Asm;
use fairwater_exec::ebpf::{Alu, Cond, Host, Insn, Reg, Size, generate};
use fairwater_exec::frame::{self, FrameLayout};
use fairwater_lang::Program;
use libbpf_rs::{MapCore, MapFlags, libbpf_sys};

use crate::skeleton::types;
use crate::{Programs, TcError};

/// `TC_ACT_UNSPEC`, which is `TCX_NEXT`: the packet goes on to the next program.
const GO_ON: i32 = -1;

/// Offset of `report.program` in the frame.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "a frame's fixed part has 512 bytes"
)]
const REPORT_PROGRAM: i16 =
    (offset_of!(types::frame, report) + offset_of!(types::event, program)) as i16;

/// Offset of `cb[0]` in the context, where the calling program leaves the flow's slot.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "the context has less than 256 bytes"
)]
const SLOT: i16 = offset_of!(libbpf_sys::__sk_buff, cb) as i16;

/// Where one program of a flow will run. `R7` is the packet. `fw_from_guest` and `fw_to_guest` do not
/// call the program of a flow that has a fault.
#[derive(Debug, Clone, Copy)]
struct Entry<'a> {
    layout: FrameLayout,
    frames: BorrowedFd<'a>,
    events: BorrowedFd<'a>,
    enforcing: BorrowedFd<'a>,
    /// Index of the program.
    index: u32,
}

impl Host for Entry<'_> {
    fn enter(&self, asm: &mut Asm) {
        let slot = -8;
        let found = asm.label();
        asm.mov(Reg::R7, Reg::R1);
        asm.load(Size::U32, Reg::R1, Reg::R7, SLOT);
        asm.store(Size::U32, Reg::R10, slot, Reg::R1);
        asm.mov(Reg::R2, Reg::R10);
        asm.alu(Alu::Add, Reg::R2, i32::from(slot));
        asm.map_fd(Reg::R1, self.frames.as_raw_fd());
        asm.call(libbpf_sys::BPF_FUNC_map_lookup_elem.cast_signed());
        asm.jump_if(Cond::Ne, Reg::R0, 0, found);
        self.leave(asm);
        asm.bind(found);
        asm.mov(Reg::R6, Reg::R0);
    }

    /// The frame has it; the enforcing program takes it from there.
    fn apply_cwnd(&self, _: &mut Asm) {}

    /// See [`Host::apply_cwnd`].
    fn apply_rate(&self, _: &mut Asm) {}

    fn report(&self, asm: &mut Asm, len: u32) {
        asm.store(Size::U32, Reg::R6, REPORT_PROGRAM, self.index.cast_signed());
        asm.map_fd(Reg::R1, self.events.as_raw_fd());
        asm.mov(Reg::R2, Reg::R6);
        asm.alu(Alu::Add, Reg::R2, i32::from(frame::REPORT));
        asm.mov(Reg::R3, len.cast_signed());
        // The ring wakes whoever has read all that was in it.
        asm.mov(Reg::R4, 0);
        asm.call(libbpf_sys::BPF_FUNC_ringbuf_output.cast_signed());
    }

    /// A tail call does not return, so the rewriting comes by another one. If that program is gone, the
    /// process is, and no program runs from then on.
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
    /// Generates a flow's program for frames of that layout, loads it and puts it at `index`.
    ///
    /// # Errors
    /// The program does not fit, or the kernel refuses it; the error then has the verifier's log.
    pub fn install(
        &self,
        index: u32,
        name: &str,
        program: &Program,
        layout: FrameLayout,
    ) -> Result<(), TcError> {
        let entry = Entry {
            layout,
            frames: self.frames.as_fd(),
            events: self.events.as_fd(),
            enforcing: self.enforcing.as_fd(),
            index,
        };
        let loaded = load(name, program, &entry)?;
        self.programs
            .update(
                &index.to_ne_bytes(),
                &loaded.as_raw_fd().to_ne_bytes(),
                MapFlags::ANY,
            )
            .map_err(TcError::bpf("install a program"))
    }
}

fn load(name: &str, program: &Program, entry: &Entry<'_>) -> Result<OwnedFd, TcError> {
    let code = generate(program, entry.layout, entry).map_err(|source| TcError::Generate {
        program: name.to_owned(),
        source,
    })?;
    submit(name, &code, None).or_else(|_| {
        let mut log = vec![0u8; 1 << 20];
        submit(name, &code, Some(&mut log)).map_err(|source| {
            let end = log.iter().position(|b| *b == 0).unwrap_or(log.len());
            TcError::Refused {
                program: name.to_owned(),
                source,
                log: String::from_utf8_lossy(&log[..end]).into_owned(),
            }
        })
    })
}

/// `expected_attach_type` stays 0, as that of the C programs is: the kernel lets no two values share a
/// program array.
fn submit(name: &str, code: &[Insn], log: Option<&mut [u8]>) -> io::Result<OwnedFd> {
    let kernel_name: String = name
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '_')
        .take(15)
        .collect();
    let kernel_name = CString::new(kernel_name)?;
    let mut options = libbpf_sys::bpf_prog_load_opts {
        sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as libbpf_sys::size_t,
        attempts: 1,
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
            libbpf_sys::BPF_PROG_TYPE_SCHED_CLS,
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
