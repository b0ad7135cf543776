//! Instructions to statements and expressions.
//!
//! What is written to a temporary register is kept as an expression until it is read. It becomes a
//! hidden variable only if it is read more than once, if what it reads is written before it is
//! read, or if it would be too deep.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use fairwater_lang::bounds::{MAX_DEPTH, MAX_VARIABLES};
use fairwater_lang::{
    Binary, Comparison, Expr, Invalid, Place, Scope, SignalSet, Stmt, Type, VarId, Variable,
};

use super::value::Value;
use super::wire::{INFINITY, Instruction, LOCALS, Op, Register, TMPS};
use super::{Error, InstructionError};

/// Levels of a temporary register's expression: an instruction that uses it adds at most 3.
const DEPTH: usize = MAX_DEPTH - 8;

/// The registers that are defined.
pub(super) struct Names {
    /// Report registers: this many, from the first on.
    pub(super) reports: u32,
    /// The variables of control registers.
    pub(super) controls: BTreeMap<u32, VarId>,
}

/// What a temporary register holds, and how often that will be read.
struct Pending {
    value: Value,
    reads: usize,
}

pub(super) struct Lift<'i> {
    instructions: &'i [Instruction],
    names: Names,
    /// Variables with names before the hidden ones.
    named: usize,
    hidden: Vec<Variable>,
    locals: BTreeMap<u32, VarId>,
    /// Hidden variables for temporary values, shared by all spans, and how many the present span
    /// has taken: numbers, booleans.
    spare: [Vec<VarId>; 2],
    taken: [usize; 2],
    tmps: [Option<Pending>; TMPS],
    out: Vec<Stmt>,
}

impl<'i> Lift<'i> {
    pub(super) fn new(instructions: &'i [Instruction], names: Names, named: usize) -> Self {
        Self {
            instructions,
            names,
            named,
            hidden: Vec::new(),
            locals: BTreeMap::new(),
            spare: [Vec::new(), Vec::new()],
            taken: [0; 2],
            tmps: [const { None }; TMPS],
            out: Vec::new(),
        }
    }

    /// The variables of control registers, and the hidden variables.
    pub(super) fn finish(self) -> (BTreeMap<u32, VarId>, Vec<Variable>) {
        (self.names.controls, self.hidden)
    }

    /// What runs before the condition of event `event`, and the condition.
    pub(super) fn condition(
        &mut self,
        event: usize,
        span: Range<usize>,
    ) -> Result<(Vec<Stmt>, Expr), Error> {
        let Some(last) = span.clone().next_back() else {
            return Err(Error::NoCondition(event));
        };
        let reads = self.begin(&span)?;
        for at in span.start..last {
            let instruction = self.instructions[at];
            if matches!(instruction.result, Register::CONTINUE | Register::REPORT) {
                let error = InstructionError::CommandInCondition;
                return Err(Error::Instruction { at, error });
            }
            self.instruction(at, reads[at - span.start])?;
        }
        let instruction = self.instructions[last];
        if instruction.result != Register::FLAG || instruction.op.reads_result() {
            return Err(Error::NoCondition(event));
        }
        let condition = self.operation(last)?.into_expr(Type::Bool);
        Ok((core::mem::take(&mut self.out), condition))
    }

    pub(super) fn body(&mut self, span: Range<usize>) -> Result<Vec<Stmt>, Error> {
        let reads = self.begin(&span)?;
        for at in span.clone() {
            self.instruction(at, reads[at - span.start])?;
        }
        Ok(core::mem::take(&mut self.out))
    }

