//! A program to instructions: variables to registers, statements under predicates.
//!
//! libccp has no jumps. A branch becomes a predicate, evaluated before the branch writes anything,
//! and each write in it an `IF`. What a branch computes is computed whether it is taken or not, so
//! no instruction may fail.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use fairwater_lang::{Event, Expr, Place, Program, Scope, Stmt, VarId, Variable};

use super::flatten::{Code, Truth, is_scratch};
use super::wire::{EVENTS, INFINITY, INSTRUCTIONS, Instruction, Op, REGISTERS, Register, Spans};
use super::{Append, Encoded, Inexpressible};

/// What libccp takes for infinity in a definition.
const DEFINED_INFINITY: u64 = 0x3fff_ffff;

/// The fields that [`Append::Flow`] adds to a report.
const APPENDED: [Register; 3] = [Register::NOW, Register::CWND, Register::RATE];

pub(super) fn program(program: &Program, wanted: Append) -> Result<Encoded, Inexpressible> {
    let mut last = None;
    for append in [true, false] {
        if append && wanted == Append::Nothing {
            continue;
        }
        for initial in [Initially::Defined, Initially::Preset] {
            match Encoder::program(program, append, initial) {
                Err(
                    bound @ (Inexpressible::Reports(_)
                    | Inexpressible::Instructions(_)
                    | Inexpressible::Initial(..)),
                ) => last = Some(bound),
                encoded => return encoded,
            }
        }
    }
    Err(last.unwrap_or(Inexpressible::Scratch))
}

/// Where the initial values of control variables come from that are not volatile.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Initially {
    /// From an instruction each.
    Defined,
    /// From the message that switches a flow to the program: [`Encoded::presets`].
    Preset,
}

struct Encoder {
    code: Code,
    /// Registers of the fields that are appended to each report, or none.
    appended: Vec<Register>,
}

/// Which register each variable has.
struct Registers {
    variables: Vec<Register>,
    /// Those of the fields that are appended to each report.
    appended: Vec<Register>,
    /// Indices of the control variables that a plane may set.
    controls: BTreeMap<VarId, u32>,
}

impl Registers {
    fn assign(program: &Program, append: bool) -> Result<Self, Inexpressible> {
        let reports = program.report_len();
        let mut controls = BTreeMap::new();
        let assign = |(at, variable): (usize, &Variable)| {
            let volatile = variable.volatile;
            match variable.scope {
                Scope::Report => Register::Report {
                    index: at as u32,
                    volatile,
                },
                Scope::Control | Scope::Hidden => {
                    let index = (at - reports) as u32;
                    if variable.scope == Scope::Control {
                        controls.insert(VarId(at as u16), index);
                    }
                    Register::Control { index, volatile }
                }
            }
        };
        let variables: Vec<Register> = program.variables.iter().enumerate().map(assign).collect();
        let count = if append { APPENDED.len() } else { 0 };
        let appended = (reports..reports + count).map(|index| Register::Report {
            index: index as u32,
            volatile: false,
        });
        if reports + count > REGISTERS as usize {
            return Err(Inexpressible::Reports(reports + count));
        }
        let stays = variables.len() - reports;
        if stays > REGISTERS as usize {
            return Err(Inexpressible::Controls(stays));
        }
        Ok(Self {
            variables,
            appended: appended.collect(),
            controls,
        })
    }
}

