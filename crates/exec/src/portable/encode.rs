//! A program to instructions: variables to registers, statements under predicates.
//!
//! libccp has no jumps. A branch becomes a predicate, evaluated before the branch writes anything,
//! and each write in it an `IF`. What a branch computes is computed whether it is taken or not, so
//! no instruction may fail.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use fairwater_lang::{Event, Expr, Place, Program, Scope, Stmt, VarId};

use super::flatten::Code;
use super::wire::{EVENTS, INFINITY, INSTRUCTIONS, Instruction, Op, REGISTERS, Register, Spans};
use super::{Append, Encoded, Inexpressible};

/// What libccp takes for infinity in a definition.
const DEFINED_INFINITY: u64 = 0x3fff_ffff;

/// The fields that [`Append::Flow`] adds to a report.
const APPENDED: [Register; 3] = [Register::NOW, Register::CWND, Register::RATE];

pub(super) fn program(program: &Program, append: Append) -> Result<Encoded, Inexpressible> {
    if append == Append::Flow {
        match Encoder::program(program, true) {
            Err(Inexpressible::Reports(_) | Inexpressible::Instructions(_)) => {}
            encoded => return encoded,
        }
    }
    Encoder::program(program, false)
}

struct Encoder {
    code: Code,
    /// Registers of the fields that are appended to each report, or none.
    appended: Vec<Register>,
}

impl Encoder {
    fn program(program: &Program, append: bool) -> Result<Encoded, Inexpressible> {
        let mut reports = program.report_len();
        let mut registers = Vec::new();
        let mut controls = BTreeMap::new();
        for (at, variable) in program.variables.iter().enumerate() {
            let volatile = variable.volatile;
            registers.push(match variable.scope {
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
            });
        }
        let stays = registers.len() - reports;
        let mut appended = Vec::new();
        if append {
            for _ in APPENDED {
                let index = reports as u32;
                appended.push(Register::Report {
                    index,
                    volatile: false,
                });
                reports += 1;
            }
        }
        if reports > REGISTERS as usize {
            return Err(Inexpressible::Reports(reports));
        }
        if stays > REGISTERS as usize {
            return Err(Inexpressible::Controls(stays));
        }

        let mut encoder = Self {
            code: Code::new(registers.clone()),
            appended: appended.clone(),
        };
        for (register, variable) in registers.iter().zip(&program.variables) {
            let init = initial(variable.init)
                .ok_or_else(|| Inexpressible::Initial(variable.name.clone(), variable.init))?;
            encoder.define(*register, init);
        }
        for register in appended {
            encoder.define(register, 0);
        }
        let spans = encoder.events(&program.events)?;
        let instructions = encoder.code.instructions;
        if instructions.len() > INSTRUCTIONS || spans.len() > EVENTS {
            return Err(Inexpressible::Instructions(instructions.len()));
        }

        let mut body = Vec::new();
        body.extend_from_slice(&(spans.len() as u32).to_le_bytes());
        body.extend_from_slice(&(instructions.len() as u32).to_le_bytes());
        spans.iter().for_each(|spans| spans.write(&mut body));
        instructions.iter().for_each(|i| i.write(&mut body));
        Ok(Encoded {
            body,
            controls,
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
            self.assign(Register::FLAG, &event.condition)?;
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

    /// Statements that take effect if the predicate, if there is one, is not 0.
    fn statements(
        &mut self,
        statements: &[Stmt],
        predicate: Option<Register>,
    ) -> Result<(), Inexpressible> {
        for statement in statements {
            match statement {
                Stmt::Assign(place, value) => {
                    let register = self.code.place(*place);
                    match predicate {
                        None => self.assign_place(*place, register, value)?,
                        Some(predicate) => {
                            let value = self.code.value(value, None)?;
                            self.code.emit(Op::If, register, predicate, value);
                            self.code.free(value);
                        }
                    }
                }
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

    fn set(&mut self, flag: Register, predicate: Option<Register>) {
        let (op, left) = match predicate {
            None => (Op::Bind, flag),
            Some(predicate) => (Op::If, predicate),
        };
        self.code.emit(op, flag, left, Register::Immediate(1));
    }

    fn assign_place(
        &mut self,
        place: Place,
        register: Register,
        value: &Expr,
    ) -> Result<(), Inexpressible> {
        if let Expr::Ewma { weight, old, new } = value
            && **old == Expr::Place(place)
            && let Expr::Const(weight @ 0..=10, _) = **weight
        {
            let new = self.code.value(new, None)?;
            let weight = Register::Immediate(weight as u32);
            self.code.emit(Op::Ewma, register, weight, new);
            self.code.free(new);
            return Ok(());
        }
        self.assign(register, value)
    }

    fn assign(&mut self, register: Register, value: &Expr) -> Result<(), Inexpressible> {
        let value = self.code.value(value, Some(register))?;
        if value != register {
            self.code.emit(Op::Bind, register, register, value);
            self.code.free(value);
        }
        Ok(())
    }

    fn branch(
        &mut self,
        condition: &Expr,
        then: &[Stmt],
        otherwise: &[Stmt],
        outer: Option<Register>,
    ) -> Result<(), Inexpressible> {
        let condition = self.code.value(condition, None)?;
        self.code.free(condition);
        // Nothing that the branches write may change the predicate.
        let inner = self.code.allocate()?;
        match outer {
            Some(outer) => self.code.emit(Op::Mul, inner, outer, condition),
            None if condition == inner => {}
            None => self.code.emit(Op::Bind, inner, inner, condition),
        }
        self.statements(then, Some(inner))?;
        if !otherwise.is_empty() {
            match outer {
                Some(outer) => self.code.emit(Op::Greater, inner, outer, inner),
                None => self
                    .code
                    .emit(Op::Equal, inner, inner, Register::Immediate(0)),
            }
            self.statements(otherwise, Some(inner))?;
        }
        self.code.free(inner);
        Ok(())
    }
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
