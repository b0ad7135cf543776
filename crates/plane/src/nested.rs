//! An algorithm whose program runs in the plane, on signals that another algorithm puts together:
//! a datapath of no packets.

use std::sync::Arc;

use fairwater_exec::frame::Fault;
use fairwater_exec::interp;
use fairwater_exec::invocation::{Registers, control_fault, initial, reset_volatile, staged_value};
use fairwater_lang::{SignalSet, VarId};

use crate::control::PendingCommand;
use crate::{
    Algorithm, AlgorithmError, Control, Flow, FlowInfo, LoadedProgram, ProgramId, Programs,
    RawReport, Reason, Report, Signal, Signals,
};

/// Reserved algorithm id; marks handles of nested algorithms.
const NESTED: u32 = u32::MAX;

/// An algorithm inside another one.
pub struct Nested {
    algorithm: Box<dyn Algorithm>,
    programs: Arc<[LoadedProgram]>,
}

impl std::fmt::Debug for Nested {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nested")
            .field("algorithm", &self.algorithm.name())
            .finish_non_exhaustive()
    }
}

impl Nested {
    /// Builds the algorithm and compiles its programs, which no datapath ever sees.
    ///
    /// # Errors
    /// What `build` returns.
    pub fn build<F>(build: F) -> Result<Self, AlgorithmError>
    where
        F: FnOnce(&mut Programs) -> Result<Box<dyn Algorithm>, AlgorithmError>,
    {
        let mut programs = Programs::new(NESTED);
        let algorithm = build(&mut programs)?;
        Ok(Self {
            algorithm,
            programs: programs.into_loaded().into(),
        })
    }

    /// The algorithm.
    #[must_use]
    pub fn algorithm(&self) -> &dyn Algorithm {
        self.algorithm.as_ref()
    }

    /// Every signal that one of its programs reads.
    #[must_use]
    pub fn signals(&self) -> SignalSet {
        let all = self.programs.iter();
        all.fold(SignalSet::EMPTY, |all, p| all.union(p.program().signals))
    }

    /// A flow of it begins. Whatever `new_flow` does is in force at once.
    ///
    /// # Errors
    /// A mistake in the algorithm's controls, or an algorithm without programs.
    pub fn start(&self, info: &FlowInfo) -> Result<NestedFlow, Reason> {
        let first = ProgramId {
            algorithm: NESTED,
            index: 0,
        };
        let mut pending = PendingCommand::new(first);
        pending.command.switch = Some(first);
        let author = {
            let mut control = Control::new(&mut pending, &self.programs);
            self.algorithm.new_flow(info, &mut control)
        };
        let mut flow = NestedFlow {
            author,
            programs: Arc::clone(&self.programs),
            pending,
            registers: Registers {
                cwnd: info.cwnd,
                rate: 0,
                timer_zero: info.now_us,
            },
            variables: Vec::new(),
        };
        flow.carry_out(info.now_us)?;
        Ok(flow)
    }
}

/// One flow of a nested algorithm, and the state of its program.
pub struct NestedFlow {
    author: Box<dyn Flow>,
    programs: Arc<[LoadedProgram]>,
    pending: PendingCommand,
    registers: Registers,
    variables: Vec<u64>,
}

impl std::fmt::Debug for NestedFlow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NestedFlow")
            .field("registers", &self.registers)
            .field("variables", &self.variables)
            .finish_non_exhaustive()
    }
}

impl NestedFlow {
    /// The window in force, bytes.
    #[must_use]
    pub fn cwnd(&self) -> u64 {
        self.registers.cwnd
    }

    /// The rate in force, bytes/s; 0 is none.
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.registers.rate
    }

    /// Runs the program once, on these signals. If it reports, the algorithm hears of it before
    /// this returns, and its answer is in force then.
    ///
    /// # Errors
    /// Why the program was stopped, or a mistake of the algorithm's: the flow is of no more use.
    pub fn invoke(&mut self, signals: &Signals) -> Result<(), Reason> {
        let running = self.pending.running;
        let Some(loaded) = self.programs.get(running.index as usize) else {
            return Err(Reason::Nested("it has no program"));
        };
        let program = loaded.program();
        let before = (self.registers.cwnd, self.registers.rate);
        let reported = interp::run(program, &mut self.registers, &mut self.variables, signals);
        match control_fault(before, &self.registers) {
            None => {}
            Some(Fault::CwndZero) => return Err(Reason::Nested("it set Cwnd to 0")),
            Some(_) => return Err(Reason::Nested("it set an absurd Rate")),
        }
        if !reported {
            return Ok(());
        }
        let now_us = signals[Signal::Now];
        let raw = RawReport {
            program: running,
            time_us: now_us,
            cwnd: self.registers.cwnd,
            rate: self.registers.rate,
            fields: &self.variables[..loaded.report_len()],
        };
        let report = Report::new(running, raw);
        self.pending.reset(running);
        let mut control = Control::new(&mut self.pending, &self.programs);
        self.author.on_report(&report, &mut control);
        if report.foreign().is_some() {
            return Err(Reason::Nested("a field of another program was read"));
        }
        reset_volatile(program, &mut self.variables);
        self.carry_out(now_us)
    }

    /// Tells the algorithm that segments are of `mss` bytes from now on. Its answer is in force when
    /// this returns.
    ///
    /// # Errors
    /// A mistake of the algorithm's: the flow is of no more use.
    pub fn set_mss(&mut self, mss: u32, now_us: u64) -> Result<(), Reason> {
        self.pending.reset(self.pending.running);
        let mut control = Control::new(&mut self.pending, &self.programs);
        self.author.on_mss(mss, &mut control);
        self.carry_out(now_us)
    }

    /// Tells the algorithm that the flow ended.
    pub fn close(&mut self) {
        self.author.on_close();
    }

    fn carry_out(&mut self, now_us: u64) -> Result<(), Reason> {
        if let Some(reason) = self.pending.reason.take() {
            return Err(reason);
        }
        let running = self.pending.running.index as usize;
        let Some(program) = self.programs.get(running).map(LoadedProgram::program) else {
            return Err(Reason::Nested("it has no program"));
        };
        let command = &self.pending.command;
        if command.switch.is_some() {
            self.variables = initial(program);
            self.registers.timer_zero = now_us;
        }
        for &(variable, value) in &command.updates {
            let staged = staged_value(program, VarId(variable), value);
            let current = self.variables.get_mut(usize::from(variable));
            if let (Some(staged), Some(current)) = (staged, current) {
                *current = staged;
            }
        }
        self.registers.cwnd = command.cwnd.unwrap_or(self.registers.cwnd);
        self.registers.rate = command.rate.unwrap_or(self.registers.rate);
        Ok(())
    }
}
