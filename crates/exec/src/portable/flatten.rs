//! Expressions to instructions.

use alloc::vec::Vec;

use fairwater_lang::{Binary, Comparison, Expr, Place, Type, VarId};

use super::Inexpressible;
use super::wire::{INFINITY, Instruction, LOCALS, Op, Register, TMPS};

/// Registers for intermediate values: the temporary ones, then the local ones.
const SCRATCH: u32 = TMPS as u32 + LOCALS;

const ZERO: Register = Register::Immediate(0);

pub(super) struct Code {
    pub(super) instructions: Vec<Instruction>,
    /// The register of each variable.
    variables: Vec<Register>,
    /// A bit for each scratch register in use.
    used: u32,
}

impl Code {
    pub(super) const fn new(variables: Vec<Register>) -> Self {
        Self {
            instructions: Vec::new(),
            variables,
            used: 0,
        }
    }

    pub(super) fn emit(&mut self, op: Op, result: Register, left: Register, right: Register) {
        self.instructions.push(Instruction {
            op,
            result,
            left,
            right,
        });
    }

    /// A scratch register that is free.
    pub(super) fn allocate(&mut self) -> Result<Register, Inexpressible> {
        let index = self.used.trailing_ones();
        if index >= SCRATCH {
            return Err(Inexpressible::Scratch);
        }
        self.used |= 1 << index;
        Ok(match index.checked_sub(TMPS as u32) {
            None => Register::Tmp(index),
            Some(local) => Register::Local(local),
        })
    }

    /// Frees a register if it is a scratch register.
    pub(super) fn free(&mut self, register: Register) {
        match register {
            Register::Tmp(index) => self.used &= !(1 << index),
            Register::Local(index) => self.used &= !(1 << (index + TMPS as u32)),
            _ => {}
        }
    }

    pub(super) fn place(&self, place: Place) -> Register {
        match place {
            Place::Var(VarId(at)) => self.variables.get(usize::from(at)).copied().unwrap_or(ZERO),
            Place::Cwnd => Register::CWND,
            Place::Rate => Register::RATE,
            Place::Micros => Register::MICROS,
        }
    }

    /// Where the value of an expression is once the instructions that this emits have run: a
    /// register or an immediate for a leaf, `target` if one instruction can write it there, else a
    /// scratch register.
    pub(super) fn value(
        &mut self,
        expr: &Expr,
        target: Option<Register>,
    ) -> Result<Register, Inexpressible> {
        match expr {
            Expr::Const(value, ty) => constant(*value, *ty),
            Expr::Place(place) => Ok(self.place(*place)),
            Expr::Signal(signal) => Ok(Register::Primitive(*signal as u32)),
            Expr::Binary(op, left, right) => self.binary(*op, left, right, target),
            Expr::Scale { value, num, den } => {
                let [num, den] = [*num, *den].map(|n| constant(n.into(), Type::Num));
                let value = self.value(value, None)?;
                let scaled = self.result(&[value], None)?;
                self.emit(Op::Mul, scaled, value, num?);
                self.emit(Op::Div, scaled, scaled, den?);
                Ok(scaled)
            }
            Expr::Ewma { weight, old, new } => self.ewma(weight, old, new),
            Expr::Compare(op, left, right) => {
                let (op, negated) = match op {
                    Comparison::Eq => (Op::Equal, false),
                    Comparison::Ne => (Op::Equal, true),
                    Comparison::Lt => (Op::Less, false),
                    Comparison::Ge => (Op::Less, true),
                    Comparison::Gt => (Op::Greater, false),
                    Comparison::Le => (Op::Greater, true),
                };
                if !negated {
                    return self.one(op, left, right, target);
                }
                let compared = self.one(op, left, right, None)?;
                let result = self.result(&[compared], target)?;
                self.emit(Op::Equal, result, compared, ZERO);
                Ok(result)
            }
            Expr::And(left, right) => self.one(Op::Mul, left, right, target),
            Expr::Or(left, right) => self.one(Op::Max, left, right, target),
            Expr::Not(inner) => {
                let inner = self.value(inner, None)?;
                let result = self.result(&[inner], target)?;
                self.emit(Op::Equal, result, inner, ZERO);
                Ok(result)
            }
            Expr::If {
                condition,
                then,
                otherwise,
            } => {
                let [condition, then, otherwise] = self.operands([condition, then, otherwise])?;
                let result = self.own(otherwise)?;
                self.emit(Op::If, result, condition, then);
                self.free(condition);
                self.free(then);
                Ok(result)
            }
        }
    }

