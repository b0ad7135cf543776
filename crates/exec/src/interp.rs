//! The reference interpreter: what a program means.
//!
//! It favours plainness over speed; the other backends are tested against it.

use alloc::vec::Vec;

use crate::arith;
use crate::frame::Fault;
use crate::invocation::{Registers, control_fault, initial, reset_volatile, staged_value};
use fairwater_lang::{Expr, Place, Program, Signal, Signals, Stmt, VarId};

/// Runs the events of `program` once (steps 3 and 5 of an invocation, see
/// [`fairwater_lang::Program`]'s module): variables and registers change in place. Returns whether
/// `(report)` ran. Judging what the program set, and resetting volatile variables once the report
/// is taken, is the caller's: see [`crate::invocation`].
///
/// # Panics
/// If `variables` is shorter than [`Program::variables`].
pub fn run(
    program: &Program,
    registers: &mut Registers,
    variables: &mut [u64],
    signals: &Signals,
) -> bool {
    let mut run = Run {
        registers,
        variables,
        signals,
        report: false,
        fallthrough: false,
    };
    run.events(program);
    run.report
}

/// Runs the events as [`run`] does, and tells of each event that was reached whether its condition
/// held: for those who look on.
///
/// # Panics
/// If `variables` is shorter than [`Program::variables`].
pub fn trace(
    program: &Program,
    registers: &mut Registers,
    variables: &mut [u64],
    signals: &Signals,
    reached: &mut dyn FnMut(usize, bool),
) -> bool {
    let mut run = Run {
        registers,
        variables,
        signals,
        report: false,
        fallthrough: false,
    };
    for (at, event) in program.events.iter().enumerate() {
        run.statements(&event.prelude);
        let holds = run.value(&event.condition) != 0;
        reached(at, holds);
        if holds {
            run.statements(&event.body);
            if !run.fallthrough {
                break;
            }
        }
    }
    run.report
}

/// The value of an expression over the variables of the program that it was checked with.
///
/// # Panics
/// If `variables` has not all that the expression reads.
#[must_use]
pub fn evaluate(expr: &Expr, registers: &Registers, variables: &[u64], signals: &Signals) -> u64 {
    let run = Run {
        registers: &mut registers.clone(),
        variables: &mut variables.to_vec(),
        signals,
        report: false,
        fallthrough: false,
    };
    run.value(expr)
}

/// What the plane has staged for a flow, to be applied by its next invocation.
#[derive(Debug, Clone, Default)]
pub struct Stage<'p> {
    /// Switch to this program: its variables take their initial values and the timer restarts.
    pub switch: Option<&'p Program>,
    /// Set the congestion window, bytes.
    pub cwnd: Option<u64>,
    /// Set the pacing rate, bytes/s; 0 is none.
    pub rate: Option<u64>,
    /// Set variables of the program that then runs, in order. A boolean becomes 1 unless it is
    /// 0. Those of variables that are not of [`Scope::Control`](fairwater_lang::Scope::Control) have no effect.
    pub updates: Vec<(VarId, u64)>,
}

/// What a datapath gives to one invocation.
#[derive(Debug, Clone)]
pub struct Input<'a, 'p> {
    /// The signals. Booleans are 0 or 1.
    pub signals: Signals,
    /// The congestion window before the invocation, bytes.
    pub cwnd: u64,
    /// The pacing rate before the invocation, bytes/s; 0 is none.
    pub rate: u64,
    /// What the plane staged since the last invocation.
    pub stage: Option<&'a Stage<'p>>,
}

/// What one invocation did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The congestion window that is now in force, bytes.
    pub cwnd: u64,
    /// The pacing rate that is now in force, bytes/s; 0 is none.
    pub rate: u64,
    /// The values of the report variables, if the program reported.
    pub report: Option<Vec<u64>>,
    /// Why the program was stopped: cwnd and rate are then those of the input, nothing is
    /// reported, and later invocations do nothing.
    pub fault: Option<Fault>,
}

/// The state of one flow's program between invocations.
#[derive(Debug, Clone)]
pub struct Machine<'p> {
    program: &'p Program,
    variables: Vec<u64>,
    /// `Micros` reads `Ack.now` minus this, wrapping.
    timer_zero: u64,
    fault: Option<Fault>,
}

impl<'p> Machine<'p> {
    /// A flow that starts to run `program` at `now_us`: every variable has its initial value and
    /// the timer reads 0.
    #[must_use]
    pub fn new(program: &'p Program, now_us: u64) -> Self {
        let variables = initial(program);
        Self {
            program,
            variables,
            timer_zero: now_us,
            fault: None,
        }
    }

    /// The variables, in the order of [`Program::variables`].
    #[must_use]
    pub fn variables(&self) -> &[u64] {
        &self.variables
    }

    /// `Ack.now` at which `Micros` would read 0, µs, wrapping.
    #[must_use]
    pub const fn timer_zero(&self) -> u64 {
        self.timer_zero
    }