    /// Forgets the temporary registers; yields for each instruction of a span that writes one how
    /// often that is read before it is written again.
    fn begin(&mut self, span: &Range<usize>) -> Result<Vec<usize>, Error> {
        self.tmps = [const { None }; TMPS];
        self.taken = [0; 2];
        let mut reads = vec![0; span.len()];
        let mut later = [0_usize; TMPS];
        for at in span.clone().rev() {
            let Instruction {
                op,
                result,
                left,
                right,
            } = self.instructions[at];
            let tmp = |register| match register {
                Register::Tmp(index) if index as usize >= TMPS => Err(Error::Instruction {
                    at,
                    error: InstructionError::Register(index),
                }),
                Register::Tmp(index) => Ok(Some(index as usize)),
                _ => Ok(None),
            };
            if op == Op::Def {
                let error = InstructionError::Misplaced;
                return Err(Error::Instruction { at, error });
            }
            if let Some(index) = tmp(result)? {
                reads[at - span.start] = core::mem::take(&mut later[index]);
                later[index] += usize::from(op.reads_result());
            }
            if let (true, Some(index)) = (op.reads_left(), tmp(left)?) {
                later[index] += 1;
            }
            if let Some(index) = tmp(right)? {
                later[index] += 1;
            }
        }
        Ok(reads)
    }

    /// One instruction; if it writes a temporary register, that is read `reads` times.
    fn instruction(&mut self, at: usize, reads: usize) -> Result<(), Error> {
        let Instruction { op, result, .. } = self.instructions[at];
        let wrong = |error| Error::Instruction { at, error };
        match result {
            Register::Tmp(index) => {
                let value = self.operation(at)?;
                self.keep(index, value, reads)
            }
            Register::FLAG => Err(wrong(InstructionError::EventFlag)),
            Register::CONTINUE => self.command(at, Stmt::Fallthrough),
            Register::REPORT => self.command(at, Stmt::Report),
            _ => {
                let place = self.place(result).map_err(wrong)?;
                let hidden = matches!(result, Register::Local(_));
                let statement = match op {
                    Op::If | Op::NotIf if !hidden => {
                        let (condition, value) = self.conditional(at)?;
                        Stmt::If {
                            condition,
                            then: vec![Stmt::Assign(place, value.into_expr(Type::Num))],
                            otherwise: Vec::new(),
                        }
                    }
                    _ => Stmt::Assign(place, self.operation(at)?.into_expr(Type::Num)),
                };
                self.before_write(place)?;
                self.out.push(statement);
                Ok(())
            }
        }
    }

    /// The condition under which an `IF` or a `NOTIF` writes, and what it then writes.
    fn conditional(&mut self, at: usize) -> Result<(Expr, Value), Error> {
        let Instruction {
            op, left, right, ..
        } = self.instructions[at];
        let wrong = |error| Error::Instruction { at, error };
        let condition = self.operand(left).map_err(wrong)?.into_expr(Type::Bool);
        let value = self.operand(right).map_err(wrong)?;
        let condition = match op {
            Op::NotIf => Expr::Not(Box::new(condition)),
            _ => condition,
        };
        Ok((condition, value))
    }

    /// An instruction that sets a flag.
    fn command(&mut self, at: usize, set: Stmt) -> Result<(), Error> {
        let Instruction { op, right, .. } = self.instructions[at];
        let constant = matches!(right, Register::Immediate(1..));
        match op {
            Op::Bind if constant => self.out.push(set),
            Op::If | Op::NotIf if constant => {
                let (condition, _) = self.conditional(at)?;
                self.out.push(Stmt::If {
                    condition,
                    then: vec![set],
                    otherwise: Vec::new(),
                });
            }
            _ => {
                let error = InstructionError::Command;
                return Err(Error::Instruction { at, error });
            }
        }
        Ok(())
    }

    /// What an instruction writes to its result.
    fn operation(&mut self, at: usize) -> Result<Value, Error> {
        let instruction = self.instructions[at];
        self.result_of(instruction)
            .map_err(|error| Error::Instruction { at, error })?
            .map_or_else(|| self.averaged(at), Ok)
    }