impl Encoder {
    fn program(
        program: &Program,
        append: bool,
        initially: Initially,
    ) -> Result<Encoded, Inexpressible> {
        let Registers {
            variables: registers,
            appended,
            mut controls,
        } = Registers::assign(program, append)?;
        let mut encoder = Self {
            code: Code::new(registers.clone()),
            appended: appended.clone(),
        };
        let mut presets = Vec::new();
        for (register, variable) in registers.iter().zip(&program.variables) {
            if let Register::Control {
                index,
                volatile: false,
            } = register
                && initially == Initially::Preset
            {
                presets.push((*index, variable.init));
                continue;
            }
            let init = initial(variable.init)
                .ok_or_else(|| Inexpressible::Initial(variable.name.clone(), variable.init))?;
            encoder.define(*register, init);
        }
        for register in appended {
            encoder.define(register, 0);
        }
        let spans = encoder.events(&program.events)?;
        let instructions = encoder.code.instructions;
        if initially == Initially::Preset {
            // Nobody misses a register that no instruction names, least of all the datapath.
            let named: BTreeSet<u32> = instructions.iter().flat_map(controls_of).collect();
            controls.retain(|_, register| named.contains(register));
            presets.retain(|(register, _)| named.contains(register));
        }
        if instructions.len() > INSTRUCTIONS || spans.len() > EVENTS {
            return Err(Inexpressible::Instructions(instructions.len()));
        }

        let mut body = Vec::new();
        body.extend_from_slice(&(spans.len() as u32).to_le_bytes());
        body.extend_from_slice(&(instructions.len() as u32).to_le_bytes());
        spans.iter().for_each(|spans| spans.write(&mut body));
        instructions.iter().for_each(|i| i.write(&mut body));
        Ok(Encoded {
            longest_path: longest_path(&spans, &instructions),
            body,
            controls,
            presets,
            appended: append,
        })
    }

    fn define(&mut self, register: Register, init: u32) {
        self.code.instructions.push(Instruction {
            op: Op::Def,
            result: register,
            left: register,
            right: Register::Immediate(init),
        });
    }

    fn events(&mut self, events: &[Event]) -> Result<Vec<Spans>, Inexpressible> {
        let mut spans = Vec::new();
        let mut reported = false;
        for event in events {
            let condition_start = self.code.instructions.len() as u32;
            self.statements(&event.prelude, None)?;
            self.condition(&event.condition)?;
            let body_start = self.code.instructions.len() as u32;
            self.statements(&event.body, None)?;
            // A report has the values at the end of the invocation, whichever event asked for it.
            reported |= reports(&event.body);
            if reported {
                for (field, value) in self.appended.iter().zip(APPENDED) {
                    self.code.emit(Op::Bind, *field, *field, value);
                }
            }
            let end = self.code.instructions.len() as u32;
            spans.push(Spans {
                condition_start,
                condition_len: body_start - condition_start,
                body_start,
                body_len: end - body_start,
            });
        }
        Ok(spans)
    }

    /// The flag of an event, which only the last instruction may write.
    fn condition(&mut self, condition: &Expr) -> Result<(), Inexpressible> {
        let target = (!matches!(condition, Expr::If { .. })).then_some(Register::FLAG);
        let value = self.code.value(condition, target)?;
        if value != Register::FLAG {
            let flag = Register::FLAG;
            self.code.emit(Op::Bind, flag, flag, value);
            self.code.free(value);
        }
        Ok(())
    }

    /// Statements that take effect if the predicate holds, if there is one.
    fn statements(
        &mut self,
        statements: &[Stmt],
        predicate: Option<Truth>,
    ) -> Result<(), Inexpressible> {
        for statement in statements {
            match statement {
                Stmt::Assign(place, value) => self.assign(*place, value, predicate)?,
                Stmt::If {
                    condition,
                    then,
                    otherwise,
                } => self.branch(condition, then, otherwise, predicate)?,
                Stmt::Report => self.set(Register::REPORT, predicate),
                Stmt::Fallthrough => self.set(Register::CONTINUE, predicate),
            }
        }
        Ok(())
    }

    fn set(&mut self, flag: Register, predicate: Option<Truth>) {
        self.write(flag, Register::Immediate(1), predicate);
    }

    fn write(&mut self, register: Register, value: Register, predicate: Option<Truth>) {
        match predicate {
            Some(predicate) => self.code.emit_if(register, predicate, value),
            // Not so the timer: to set it to what it reads bounds it (`arith::timer`).
            None if value == register && register != Register::MICROS => {}
            None => self.code.emit(Op::Bind, register, register, value),
        }
    }

    fn assign(
        &mut self,
        place: Place,
        value: &Expr,
        predicate: Option<Truth>,
    ) -> Result<(), Inexpressible> {
        let register = self.code.place(place);
        if let Expr::If {
            condition,
            then,
            otherwise,
        } = value
            && **otherwise == Expr::Place(place)
            && place != Place::Micros
        {
            return self.assign_if(register, condition, then, predicate);
        }
        // A timer that is set starts: it is set once.
        let target = (predicate.is_none() && place != Place::Micros).then_some(register);
        let value = self.code.value(value, target)?;
        self.write(register, value, predicate);
        self.code.free(value);
        Ok(())
    }