    fn binary(
        &mut self,
        op: Binary,
        left: &Expr,
        right: &Expr,
        target: Option<Register>,
    ) -> Result<Register, Inexpressible> {
        match op {
            Binary::Add => self.one(Op::Add, left, right, target),
            Binary::Mul => self.one(Op::Mul, left, right, target),
            Binary::Min => self.one(Op::Min, left, right, target),
            Binary::Max => self.one(Op::Max, left, right, target),
            Binary::WrappedMax => self.one(Op::MaxWrap, left, right, target),
            // The greater of both, less the right: at least 0, so libccp goes on.
            Binary::Sub => {
                let [left, right] = self.operands([left, right])?;
                let result = self.own(left)?;
                self.emit(Op::Max, result, result, right);
                self.emit(Op::Sub, result, result, right);
                self.free(right);
                Ok(result)
            }
            Binary::Div => match right {
                Expr::Const(1.., _) => self.one(Op::Div, left, right, target),
                // By 1 instead of 0, and then 0 instead of that.
                _ => {
                    let [left, right] = self.operands([left, right])?;
                    let result = self.allocate()?;
                    self.emit(Op::Max, result, right, Register::Immediate(1));
                    self.emit(Op::Div, result, left, result);
                    self.emit(Op::NotIf, result, right, ZERO);
                    self.free(left);
                    self.free(right);
                    Ok(result)
                }
            },
        }
    }

    fn ewma(&mut self, weight: &Expr, old: &Expr, new: &Expr) -> Result<Register, Inexpressible> {
        let [weight, old, new] = self.operands([weight, old, new])?;
        let result = self.allocate()?;
        if matches!(weight, Register::Immediate(0..=10)) {
            self.emit(Op::Bind, result, result, old);
            self.emit(Op::Ewma, result, weight, new);
        } else {
            // libccp's own would wrap around for a weight above 10.
            let ten = Register::Immediate(10);
            let share = self.allocate()?;
            self.emit(Op::Mul, result, weight, old);
            self.emit(Op::Min, share, weight, ten);
            self.emit(Op::Sub, share, ten, share);
            self.emit(Op::Mul, share, share, new);
            self.emit(Op::Add, result, result, share);
            self.emit(Op::Div, result, result, ten);
            self.emit(Op::NotIf, result, old, new);
            self.free(share);
        }
        for operand in [weight, old, new] {
            self.free(operand);
        }
        Ok(result)
    }

    /// The result of one instruction.
    fn one(
        &mut self,
        op: Op,
        left: &Expr,
        right: &Expr,
        target: Option<Register>,
    ) -> Result<Register, Inexpressible> {
        let [left, right] = self.operands([left, right])?;
        let result = self.result(&[left, right], target)?;
        self.emit(op, result, left, right);
        Ok(result)
    }

    /// Where the operands are. The one that needs most scratch registers comes first, so that few
    /// are in use at a time.
    fn operands<const N: usize>(
        &mut self,
        operands: [&Expr; N],
    ) -> Result<[Register; N], Inexpressible> {
        let mut order: Vec<_> = operands.iter().map(|o| scratch(o)).enumerate().collect();
        order.sort_by_key(|(_, needed)| core::cmp::Reverse(*needed));
        let mut found = [ZERO; N];
        for (at, _) in order {
            found[at] = self.value(operands[at], None)?;
        }
        Ok(found)
    }

    /// Where an instruction that uses up its operands writes.
    fn result(
        &mut self,
        operands: &[Register],
        target: Option<Register>,
    ) -> Result<Register, Inexpressible> {
        operands.iter().for_each(|operand| self.free(*operand));
        match target {
            Some(target) => Ok(target),
            None => self.allocate(),
        }
    }

    /// A scratch register that holds the operand.
    fn own(&mut self, operand: Register) -> Result<Register, Inexpressible> {
        if matches!(operand, Register::Tmp(_) | Register::Local(_)) {
            return Ok(operand);
        }
        let copy = self.allocate()?;
        self.emit(Op::Bind, copy, copy, operand);
        Ok(copy)
    }
}

/// Scratch registers that an expression needs, its operands taken in the best order.
fn scratch(expr: &Expr) -> u32 {
    let operands = match expr {
        Expr::Const(..) | Expr::Place(_) | Expr::Signal(_) => return 0,
        Expr::Scale { value, .. } | Expr::Not(value) => [scratch(value), 0, 0],
        Expr::Binary(_, a, b) | Expr::Compare(_, a, b) | Expr::And(a, b) | Expr::Or(a, b) => {
            [scratch(a), scratch(b), 0]
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
        } => [scratch(a), scratch(b), scratch(c)],
    };
    let mut sorted = operands;
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let held = (0..).zip(sorted).map(|(held, needed)| held + needed);
    held.max().unwrap_or(0).max(1)
}

/// A constant as an immediate.
fn constant(value: u64, ty: Type) -> Result<Register, Inexpressible> {
    match (u32::try_from(value), ty) {
        (Ok(value), _) if value != INFINITY => Ok(Register::Immediate(value)),
        _ if value == u64::MAX => Ok(Register::Immediate(INFINITY)),
        _ => Err(Inexpressible::Constant(value)),
    }
}
