//! Programs as they are installed: verified, compiled once, shared by the flows that run them.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use fairwater_exec::interp;
use fairwater_exec::invocation::{Registers, initial, staged_value};
#[cfg(feature = "native")]
use fairwater_exec::native::Code;
use fairwater_lang::{Program, SignalSet, Signals, VarId};
use fairwater_proto::{Dialect, RefusalReason, Update};

use crate::Backend;

/// An installed program. It never changes; a flow that runs it keeps it alive.
#[derive(Debug)]
pub(crate) struct Compiled {
    #[cfg(feature = "native")]
    code: Option<Code>,
    program: Program,
    report_len: usize,
    /// What follows a report: variables and the values that they take again.
    volatile: Box<[(u16, u64)]>,
    /// Whether its flows restart from a smaller window after an idle period (RFC 5681 §4.1).
    pub(crate) idle_restart: bool,
    /// In libccp's dialect, the variable of each control register.
    registers: Option<BTreeMap<u32, VarId>>,
}

impl Compiled {
    /// Decodes and verifies the body of an Install.
    pub(crate) fn decode(
        dialect: Dialect,
        body: &[u8],
        idle_restart: bool,
        available: SignalSet,
    ) -> Result<Self, RefusalReason> {
        let (program, registers) = decode(dialect, body).ok_or(RefusalReason::BadProgram)?;
        if !program.signals.minus(available).is_empty() {
            return Err(RefusalReason::MissingSignals);
        }
        Ok(Self {
            idle_restart,
            ..Self::new(program, registers)
        })
    }

    fn new(program: Program, registers: Option<BTreeMap<u32, VarId>>) -> Self {
        let volatile = program.variables.iter().enumerate();
        let volatile = volatile
            .filter(|(_, variable)| variable.volatile)
            .filter_map(|(at, variable)| Some((u16::try_from(at).ok()?, variable.init)))
            .collect();
        Self {
            #[cfg(feature = "native")]
            code: None,
            report_len: program.report_len(),
            volatile,
            idle_restart: true,
            registers,
            program,
        }
    }

    /// Compiles it, if `backend` says so and it can be.
    #[cfg_attr(
        not(feature = "native"),
        expect(unused_mut, reason = "nothing compiles")
    )]
    pub(crate) fn compile(mut self, backend: Backend) -> Self {
        match backend {
            Backend::Interpreter => {}
            #[cfg(feature = "native")]
            Backend::Native => self.code = Code::compile(&self.program).ok(),
        }
        self
    }

    /// The program itself.
    pub(crate) const fn program(&self) -> &Program {
        &self.program
    }

    /// Whether machine code runs it.
    pub(crate) const fn is_native(&self) -> bool {
        #[cfg(feature = "native")]
        return self.code.is_some();
        #[cfg(not(feature = "native"))]
        return false;
    }

    /// Whether the other is the same program.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.program == other.program
            && self.idle_restart == other.idle_restart
            && self.registers == other.registers
    }

    /// Runs the events once; whether `(report)` ran.
    #[inline]
    pub(crate) fn run(
        &self,
        registers: &mut Registers,
        variables: &mut [u64],
        signals: &Signals,
    ) -> bool {
        #[cfg(feature = "native")]
        if let Some(code) = &self.code {
            return code.run(registers, variables, signals);
        }
        interp::run(&self.program, registers, variables, signals)
    }

    /// The values of a report.
    pub(crate) fn report<'v>(&self, variables: &'v [u64]) -> &'v [u64] {
        variables.get(..self.report_len).unwrap_or_default()
    }

    /// What follows a report.
    pub(crate) fn reset_volatile(&self, variables: &mut [u64]) {
        for &(at, init) in &self.volatile {
            if let Some(variable) = variables.get_mut(usize::from(at)) {
                *variable = init;
            }
        }
    }

    /// Gives every variable its initial value, in the memory at hand if it fits.
    pub(crate) fn initialize(&self, variables: &mut Box<[u64]>) {
        if variables.len() == self.program.variables.len() {
            for (value, declared) in variables.iter_mut().zip(&self.program.variables) {
                *value = declared.init;
            }
        } else {
            *variables = initial(&self.program).into_boxed_slice();
        }
    }

    /// The variable and the value that an update sets, if the plane may set it.
    pub(crate) fn update(&self, update: Update) -> Option<(VarId, u64)> {
        let variable = match &self.registers {
            Some(registers) => *registers.get(&u32::from(update.variable))?,
            None => VarId(update.variable),
        };
        Some((
            variable,
            staged_value(&self.program, variable, update.value)?,
        ))
    }
}

type Decoded = (Program, Option<BTreeMap<u32, VarId>>);

fn decode(dialect: Dialect, body: &[u8]) -> Option<Decoded> {
    match dialect {
        Dialect::Own => Some((fairwater_lang::binary::decode(body).ok()?, None)),
        Dialect::Ccp => {
            let decoded = fairwater_exec::portable::decode(body).ok()?;
            Some((decoded.program, Some(decoded.controls)))
        }
    }
}
