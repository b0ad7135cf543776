//! The generated eBPF, in the kernel, by `BPF_PROG_TEST_RUN`: no socket and no interface takes part.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use fairwater_exec::ebpf::asm::Asm;
use fairwater_exec::ebpf::{Alu, Cond, Host, Reg, Size, fit};
use fairwater_exec::frame::{self, FrameLayout};
use fairwater_kernel::{NamedProgram, Shared, Target, load, run};
use fairwater_lang::{Program, Scope};
use libbpf_rs::{MapHandle, MapType, libbpf_sys};

use super::backend::{Backend, BackendError, Outcome};
use crate::head::RecordedProgram;
use crate::record::{Controls, Invoked, Stage, State};

const NAME: &str = "eBPF";

/// Length of the report that the program made, in the frame's bytes for the datapath; 0 of none.
const REPORT_LENGTH: i16 = frame::DATAPATH;

/// The stage that an invocation is to apply: its number, and the generation of its switch.
const STAGED: u32 = 2;
const FORMER_INSTALL: u32 = 1;

/// The programs of a recording in the kernel, with one frame that holds the flow at hand.
#[derive(Debug)]
pub struct KernelCode {
    layout: FrameLayout,
    programs: Vec<OwnedFd>,
    frame: Shared,
    report: Shared,
    // The programs hold the maps too.
    _maps: [MapHandle; 2],
}

impl KernelCode {
    /// Generates the programs and loads them.
    ///
    /// # Errors
    /// The kernel refuses: it needs root, or a program does not fit.
    pub fn load(programs: &[(RecordedProgram, Program)]) -> Result<Self, BackendError> {
        let layout = fit(programs.iter().map(|(_, program)| program));
        let report_bytes = frame::REPORT_HEADER_LEN + 8 * layout.capacity();
        let (frame_map, report_map) = (array(layout.size())?, array(report_bytes)?);
        let mapped = |map: &MapHandle, bytes: usize| {
            Shared::writable(map.as_fd(), bytes).map_err(|error| refused(&error))
        };
        let frame = mapped(&frame_map, layout.size())?;
        let report = mapped(&report_map, report_bytes)?;
        let loaded = programs.iter().map(|(recorded, program)| {
            let named = NamedProgram {
                algorithm: "recorded",
                name: &recorded.name,
                program,
                idle_restart: true,
            };
            let target = Target {
                host: FrameOnly {
                    frame: frame_map.as_fd().as_raw_fd(),
                    report: report_map.as_fd().as_raw_fd(),
                },
                kind: libbpf_sys::BPF_PROG_TYPE_SCHED_CLS,
                attach_type: 0,
                attach_btf_id: 0,
            };
            load(&named, layout, &target).map_err(|error| refused(&error))
        });
        Ok(Self {
            layout,
            programs: loaded.collect::<Result<_, _>>()?,
            frame,
            report,
            _maps: [frame_map, report_map],
        })
    }

    fn write(&self, at: usize, value: u64) {
        self.frame.u64(at).store(value, Ordering::Relaxed);
    }

    fn write_u32(&self, at: i16, value: u32) {
        self.frame.u32(at as usize).store(value, Ordering::Relaxed);
    }

    fn read(&self, at: usize) -> u64 {
        self.frame.u64(at).load(Ordering::Relaxed)
    }

    /// Puts the flow's state into the frame, with what the invocation reads.
    fn put(&self, state: &State, invoked: &Invoked, program: &Program) {
        for (signal, value) in invoked.signals.iter() {
            self.write(frame::SIGNALS as usize + 8 * signal as usize, value);
        }
        self.write(frame::CWND as usize, invoked.before.cwnd);
        self.write(frame::RATE as usize, invoked.before.rate);
        self.write(frame::TIMER_ZERO as usize, state.timer_zero_us);
        for (at, value) in state
            .variables
            .iter()
            .take(self.layout.capacity())
            .enumerate()
        {
            self.write(self.layout.variable(at), *value);
        }
        self.write_u32(frame::FAULT, 0);
        self.write_u32(frame::APPLIED, 0);
        self.write_u32(frame::INSTALLED, FORMER_INSTALL);
        self.write(REPORT_LENGTH as usize, 0);
        match &invoked.stage {
            Some(stage) => self.stage(stage, program),
            None => self.write_u32(frame::PENDING, 0),
        }
    }