    /// An assignment that leaves the register as it is unless the condition holds.
    fn assign_if(
        &mut self,
        register: Register,
        condition: &Expr,
        value: &Expr,
        outer: Option<Truth>,
    ) -> Result<(), Inexpressible> {
        let value = self.code.value(value, None)?;
        let truth = self.code.truth(condition, None)?;
        let predicate = match outer {
            Some(outer) => self.code.within(outer, truth)?,
            None => truth,
        };
        self.code.emit_if(register, predicate, value);
        for used in [truth.register, predicate.register, value] {
            self.code.free(used);
        }
        Ok(())
    }

    fn branch(
        &mut self,
        condition: &Expr,
        then: &[Stmt],
        otherwise: &[Stmt],
        outer: Option<Truth>,
    ) -> Result<(), Inexpressible> {
        let mut condition = self.code.truth(condition, None)?;
        // Nothing that the branches write may change the predicate.
        if outer.is_none() && !is_scratch(condition.register) {
            let places = [then, otherwise].into_iter().flatten();
            if places
                .into_iter()
                .any(|s| self.writes(s, condition.register))
            {
                let copy = self.code.allocate()?;
                self.code.emit(Op::Bind, copy, copy, condition.register);
                condition.register = copy;
            }
        }
        let inner = match outer {
            Some(outer) => self.code.within(outer, condition)?,
            None => condition,
        };
        if outer.is_some() {
            self.code.free(condition.register);
        }
        self.statements(then, Some(inner))?;
        if !otherwise.is_empty() {
            let instead = match outer {
                Some(outer) => self.code.within(outer, inner.not())?,
                None => inner.not(),
            };
            self.statements(otherwise, Some(instead))?;
            self.code.free(instead.register);
        }
        self.code.free(inner.register);
        Ok(())
    }

    /// Whether a statement may write a register.
    fn writes(&self, statement: &Stmt, register: Register) -> bool {
        match statement {
            Stmt::Assign(place, _) => self.code.place(*place) == register,
            Stmt::If {
                then, otherwise, ..
            } => [then, otherwise]
                .into_iter()
                .flatten()
                .any(|statement| self.writes(statement, register)),
            Stmt::Report | Stmt::Fallthrough => false,
        }
    }
}

/// The most instructions of one invocation. After the body of an event nothing runs, unless the body
/// set the flag that keeps later events going.
fn longest_path(spans: &[Spans], instructions: &[Instruction]) -> usize {
    let (mut longest, mut all) = (0, 0);
    for spans in spans.iter().rev() {
        let condition = spans.condition_len as usize;
        let body = spans.body_len as usize;
        let start = spans.body_start as usize;
        let falls = instructions[start..start + body]
            .iter()
            .any(|instruction| instruction.result == Register::CONTINUE);
        let past = body + if falls { all } else { 0 };
        longest = condition + longest.max(past);
        all += condition + body;
    }
    longest
}

/// The control registers that an instruction names.
fn controls_of(instruction: &Instruction) -> impl Iterator<Item = u32> + use<> {
    let operands = [instruction.result, instruction.left, instruction.right];
    operands.into_iter().filter_map(|operand| match operand {
        Register::Control { index, .. } => Some(index),
        _ => None,
    })
}

/// Whether any of the statements is `(report)`.
fn reports(statements: &[Stmt]) -> bool {
    statements.iter().any(|statement| match statement {
        Stmt::Report => true,
        Stmt::If {
            then, otherwise, ..
        } => reports(then) || reports(otherwise),
        Stmt::Assign(..) | Stmt::Fallthrough => false,
    })
}

/// An initial value as an immediate.
fn initial(value: u64) -> Option<u32> {
    match value {
        u64::MAX => Some(INFINITY),
        DEFINED_INFINITY => None,
        value => u32::try_from(value).ok().filter(|v| *v != INFINITY),
    }
}
