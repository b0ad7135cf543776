//! One invocation of a program as eBPF: entry, events, controls, report.

use super::asm::{Asm, AsmError, Label};
use super::expr::{Emitter, signal_at};
use super::host::Host;
use super::insn::{Alu, Cond, Insn, Reg, Size};
use super::proof::sets_positive_cwnd;
use super::stage;
use crate::fold::fold;
use crate::frame::{
    APPLIED, CWND, FALLTHROUGH_ASKED, FAULT, Fault, FrameLayout, MAX_RATE, PENDING, RATE,
    REPORT_ASKED, REPORT_COUNT, REPORT_CWND, REPORT_HEADER_LEN, REPORT_RATE, REPORT_TIME,
    TIMER_ZERO,
};
use fairwater_lang::{Binary, Event, Expr, Place, Program, Scope, Signal, Stmt};

use Reg::{R0, R1, R2, R3, R5, R6, R8, R9};

/// The window before the invocation. In a register: the verifier copies a stack, and merges it,
/// with each state that it saves.
const OLD_CWND: Reg = R8;
/// The rate before the invocation.
const OLD_RATE: Reg = R9;

/// Why a program could not be turned into eBPF.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GenerateError {
    /// The program has more variables than the frame.
    #[error("the program has {needed} variables; this datapath's flows have room for {capacity}")]
    TooManyVariables {
        /// Variables of the program, hidden ones included.
        needed: usize,
        /// Variables of the frame.
        capacity: usize,
    },
    /// The frame is larger than an instruction can address.
    #[error("a frame of {size} bytes is larger than eBPF can address (32767)")]
    FrameTooLarge {
        /// Bytes of the frame.
        size: usize,
    },
    /// An expression needs more intermediate values than the frame has room for.
    #[error(
        "an expression is too large: it has more than {} intermediate values at a time",
        FrameLayout::SCRATCH
    )]
    TooDeep,
    /// The code could not be put together.
    #[error(transparent)]
    Code(#[from] AsmError),
}

/// The eBPF of one program between the pieces of `host`, for frames of that layout.
///
/// It means what [`Machine::invoke`](crate::interp::Machine::invoke) means.
///
/// # Errors
/// When the program does not fit the frame, or exceeds a bound of eBPF.
pub fn generate(
    program: &Program,
    layout: FrameLayout,
    host: &dyn Host,
) -> Result<Vec<Insn>, GenerateError> {
    Ok(emit(program, layout, host)?.0)
}

/// The smallest frame in which any of these programs may run.
///
/// A program that [`generate`] refuses is refused with this frame too.
#[must_use]
pub fn fit<'p>(programs: impl IntoIterator<Item = &'p Program>) -> FrameLayout {
    let (mut variables, mut staged, mut slots) = (0, 0, 0);
    for program in programs {
        let largest = FrameLayout::new(program.variables.len());
        let needed = emit(program, largest, &Nowhere).map_or(FrameLayout::SCRATCH, |(_, n)| n);
        variables = variables.max(program.variables.len());
        staged = staged.max(controls(program));
        slots = slots.max(needed);
    }
    FrameLayout::sized(variables, staged, slots)
}

/// A host for code that is counted and never runs.
struct Nowhere;

impl Host for Nowhere {
    fn enter(&self, _: &mut Asm) {}

    fn apply_cwnd(&self, _: &mut Asm) {}

    fn apply_rate(&self, _: &mut Asm) {}

    fn report(&self, _: &mut Asm, _: u32) {}

    fn leave(&self, asm: &mut Asm) {
        asm.exit();
    }
}

/// How many control variables the program has.
fn controls(program: &Program) -> usize {
    let variables = program.variables.iter();
    variables.filter(|v| v.scope == Scope::Control).count()
}