    /// What an instruction writes to its result; nothing if that is for [`Self::averaged`] to say.
    fn result_of(&mut self, instruction: Instruction) -> Result<Option<Value>, InstructionError> {
        let Instruction {
            op,
            result,
            left,
            right,
        } = instruction;
        let binary = match op {
            Op::Bind => return self.operand(right).map(Some),
            Op::Ewma => return Ok(None),
            Op::If | Op::NotIf => {
                let condition = self.operand(left)?;
                let new = self.operand(right)?;
                let old = self.operand(result)?;
                let (then, otherwise) = match op {
                    Op::If => (new, old),
                    _ => (old, new),
                };
                return Ok(Some(Value::choice(condition, then, otherwise)));
            }
            Op::Def => return Err(InstructionError::Misplaced),
            Op::Equal | Op::Greater | Op::Less => None,
            Op::Add => Some(Binary::Add),
            Op::Sub => Some(Binary::Sub),
            Op::Mul => Some(Binary::Mul),
            Op::Div => Some(Binary::Div),
            Op::Min => Some(Binary::Min),
            Op::Max => Some(Binary::Max),
            Op::MaxWrap => Some(Binary::WrappedMax),
        };
        let (left, right) = (self.operand(left)?, self.operand(right)?);
        Ok(Some(match (binary, op) {
            (Some(op), _) => Value::binary(op, left, right),
            (None, Op::Greater) => Value::compare(Comparison::Gt, left, right),
            (None, Op::Less) => Value::compare(Comparison::Lt, left, right),
            (None, _) => Value::compare(Comparison::Eq, left, right),
        }))
    }

    /// What an `EWMA` writes to its result, which is the average so far as well.
    fn averaged(&mut self, at: usize) -> Result<Value, Error> {
        let Instruction {
            result,
            left,
            right,
            ..
        } = self.instructions[at];
        let wrong = |error| Error::Instruction { at, error };
        let weight = self.operand(left).map_err(wrong)?;
        let new = self.operand(right).map_err(wrong)?;
        let old = match result {
            Register::Tmp(_) => {
                let old = self.operand(result).map_err(wrong)?.of(Type::Num);
                match old.expr {
                    Expr::Place(place) => place,
                    _ => self.hide(old)?,
                }
            }
            _ => self.place(result).map_err(wrong)?,
        };
        Ok(Value::ewma(weight, old, new))
    }

    fn operand(&mut self, register: Register) -> Result<Value, InstructionError> {
        match register {
            Register::Immediate(INFINITY) => Ok(Value::number(u64::MAX)),
            Register::Immediate(value) => Ok(Value::number(value.into())),
            Register::Primitive(index) => {
                let signal = SignalSet::CCP.iter().nth(index as usize);
                let signal = signal.ok_or(InstructionError::Register(index))?;
                Ok(Value::signal(signal))
            }
            Register::Tmp(index) => {
                let slot = self.tmps.get_mut(index as usize);
                let slot = slot.ok_or(InstructionError::Register(index))?;
                let pending = slot.as_mut().ok_or(InstructionError::Unwritten(index))?;
                pending.reads = pending.reads.saturating_sub(1);
                match slot.take_if(|pending| pending.reads == 0) {
                    Some(pending) => Ok(pending.value),
                    None => {
                        let value = slot.as_ref().map(|pending| pending.value.clone());
                        value.ok_or(InstructionError::Unwritten(index))
                    }
                }
            }
            Register::FLAG | Register::CONTINUE | Register::REPORT => {
                Err(InstructionError::WriteOnly)
            }
            _ => Ok(Value::place(self.place(register)?, Type::Num)),
        }
    }

