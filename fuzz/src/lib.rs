//! What several targets check.

mod encodings;
mod input;

pub use input::Input;

use fairwater_exec::interp;
use fairwater_exec::invocation::{Registers, initial, reset_volatile};
use fairwater_lang::{Program, Signal, Signals, Type, VarId};

/// ACKs that follow from the bytes under test: the same bytes, the same ACKs.
pub fn acks(bytes: &[u8]) -> impl Iterator<Item = Signals> {
    // FNV-1a; then SplitMix64.
    let mut state = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    let mut next = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    std::iter::repeat_with(move || {
        let mut signals = Signals::default();
        for signal in Signal::ALL {
            // Numbers of every length, and the extremes.
            let (value, length) = (next(), next() % 66);
            signals[signal] = match length {
                64 => u64::MAX,
                65 => u64::from(u32::MAX),
                bits => value & ((1 << bits) - 1),
            };
        }
        for signal in Signal::ALL.into_iter().filter(|s| s.ty() == Type::Bool) {
            signals[signal] &= 1;
        }
        signals
    })
}

/// One flow under a program in the reference interpreter.
pub struct Flow<'p> {
    program: &'p Program,
    pub registers: Registers,
    variables: Vec<u64>,
}

impl<'p> Flow<'p> {
    pub fn new(program: &'p Program) -> Self {
        Self {
            program,
            registers: Registers::default(),
            variables: initial(program),
        }
    }

    pub fn variable(&self, id: VarId) -> u64 {
        self.variables[usize::from(id.0)]
    }

    /// One ACK; the report, if there is one.
    pub fn ack(&mut self, signals: &Signals) -> Option<Vec<u64>> {
        let reports = interp::run(
            self.program,
            &mut self.registers,
            &mut self.variables,
            signals,
        );
        reports.then(|| {
            let report = self.variables[..self.program.report_len()].to_vec();
            reset_volatile(self.program, &mut self.variables);
            report
        })
    }
}

/// Runs a program; with the feature `native`, as machine code beside the interpreter.
pub fn runs(program: &Program, bytes: &[u8]) {
    let mut flow = Flow::new(program);
    #[cfg(feature = "native")]
    let code = fairwater_exec::native::Code::compile(program).unwrap();
    for signals in acks(bytes).take(4) {
        #[cfg(feature = "native")]
        let (reports, registers, variables) = {
            let (mut registers, mut variables) = (flow.registers, flow.variables.clone());
            let reports = code.run(&mut registers, &mut variables, &signals);
            if reports {
                reset_volatile(program, &mut variables);
            }
            (reports, registers, variables)
        };
        let report = flow.ack(&signals);
        #[cfg(feature = "native")]
        let reported = report.is_some();
        assert!(report.is_none_or(|fields| fields.len() == program.report_len()));
        #[cfg(feature = "native")]
        assert_eq!(
            (reports, registers, variables),
            (reported, flow.registers, flow.variables.clone())
        );
    }
}
