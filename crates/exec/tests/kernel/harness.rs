//! A flow in the kernel: generated code, its frame, and the datapath's part played by the test.

use crate::bpf::{Array, Loaded};
use fairwater_exec::ebpf::asm::Asm;
use fairwater_exec::ebpf::{Alu, Cond, Host, Reg, Size, fit, generate};
use fairwater_exec::frame::{self, FrameLayout};
use fairwater_exec::interp::Input;
use fairwater_lang::{Program, Scope, VarId};

/// Where the host notes what it was told to do, in the frame's bytes for the datapath.
const NOTED_CWND: i16 = frame::DATAPATH;
const NOTED_RATE: i16 = NOTED_CWND + 8;
const NOTED_LEN: i16 = NOTED_RATE + 8;
const NOTED_FAULT: i16 = NOTED_LEN + 8;
const NOTED_LEAVE: i16 = NOTED_FAULT + 8;
/// Nothing was noted.
const NOTHING: u64 = 0x5eed_5eed_5eed_5eed;

/// Whether generated programs can run here: `None`, having said why, if not.
pub(crate) fn gate() -> Option<()> {
    let why = match Array::new(8) {
        Ok(_) => return Some(()),
        Err(why) => why,
    };
    let required = std::env::var_os("FAIRWATER_REQUIRE_PRIVILEGED").is_some_and(|v| v == "1");
    assert!(!required, "BPF maps are not available: {why}");
    eprintln!("skipped: BPF maps are not available: {why}");
    None
}

/// Notes what it is told, and spoils every register that it may.
struct Noter {
    frame: i32,
    report: i32,
}

impl Noter {
    fn note(asm: &mut Asm, at: i16) {
        asm.store(Size::U64, Reg::R6, at, Reg::R1);
        Self::spoil(asm);
    }

    fn spoil(asm: &mut Asm) {
        for reg in [
            Reg::R0,
            Reg::R1,
            Reg::R2,
            Reg::R3,
            Reg::R4,
            Reg::R5,
            Reg::R7,
        ] {
            asm.constant(reg, 0xdead_beef_dead_beef);
        }
    }
}

impl Host for Noter {
    fn enter(&self, asm: &mut Asm) {
        let runs = asm.label();
        asm.map_value(Reg::R6, self.frame, 0);
        asm.load(Size::U32, Reg::R1, Reg::R6, frame::FAULT);
        asm.jump_if(Cond::Eq, Reg::R1, 0, runs);
        self.leave(asm);
        asm.bind(runs);
    }

    fn apply_cwnd(&self, asm: &mut Asm) {
        Self::note(asm, NOTED_CWND);
    }

    fn apply_rate(&self, asm: &mut Asm) {
        Self::note(asm, NOTED_RATE);
    }

    fn report(&self, asm: &mut Asm, len: u32) {
        const MAP_UPDATE_ELEM: i32 = 2;
        asm.store(Size::U64, Reg::R6, NOTED_LEN, len as i32);
        asm.store(Size::U64, Reg::R10, -24, 0);
        asm.map_fd(Reg::R1, self.report);
        asm.mov(Reg::R2, Reg::R10);
        asm.alu(Alu::Add, Reg::R2, -24);
        asm.mov(Reg::R3, Reg::R6);
        asm.alu(Alu::Add, Reg::R3, i32::from(frame::REPORT));
        asm.mov(Reg::R4, 0);
        asm.call(MAP_UPDATE_ELEM);
        Self::spoil(asm);
    }

    fn fault(&self, asm: &mut Asm) {
        Self::note(asm, NOTED_FAULT);
    }

    fn leave(&self, asm: &mut Asm) {
        asm.store(Size::U64, Reg::R6, NOTED_LEAVE, 1);
        asm.mov(Reg::R0, 0);
        asm.exit();
    }
}

/// What can be seen after an invocation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InvocationOutcome {
    pub(crate) cwnd: u64,
    pub(crate) rate: u64,
    /// The controls that the host was told to apply.
    pub(crate) applied: (Option<u64>, Option<u64>),
    /// Time, cwnd, rate, count and fields.
    pub(crate) report: Option<(u64, u64, u64, u64, Vec<u64>)>,
    /// The frame's fault bits.
    pub(crate) fault: u32,
    /// The bits that the host was told of.
    pub(crate) told: Option<u64>,
    pub(crate) variables: Vec<u64>,
    pub(crate) timer_zero: u64,
}

/// One flow that may run any of some programs.
pub(crate) struct Flow<'p> {
    programs: Vec<(&'p Program, Loaded)>,
    running: usize,
    layout: FrameLayout,
    frame: Array,
    report: Array,
    sequence: u32,
    install: u32,
}