    /// The place that a register is, if it is one.
    fn place(&mut self, register: Register) -> Result<Place, InstructionError> {
        match register {
            Register::MICROS => Ok(Place::Micros),
            Register::CWND => Ok(Place::Cwnd),
            Register::RATE => Ok(Place::Rate),
            Register::Implicit(index) => Err(InstructionError::Register(index)),
            Register::Report { index, .. } if index < self.names.reports => {
                Ok(Place::Var(VarId(index as u16)))
            }
            Register::Report { index, .. } => Err(InstructionError::Undefined(index)),
            Register::Control { index, .. } => {
                let id = self.names.controls.get(&index);
                id.map(|id| Place::Var(*id))
                    .ok_or(InstructionError::Undefined(index))
            }
            Register::Local(index) if index >= LOCALS => Err(InstructionError::Register(index)),
            Register::Local(index) => {
                if let Some(id) = self.locals.get(&index) {
                    return Ok(Place::Var(*id));
                }
                let id = self.new_hidden(format!("__local{index}"), Type::Num);
                self.locals.insert(index, id);
                Ok(Place::Var(id))
            }
            Register::Immediate(_) | Register::Primitive(_) => Err(InstructionError::ReadOnly),
            Register::Tmp(_) => Err(InstructionError::ReadOnly),
        }
    }

    /// A value becomes that of a temporary register.
    fn keep(&mut self, index: u32, value: Value, reads: usize) -> Result<(), Error> {
        let value = if !value.is_leaf() && (reads > 1 || value.depth > DEPTH) && reads > 0 {
            let ty = value.ty;
            Value::place(self.hide(value)?, ty)
        } else {
            value
        };
        if let Some(slot) = self.tmps.get_mut(index as usize) {
            *slot = Some(Pending { value, reads });
        }
        Ok(())
    }

    /// Before a place is written, what will be read later of its present value is kept.
    fn before_write(&mut self, place: Place) -> Result<(), Error> {
        for index in 0..TMPS {
            let affected = self.tmps[index]
                .take_if(|pending| pending.reads > 0 && reads(&pending.value.expr, place));
            if let Some(Pending { value, reads }) = affected {
                let ty = value.ty;
                let value = Value::place(self.hide(value)?, ty);
                self.tmps[index] = Some(Pending { value, reads });
            }
        }
        Ok(())
    }

    /// Assigns a value to a hidden variable that the span does not use yet.
    fn hide(&mut self, value: Value) -> Result<Place, Error> {
        let kind = match value.ty {
            Type::Num => 0,
            Type::Bool => 1,
        };
        let known = self.spare[kind].get(self.taken[kind]).copied();
        let id = match known {
            Some(id) => id,
            None => {
                let count = self.named + self.hidden.len();
                if count >= MAX_VARIABLES {
                    return Err(Invalid::TooManyVariables(count + 1).into());
                }
                let letter = if kind == 0 { 'n' } else { 'b' };
                let name = format!("__{letter}{}", self.taken[kind]);
                let id = self.new_hidden(name, value.ty);
                self.spare[kind].push(id);
                id
            }
        };
        self.taken[kind] += 1;
        let place = Place::Var(id);
        self.out.push(Stmt::Assign(place, value.expr));
        Ok(place)
    }

    /// A new hidden variable of a name that no other has.
    pub(super) fn new_hidden(&mut self, name: String, ty: Type) -> VarId {
        let id = VarId((self.named + self.hidden.len()) as u16);
        self.hidden.push(Variable {
            name,
            scope: Scope::Hidden,
            volatile: false,
            ty,
            init: 0,
        });
        id
    }
}

/// Whether an expression reads a place.
fn reads(expr: &Expr, place: Place) -> bool {
    match expr {
        Expr::Const(..) | Expr::Signal(_) => false,
        Expr::Place(read) => *read == place,
        Expr::Scale { value, .. } | Expr::Not(value) => reads(value, place),
        Expr::Binary(_, a, b) | Expr::Compare(_, a, b) | Expr::And(a, b) | Expr::Or(a, b) => {
            reads(a, place) || reads(b, place)
        }
        Expr::Ewma {
            weight: a,
            old: b,
            new: c,
        }
        | Expr::If {
            condition: a,
            then: b,
            otherwise: c,
        } => reads(a, place) || reads(b, place) || reads(c, place),
    }
}