    /// Why the program was stopped, if it was.
    #[must_use]
    pub const fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// The program that runs.
    #[must_use]
    pub const fn program(&self) -> &'p Program {
        self.program
    }

    /// Runs one invocation, as [`fairwater_lang::Program`]'s module defines it.
    pub fn invoke(&mut self, input: &Input<'_, 'p>) -> Outcome {
        let unchanged = Outcome {
            cwnd: input.cwnd,
            rate: input.rate,
            report: None,
            fault: self.fault,
        };
        if self.fault.is_some() {
            return unchanged;
        }
        let mut registers = Registers {
            cwnd: input.cwnd,
            rate: input.rate,
            timer_zero: self.timer_zero,
        };
        if let Some(stage) = input.stage {
            self.apply(stage, &mut registers, input.signals[Signal::Now]);
        }
        let report = run(
            self.program,
            &mut registers,
            &mut self.variables,
            &input.signals,
        );
        self.timer_zero = registers.timer_zero;

        self.fault = control_fault((input.cwnd, input.rate), &registers);
        if self.fault.is_some() {
            return Outcome {
                fault: self.fault,
                ..unchanged
            };
        }
        let report = report.then(|| self.report());
        Outcome {
            cwnd: registers.cwnd,
            rate: registers.rate,
            report,
            fault: None,
        }
    }

    fn apply(&mut self, stage: &Stage<'p>, registers: &mut Registers, now_us: u64) {
        if let Some(program) = stage.switch {
            self.program = program;
            self.variables = initial(program);
            registers.timer_zero = now_us;
        }
        for &(VarId(at), value) in &stage.updates {
            if let Some(value) = staged_value(self.program, VarId(at), value) {
                self.variables[usize::from(at)] = value;
            }
        }
        registers.cwnd = stage.cwnd.unwrap_or(registers.cwnd);
        registers.rate = stage.rate.unwrap_or(registers.rate);
    }

    /// The report variables; volatile ones take their initial values again.
    fn report(&mut self) -> Vec<u64> {
        let fields = self.variables[..self.program.report_len()].to_vec();
        reset_volatile(self.program, &mut self.variables);
        fields
    }
}

/// One invocation under way.
struct Run<'m> {
    registers: &'m mut Registers,
    variables: &'m mut [u64],
    signals: &'m Signals,
    report: bool,
    fallthrough: bool,
}

impl Run<'_> {
    fn now(&self) -> u64 {
        self.signals[Signal::Now]
    }

    fn events(&mut self, program: &Program) {
        for event in &program.events {
            self.statements(&event.prelude);
            if self.value(&event.condition) != 0 {
                self.statements(&event.body);
                if !self.fallthrough {
                    break;
                }
            }
        }
    }

    fn statements(&mut self, statements: &[Stmt]) {
        for statement in statements {
            match statement {
                Stmt::Assign(place, value) => {
                    let value = self.value(value);
                    self.assign(*place, value);
                }
                Stmt::If {
                    condition,
                    then,
                    otherwise,
                } => {
                    let branch = if self.value(condition) != 0 {
                        then
                    } else {
                        otherwise
                    };
                    self.statements(branch);
                }
                Stmt::Report => self.report = true,
                Stmt::Fallthrough => self.fallthrough = true,
            }
        }
    }

    fn assign(&mut self, place: Place, value: u64) {
        match place {
            Place::Var(VarId(at)) => self.variables[usize::from(at)] = value,
            Place::Cwnd => self.registers.cwnd = value,
            Place::Rate => self.registers.rate = value,
            Place::Micros => {
                self.registers.timer_zero = self.now().wrapping_sub(arith::timer(value));
            }
        }
    }

    fn value(&self, expr: &Expr) -> u64 {
        match expr {
            Expr::Const(value, _) => *value,
            Expr::Place(Place::Var(VarId(at))) => self.variables[usize::from(*at)],
            Expr::Place(Place::Cwnd) => self.registers.cwnd,
            Expr::Place(Place::Rate) => self.registers.rate,
            Expr::Place(Place::Micros) => self.now().wrapping_sub(self.registers.timer_zero),
            Expr::Signal(signal) => self.signals[*signal],
            Expr::Binary(op, left, right) => {
                arith::binary(*op, self.value(left), self.value(right))
            }
            Expr::Scale { value, num, den } => arith::scale(self.value(value), *num, *den),
            Expr::Ewma { weight, old, new } => {
                arith::ewma(self.value(weight), self.value(old), self.value(new))
            }
            Expr::Compare(op, left, right) => {
                u64::from(arith::compare(*op, self.value(left), self.value(right)))
            }
            Expr::And(left, right) => u64::from(self.value(left) != 0 && self.value(right) != 0),
            Expr::Or(left, right) => u64::from(self.value(left) != 0 || self.value(right) != 0),
            Expr::Not(inner) => u64::from(self.value(inner) == 0),
            Expr::If {
                condition,
                then,
                otherwise,
            } => {
                if self.value(condition) != 0 {
                    self.value(then)
                } else {
                    self.value(otherwise)
                }
            }
        }
    }
}