impl<'p> Flow<'p> {
    /// Loads the programs; the first is the one that runs until a switch.
    pub(crate) fn new(programs: &[&'p Program]) -> Result<Self, String> {
        let layout = fit(programs.iter().copied());
        let io = |e: std::io::Error| e.to_string();
        let frame = Array::new(layout.size()).map_err(io)?;
        let report = Array::new(frame::REPORT_HEADER_LEN + 8 * layout.capacity()).map_err(io)?;
        let host = Noter {
            frame: frame.fd(),
            report: report.fd(),
        };
        let programs = programs
            .iter()
            .map(|&p| {
                let code = generate(p, layout, &host).map_err(|e| e.to_string())?;
                Ok((p, Loaded::new(&code)?))
            })
            .collect::<Result<_, String>>()?;
        Ok(Self {
            programs,
            running: 0,
            layout,
            frame,
            report,
            sequence: 0,
            install: 0,
        })
    }

    /// Does what the plane and the datapath do around one invocation, and invokes.
    pub(crate) fn invoke(&mut self, input: &Input<'_, 'p>) -> Result<InvocationOutcome, String> {
        for (signal, value) in input.signals.iter() {
            let at = frame::SIGNALS as usize + 8 * signal as usize;
            self.frame.write(at, value);
        }
        self.frame.write(frame::CWND as usize, input.cwnd);
        self.frame.write(frame::RATE as usize, input.rate);
        self.stage(input)?;
        for at in [NOTED_CWND, NOTED_RATE, NOTED_LEN, NOTED_FAULT, NOTED_LEAVE] {
            self.frame.write(at as usize, NOTHING);
        }
        self.programs[self.running]
            .1
            .run(1)
            .map_err(|e| e.to_string())?;
        assert_eq!(
            self.frame.read(NOTED_LEAVE as usize),
            1,
            "the program did not leave"
        );
        Ok(self.see())
    }

    /// Lets a stopped program run again.
    pub(crate) fn revive(&self) {
        self.frame.write_u32(frame::FAULT as usize, 0);
    }

    fn stage(&mut self, input: &Input<'_, 'p>) -> Result<(), String> {
        let Some(stage) = input.stage else {
            return Ok(());
        };
        if let Some(to) = stage.switch {
            let at = self.programs.iter().position(|(p, _)| std::ptr::eq(*p, to));
            self.running = at.ok_or("a switch to a program that was not loaded")?;
            self.install += 1;
        }
        self.sequence += 2;
        let mut set = 0;
        for (value, bit, at) in [
            (stage.cwnd, frame::SET_CWND, frame::STAGE_CWND),
            (stage.rate, frame::SET_RATE, frame::STAGE_RATE),
        ] {
            if let Some(value) = value {
                set |= bit;
                self.frame.write(at as usize, value);
            }
        }
        let mut mask = vec![0_u64; self.layout.staged_words()];
        let variables = &self.programs[self.running].0.variables;
        for &(VarId(i), value) in &stage.updates {
            let i = usize::from(i);
            if variables.get(i).is_some_and(|v| v.scope == Scope::Control) {
                let (word, bit) = self.layout.staged_bit(i);
                mask[word] |= 1 << bit;
                self.frame.write(self.layout.staged_value(i), value);
            }
        }
        for (i, word) in mask.into_iter().enumerate() {
            self.frame.write(self.layout.staged_mask() + 8 * i, word);
        }
        self.frame
            .write_u32(frame::STAGE_INSTALL as usize, self.install);
        self.frame.write_u32(frame::STAGE_SET as usize, set);
        self.frame
            .write_u32(frame::STAGE_SEQUENCE as usize, self.sequence);
        self.frame.write_u32(frame::PENDING as usize, self.sequence);
        Ok(())
    }

    fn see(&self) -> InvocationOutcome {
        let frame = |at: i16| self.frame.read(at as usize);
        let noted = |at: i16| Some(frame(at)).filter(|&v| v != NOTHING);
        let report = noted(NOTED_LEN).map(|len| {
            let header = |at: i16| self.report.read((at - frame::REPORT) as usize);
            let fields = (frame::REPORT_HEADER_LEN..len as usize).step_by(8);
            (
                header(frame::REPORT_TIME),
                header(frame::REPORT_CWND),
                header(frame::REPORT_RATE),
                header(frame::REPORT_COUNT),
                fields.map(|at| self.report.read(at)).collect(),
            )
        });
        let count = self.programs[self.running].0.variables.len();
        InvocationOutcome {
            cwnd: frame(frame::CWND),
            rate: frame(frame::RATE),
            applied: (noted(NOTED_CWND), noted(NOTED_RATE)),
            report,
            fault: self.frame.read_u32(frame::FAULT as usize),
            told: noted(NOTED_FAULT),
            variables: (0..count)
                .map(|i| self.frame.read(self.layout.variable(i)))
                .collect(),
            timer_zero: frame(frame::TIMER_ZERO),
        }
    }
}