/// The code, and how many intermediate values wait in the frame at a time.
fn emit(
    program: &Program,
    layout: FrameLayout,
    host: &dyn Host,
) -> Result<(Vec<Insn>, usize), GenerateError> {
    for (needed, capacity) in [
        (program.variables.len(), layout.capacity()),
        (controls(program), layout.staged()),
    ] {
        if needed > capacity {
            return Err(GenerateError::TooManyVariables { needed, capacity });
        }
    }
    if i16::try_from(layout.size()).is_err() {
        let size = layout.size();
        return Err(GenerateError::FrameTooLarge { size });
    }
    let mut asm = Asm::new();
    let (stage, main) = (asm.label(), asm.label());
    let reports = reports(program);
    let plan = plan(&program.events);
    let notes_fallthrough = plan.contains(&Falls::Perhaps);
    host.enter(&mut asm);
    for (asks, at) in [
        (reports, REPORT_ASKED),
        (notes_fallthrough, FALLTHROUGH_ASKED),
    ] {
        if asks {
            asm.store(Size::U32, R6, at, 0);
        }
    }
    enter(&mut asm, stage);
    asm.meet(main);
    let done = asm.label();
    let emit = Emitter {
        asm: &mut asm,
        layout,
        slots: 0,
    };
    let mut body = Body {
        emit,
        done,
        notes_fallthrough,
    };
    body.events(&program.events, &plan)?;
    let slots = body.emit.slots;
    asm.meet(done);
    let (changed, applied, send) = (asm.label(), asm.label(), asm.label());
    compare_controls(&mut asm, changed);
    asm.meet(applied);
    if reports {
        asm.load(Size::U32, R1, R6, REPORT_ASKED);
        asm.jump_if(Cond::Ne, R1, 0, send);
    }
    host.leave(&mut asm);
    if reports {
        asm.bind(send);
        report(&mut asm, program, layout, host);
        host.leave(&mut asm);
    }
    asm.bind(changed);
    let check_cwnd = !sets_positive_cwnd(program);
    apply_controls(&mut asm, host, applied, check_cwnd);
    stage::apply(&mut asm, program, layout, stage, main);
    Ok((asm.finish()?, slots))
}

/// Keeps the old controls, goes to `stage` if one is pending.
fn enter(asm: &mut Asm, stage: Label) {
    asm.load(Size::U64, OLD_CWND, R6, CWND);
    asm.load(Size::U64, OLD_RATE, R6, RATE);
    asm.load(Size::U32, R1, R6, PENDING);
    asm.load(Size::U32, R2, R6, APPLIED);
    asm.jump_if(Cond::Ne, R1, R2, stage);
}

/// Goes to `changed` if a control is not what it was.
fn compare_controls(asm: &mut Asm, changed: Label) {
    asm.load(Size::U64, R1, R6, CWND);
    asm.alu(Alu::Xor, R1, OLD_CWND);
    asm.load(Size::U64, R2, R6, RATE);
    asm.alu(Alu::Xor, R2, OLD_RATE);
    asm.alu(Alu::Or, R1, R2);
    asm.jump_if(Cond::Ne, R1, 0, changed);
}

/// Applies the controls that changed and goes to `applied`, or stops the flow if they cannot be.
fn apply_controls(asm: &mut Asm, host: &dyn Host, applied: Label, check_cwnd: bool) {
    let (faulted, sound) = (asm.label(), asm.label());
    let (same_cwnd, same_rate) = (asm.label(), asm.label());
    asm.load(Size::U64, R1, R6, CWND);
    asm.load(Size::U64, R3, R6, RATE);
    asm.constant(R5, MAX_RATE);
    if check_cwnd {
        asm.mov(R0, Fault::CwndZero as i32);
        asm.jump_if(Cond::Eq, R1, 0, faulted);
    }
    asm.jump_if(Cond::Le, R3, R5, sound);
    asm.mov(R0, Fault::RateAbsurd as i32);
    asm.bind(faulted);
    asm.store(Size::U64, R6, CWND, OLD_CWND);
    asm.store(Size::U64, R6, RATE, OLD_RATE);
    // The plane may set a bit of its own at the same time.
    asm.atomic(Alu::Or, Size::U32, R6, FAULT, R0);
    asm.mov(R1, R0);
    host.fault(asm);
    host.leave(asm);

    asm.bind(sound);
    asm.jump_if(Cond::Eq, R1, OLD_CWND, same_cwnd);
    host.apply_cwnd(asm);
    asm.bind(same_cwnd);
    asm.load(Size::U64, R1, R6, RATE);
    asm.jump_if(Cond::Eq, R1, OLD_RATE, same_rate);
    host.apply_rate(asm);
    asm.bind(same_rate);
    asm.jump(applied);
}