    fn stage(&self, stage: &Stage, program: &Program) {
        let install = FORMER_INSTALL + u32::from(stage.switch.is_some());
        let mut set = 0;
        for (value, bit, at) in [
            (stage.cwnd, frame::SET_CWND, frame::STAGE_CWND),
            (stage.rate, frame::SET_RATE, frame::STAGE_RATE),
        ] {
            if let Some(value) = value {
                set |= bit;
                self.write(at as usize, value);
            }
        }
        let mut mask = vec![0_u64; self.layout.staged_words()];
        for &(at, value) in &stage.updates {
            let at = usize::from(at);
            let variable = program.variables.get(at);
            if variable.is_some_and(|variable| variable.scope == Scope::Control) {
                let (word, bit) = self.layout.staged_bit(at);
                mask[word] |= 1 << bit;
                self.write(self.layout.staged_value(at), value);
            }
        }
        for (at, word) in mask.into_iter().enumerate() {
            self.write(self.layout.staged_mask() + 8 * at, word);
        }
        self.write_u32(frame::STAGE_INSTALL, install);
        self.write_u32(frame::STAGE_SET, set);
        self.write_u32(frame::STAGE_SEQUENCE, STAGED);
        self.write_u32(frame::PENDING, STAGED);
    }

    /// Takes the flow's state out of the frame.
    fn take(&self, state: &mut State, invoked: &Invoked, at: u32, program: &Program) -> Outcome {
        let fault = self
            .frame
            .u32(frame::FAULT as usize)
            .load(Ordering::Relaxed);
        state.controls = Controls {
            cwnd: self.read(frame::CWND as usize),
            rate: self.read(frame::RATE as usize),
        };
        state.timer_zero_us = self.read(frame::TIMER_ZERO as usize);
        state.program = Some(at).filter(|_| fault == 0);
        state.variables.clear();
        if fault != 0 {
            return Outcome {
                controls: invoked.before,
                report: None,
                fault,
            };
        }
        let variables = (0..program.variables.len()).map(|i| self.read(self.layout.variable(i)));
        state.variables.extend(variables);
        let length = self.read(REPORT_LENGTH as usize) as usize;
        let fields = (frame::REPORT_HEADER_LEN..length).step_by(8);
        Outcome {
            controls: state.controls,
            report: (length > 0).then(|| {
                let read = |at: usize| self.report.u64(at).load(Ordering::Relaxed);
                fields.map(read).collect()
            }),
            fault: 0,
        }
    }
}

impl Backend for KernelCode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn invoke(
        &mut self,
        programs: &[&Program],
        state: &mut State,
        invoked: &Invoked,
    ) -> Result<Outcome, BackendError> {
        let switch = invoked.stage.as_ref().and_then(|stage| stage.switch);
        let at = switch.or(state.program);
        let known = at.and_then(|at| {
            let at = at as usize;
            Some((*programs.get(at)?, self.programs.get(at)?))
        });
        let (Some(at), Some((program, loaded))) = (at, known) else {
            return Ok(Outcome::default());
        };
        self.put(state, invoked, program);
        run(loaded.as_fd(), &[0; 64], &mut [0; 64], 1).map_err(|error| refused(&error))?;
        Ok(self.take(state, invoked, at, program))
    }
}

fn refused(error: &dyn std::error::Error) -> BackendError {
    BackendError {
        back_end: NAME,
        why: error.to_string(),
    }
}

/// An array of one value that this process has mapped.
fn array(bytes: usize) -> Result<MapHandle, BackendError> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        map_flags: libbpf_sys::BPF_F_MMAPABLE,
        ..Default::default()
    };
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    MapHandle::create(MapType::Array, Some("replay"), 4, bytes, 1, &options)
        .map_err(|error| refused(&error))
}

/// Works on one frame, which is a constant of the code, and enforces nothing.
struct FrameOnly {
    frame: i32,
    report: i32,
}

impl Host for FrameOnly {
    fn enter(&self, asm: &mut Asm) {
        let runs = asm.label();
        asm.map_value(Reg::R6, self.frame, 0);
        asm.load(Size::U32, Reg::R1, Reg::R6, frame::FAULT);
        asm.jump_if(Cond::Eq, Reg::R1, 0, runs);
        self.leave(asm);
        asm.bind(runs);
    }

    fn apply_cwnd(&self, _: &mut Asm) {}

    fn apply_rate(&self, _: &mut Asm) {}

    fn report(&self, asm: &mut Asm, len: u32) {
        let key = -8;
        asm.store(Size::U64, Reg::R6, REPORT_LENGTH, len.cast_signed());
        asm.store(Size::U64, Reg::R10, key, 0);
        asm.map_fd(Reg::R1, self.report);
        asm.mov(Reg::R2, Reg::R10);
        asm.alu(Alu::Add, Reg::R2, i32::from(key));
        asm.mov(Reg::R3, Reg::R6);
        asm.alu(Alu::Add, Reg::R3, i32::from(frame::REPORT));
        asm.mov(Reg::R4, 0);
        asm.call(libbpf_sys::BPF_FUNC_map_update_elem.cast_signed());
    }

    fn leave(&self, asm: &mut Asm) {
        asm.mov(Reg::R0, 0);
        asm.exit();
    }
}