/// Sends the report, and resets the volatile variables.
fn report(asm: &mut Asm, program: &Program, layout: FrameLayout, host: &dyn Host) {
    let header = [
        (signal_at(Signal::Now), REPORT_TIME),
        (CWND, REPORT_CWND),
        (RATE, REPORT_RATE),
    ];
    for (from, to) in header {
        asm.load(Size::U64, R1, R6, from);
        asm.store(Size::U64, R6, to, R1);
    }
    asm.load(Size::U64, R1, R6, REPORT_COUNT);
    asm.alu(Alu::Add, R1, 1);
    asm.store(Size::U64, R6, REPORT_COUNT, R1);
    let len = REPORT_HEADER_LEN + 8 * program.report_len();
    host.report(asm, len as u32);
    for (i, variable) in program.variables.iter().enumerate() {
        if variable.volatile {
            stage::initialise(asm, layout, i, variable);
        }
    }
}

/// The events; they end at `done`.
struct Body<'a> {
    emit: Emitter<'a>,
    done: Label,
    /// Whether `(fallthrough)` has to be noted, for an event's end to ask.
    notes_fallthrough: bool,
}

/// Whether `(fallthrough)` has run, as far as can be told before the program runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Falls {
    No,
    Perhaps,
    Yes,
}

impl Body<'_> {
    fn events(&mut self, events: &[Event], plan: &[Falls]) -> Result<(), GenerateError> {
        for (event, falls) in events.iter().zip(plan) {
            let next = self.emit.asm.label();
            self.statements(&event.prelude)?;
            self.emit.branch(&fold(&event.condition), false, next, 0)?;
            self.statements(&event.body)?;
            let (asm, done) = (&mut *self.emit.asm, self.done);
            match *falls {
                Falls::Yes => {}
                Falls::No => asm.jump(done),
                Falls::Perhaps => {
                    asm.load(Size::U32, R1, R6, FALLTHROUGH_ASKED);
                    asm.jump_if(Cond::Eq, R1, 0, done);
                }
            }
            self.emit.asm.meet(next);
        }
        Ok(())
    }

    fn statements(&mut self, statements: &[Stmt]) -> Result<(), GenerateError> {
        for statement in statements {
            match statement {
                Stmt::Assign(place, value) => self.assign(*place, &fold(value))?,
                Stmt::If {
                    condition,
                    then,
                    otherwise,
                } => self.choose(&fold(condition), then, otherwise)?,
                // Noted in memory: were it a register's value, the verifier would follow it, and
                // check all that comes after for each.
                Stmt::Report => self.emit.asm.store(Size::U32, R6, REPORT_ASKED, 1),
                Stmt::Fallthrough if self.notes_fallthrough => {
                    self.emit.asm.store(Size::U32, R6, FALLTHROUGH_ASKED, 1);
                }
                Stmt::Fallthrough => {}
            }
        }
        Ok(())
    }

    fn choose(
        &mut self,
        condition: &Expr,
        then: &[Stmt],
        otherwise: &[Stmt],
    ) -> Result<(), GenerateError> {
        let (no, end) = (self.emit.asm.label(), self.emit.asm.label());
        self.emit.branch(condition, false, no, 0)?;
        self.statements(then)?;
        if !otherwise.is_empty() {
            self.emit.asm.jump(end);
        }
        self.emit.asm.bind(no);
        self.statements(otherwise)?;
        self.emit.asm.meet(end);
        Ok(())
    }

    fn assign(&mut self, place: Place, value: &Expr) -> Result<(), GenerateError> {
        let at = match place {
            Place::Var(var) => self.emit.variable_at(var),
            Place::Cwnd => CWND,
            Place::Rate => RATE,
            Place::Micros => return self.set_timer(value),
        };
        if let Expr::Const(value, _) = value
            && let Ok(imm) = i32::try_from(value.cast_signed())
        {
            self.emit.asm.store(Size::U64, R6, at, imm);
            return Ok(());
        }
        if let Expr::Binary(op @ (Binary::Min | Binary::Max), old, new) = value
            && **old == Expr::Place(place)
        {
            return self.emit.limit_place(at, *op, old, new);
        }
        self.emit.value(value, 0)?;
        self.emit.asm.store(Size::U64, R6, at, R1);
        Ok(())
    }

    /// The timer reads `now - zero`: to read `value` now, `zero` is `now - value`.
    fn set_timer(&mut self, value: &Expr) -> Result<(), GenerateError> {
        if let Expr::Const(0, _) = value {
            let asm = &mut *self.emit.asm;
            asm.load(Size::U64, R1, R6, signal_at(Signal::Now));
            asm.store(Size::U64, R6, TIMER_ZERO, R1);
            return Ok(());
        }
        self.emit.hidden(value, 0)?;
        self.emit.timer();
        let asm = &mut *self.emit.asm;
        asm.load(Size::U64, R2, R6, signal_at(Signal::Now));
        asm.alu(Alu::Sub, R2, R1);
        asm.store(Size::U64, R6, TIMER_ZERO, R2);
        Ok(())
    }
}

/// Whether `(fallthrough)` has run at the end of each event's body.
fn plan(events: &[Event]) -> Vec<Falls> {
    let mut before = Falls::No;
    let mut plan = Vec::with_capacity(events.len());
    for event in events {
        before = either(before, falls(&event.prelude));
        let after = either(before, falls(&event.body));
        plan.push(after);
        // The next event is reached past this one's body, which then ran it, or around it.
        before = match (fold(&event.condition), after) {
            (Expr::Const(0, _), _) | (_, Falls::No) => before,
            (Expr::Const(..), _) => Falls::Yes,
            _ if before == Falls::Yes => Falls::Yes,
            _ => Falls::Perhaps,
        };
    }
    plan
}

/// Whether `(fallthrough)` runs in these statements.
fn falls(statements: &[Stmt]) -> Falls {
    statements
        .iter()
        .map(|statement| match statement {
            Stmt::Fallthrough => Falls::Yes,
            Stmt::If {
                then, otherwise, ..
            } => match (falls(then), falls(otherwise)) {
                (then, otherwise) if then == otherwise => then,
                _ => Falls::Perhaps,
            },
            Stmt::Assign(..) | Stmt::Report => Falls::No,
        })
        .fold(Falls::No, either)
}

/// Of two that run one after the other.
const fn either(first: Falls, second: Falls) -> Falls {
    match (first, second) {
        (Falls::Yes, _) | (_, Falls::Yes) => Falls::Yes,
        (Falls::No, Falls::No) => Falls::No,
        _ => Falls::Perhaps,
    }
}

/// Whether the program ever reports.
fn reports(program: &Program) -> bool {
    fn any(statements: &[Stmt]) -> bool {
        statements.iter().any(|statement| match statement {
            Stmt::Report => true,
            Stmt::If {
                then, otherwise, ..
            } => any(then) || any(otherwise),
            Stmt::Assign(..) | Stmt::Fallthrough => false,
        })
    }
    let mut events = program.events.iter();
    events.any(|event| any(&event.prelude) || any(&event.body))
}
