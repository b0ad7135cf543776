//! Expressions to instructions.

use alloc::boxed::Box;
use alloc::vec::Vec;

use fairwater_lang::{Binary, Comparison, Expr, Place, SignalSet, Type, VarId};

use super::Inexpressible;
use super::facts::{above_one_bound, is_at_least, is_positive, negated, scratch};
use super::wire::{INFINITY, Instruction, LOCALS, Op, Register, TMPS};

/// Registers for intermediate values: the temporary ones, then the local ones.
const SCRATCH: u32 = TMPS as u32 + LOCALS;

const ZERO: Register = Register::Immediate(0);

/// The largest constant of an immediate operand but for infinity.
pub(super) const LARGEST: u64 = INFINITY as u64 - 1;

/// A register that tells whether a boolean holds: it is 0 or 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Truth {
    pub(super) register: Register,
    /// The register is 1 if the boolean does not hold.
    pub(super) negated: bool,
}

impl Truth {
    pub(super) const fn of(register: Register) -> Self {
        Self {
            register,
            negated: false,
        }
    }

    pub(super) const fn not(self) -> Self {
        Self {
            register: self.register,
            negated: !self.negated,
        }
    }
}

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
    /// register or an immediate for a leaf, else `target` if that can be written, else a scratch
    /// register.
    pub(super) fn value(
        &mut self,
        expr: &Expr,
        target: Option<Register>,
    ) -> Result<Register, Inexpressible> {
        match expr {
            Expr::Const(value, _) => self.constant(*value),
            Expr::Place(place) => Ok(self.place(*place)),
            Expr::Signal(signal) if !SignalSet::CCP.contains(*signal) => {
                Err(Inexpressible::Signal(*signal))
            }
            Expr::Signal(signal) => Ok(Register::Primitive(*signal as u32)),
            Expr::Binary(op, left, right) => self.binary(*op, left, right, target),
            Expr::Scale { value, num: 1, den } => {
                let divisor = Expr::Const((*den).into(), Type::Num);
                self.one(Op::Div, value, &divisor, target)
            }
            Expr::Scale { value, num, den } => {
                let value = self.value(value, None)?;
                let (num, den) = (self.constant((*num).into())?, self.constant((*den).into())?);
                let scaled = self.result(&[value, num], target, &[den])?;
                self.emit(Op::Mul, scaled, value, num);
                self.emit(Op::Div, scaled, scaled, den);
                self.free(den);
                Ok(scaled)
            }
            Expr::Ewma { weight, old, new } => self.ewma(weight, old, new, target),
            Expr::Compare(..) | Expr::And(..) | Expr::Or(..) | Expr::Not(_) => {
                self.boolean(expr, target)
            }
            // A boolean as a number: it is 0 or 1 already.
            Expr::If {
                condition,
                then,
                otherwise,
            } if **then == Expr::Const(1, Type::Num)
                && **otherwise == Expr::Const(0, Type::Num) =>
            {
                self.boolean(condition, target)
            }
            Expr::If {
                condition,
                then,
                otherwise,
            } if **then == Expr::Const(0, Type::Num)
                && **otherwise == Expr::Const(1, Type::Num) =>
            {
                self.boolean(&Expr::Not(condition.clone()), target)
            }
            Expr::If {
                condition,
                then,
                otherwise,
            } => self.choice(condition, then, otherwise, target),
        }
    }

    fn choice(
        &mut self,
        condition: &Expr,
        then: &Expr,
        otherwise: &Expr,
        target: Option<Register>,
    ) -> Result<Register, Inexpressible> {
        if *otherwise == Expr::Const(0, Type::Num) && !negated(condition) {
            // 0 or 1 times the value.
            return self.one(Op::Mul, condition, then, target);
        }
        let [truth, then] = if scratch(then) > scratch(condition) {
            let then = self.value(then, None)?;
            [self.truth(condition, None)?, Truth::of(then)]
        } else {
            let truth = self.truth(condition, None)?;
            [truth, Truth::of(self.value(then, None)?)]
        };
        let read = [truth.register, then.register];
        // The last operand may go where the result goes: what else is read is elsewhere.
        let target = target.filter(|target| !read.contains(target));
        let otherwise = self.value(otherwise, target)?;
        let result = match target {
            Some(target) => target,
            None if is_scratch(otherwise) => otherwise,
            None => self.allocate()?,
        };
        if otherwise != result {
            self.emit(Op::Bind, result, result, otherwise);
            self.free(otherwise);
        }
        self.emit_if(result, truth, then.register);
        read.into_iter().for_each(|register| self.free(register));
        Ok(result)
    }

    /// Writes a value to a register if a boolean holds.
    pub(super) fn emit_if(&mut self, result: Register, truth: Truth, value: Register) {
        let op = if truth.negated { Op::NotIf } else { Op::If };
        self.emit(op, result, truth.register, value);
    }

    /// The boolean as 0 or 1, as [`value`](Self::value) has it.
    fn boolean(
        &mut self,
        expr: &Expr,
        target: Option<Register>,
    ) -> Result<Register, Inexpressible> {
        let truth = self.truth(expr, target)?;
        if !truth.negated {
            return Ok(truth.register);
        }
        let result = self.result(&[truth.register], target, &[])?;
        self.emit(Op::Equal, result, truth.register, ZERO);
        Ok(result)
    }

    /// A register that tells whether the boolean holds, or does not: libccp can take either, so that a
    /// negation costs nothing. Writes to `target` only if it tells that it holds.
    pub(super) fn truth(
        &mut self,
        expr: &Expr,
        target: Option<Register>,
    ) -> Result<Truth, Inexpressible> {
        match expr {
            Expr::Compare(op, left, right) => self.compare(*op, left, right, target),
            Expr::Not(inner) => Ok(self.truth(inner, None)?.not()),
            Expr::And(left, right) | Expr::Or(left, right)
                if let Some((left, right, bound)) = above_one_bound(left, right) =>
            {
                // Both are above what the lesser is above, either what the greater is above.
                let op = match expr {
                    Expr::And(..) => Binary::Min,
                    _ => Binary::Max,
                };
                let (left, right) = (Box::new(left.clone()), Box::new(right.clone()));
                let joined = Expr::Binary(op, left, right);
                self.compare(Comparison::Gt, &joined, bound, target)
            }
            Expr::And(left, right) => {
                let [left, right] = self.truths([left, right])?;
                self.both(left, right, target)
            }
            Expr::Or(left, right) => {
                let [left, right] = self.truths([left, right])?;
                self.either(left, right, target)
            }
            _ => Ok(Truth::of(self.value(expr, target)?)),
        }
    }

    fn compare(
        &mut self,
        op: Comparison,
        left: &Expr,
        right: &Expr,
        target: Option<Register>,
    ) -> Result<Truth, Inexpressible> {
        let number = |value| Expr::Const(value, Type::Num);
        // Whole numbers: at least 5 is more than 4.
        match (op, right) {
            (Comparison::Ge, Expr::Const(bound @ 1..=LARGEST, Type::Num)) => {
                return self.compare(Comparison::Gt, left, &number(bound - 1), target);
            }
            (Comparison::Le, Expr::Const(bound @ 0..LARGEST, Type::Num)) => {
                return self.compare(Comparison::Lt, left, &number(bound + 1), target);
            }
            _ => {}
        }
        let (op, negated) = match op {
            Comparison::Eq => (Op::Equal, false),
            Comparison::Ne => (Op::Equal, true),
            Comparison::Lt => (Op::Less, false),
            Comparison::Ge => (Op::Less, true),
            Comparison::Gt => (Op::Greater, false),
            Comparison::Le => (Op::Greater, true),
        };
        let register = self.one(op, left, right, target.filter(|_| !negated))?;
        Ok(Truth { register, negated })
    }

    fn truths(&mut self, operands: [&Expr; 2]) -> Result<[Truth; 2], Inexpressible> {
        let [left, right] = operands;
        if scratch(right) > scratch(left) {
            let right = self.truth(right, None)?;
            return Ok([self.truth(left, None)?, right]);
        }
        let left = self.truth(left, None)?;
        Ok([left, self.truth(right, None)?])
    }

    /// Whether both hold; their registers are used up.
    fn both(
        &mut self,
        left: Truth,
        right: Truth,
        target: Option<Register>,
    ) -> Result<Truth, Inexpressible> {
        let (op, [a, b], negated) = conjunction(left, right);
        let register = self.result(&[a, b], target.filter(|_| !negated), &[])?;
        self.emit(op, register, a, b);
        Ok(Truth { register, negated })
    }

    /// Whether either holds; their registers are used up.
    fn either(
        &mut self,
        left: Truth,
        right: Truth,
        target: Option<Register>,
    ) -> Result<Truth, Inexpressible> {
        let (op, [a, b], negated) = conjunction(left.not(), right.not());
        let register = self.result(&[a, b], target.filter(|_| negated), &[])?;
        self.emit(op, register, a, b);
        Ok(Truth { register, negated }.not())
    }

    /// The predicate of what runs if `outer` and `inner` hold, which stay as they are.
    pub(super) fn within(&mut self, outer: Truth, inner: Truth) -> Result<Truth, Inexpressible> {
        let (op, [a, b], negated) = conjunction(outer, inner);
        let register = self.allocate()?;
        self.emit(op, register, a, b);
        Ok(Truth { register, negated })
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
            Binary::Mul => match (left, right) {
                (Expr::Const(1, _), value) | (value, Expr::Const(1, _)) => {
                    self.value(value, target)
                }
                (factor, Expr::Binary(Binary::Div, whole, by))
                | (Expr::Binary(Binary::Div, whole, by), factor)
                    if **by == *factor =>
                {
                    self.multiple(whole, by, target)
                }
                _ => self.one(Op::Mul, left, right, target),
            },
            Binary::Min => self.one(Op::Min, left, right, target),
            Binary::Max => self.one(Op::Max, left, right, target),
            Binary::WrappedMax => self.one(Op::MaxWrap, left, right, target),
            Binary::Sub if is_at_least(left, right) => self.one(Op::Sub, left, right, target),
            // The greater of both, less the right: at least 0, so libccp goes on.
            Binary::Sub => {
                let [left, right] = self.operands([left, right])?;
                let result = self.result(&[left], target, &[right])?;
                self.emit(Op::Max, result, left, right);
                self.emit(Op::Sub, result, result, right);
                self.free(right);
                Ok(result)
            }
            Binary::Div if is_positive(right) => self.one(Op::Div, left, right, target),
            // By 1 instead of 0, and then 0 instead of that.
            Binary::Div => {
                let [left, right] = self.operands([left, right])?;
                let result = self.result(&[], target, &[left, right])?;
                self.emit(Op::Max, result, right, Register::Immediate(1));
                self.emit(Op::Div, result, left, result);
                self.emit(Op::NotIf, result, right, ZERO);
                self.free(left);
                self.free(right);
                Ok(result)
            }
        }
    }

    /// The largest multiple of `by` that is not more than `whole`: by 0, the product is 0 whatever
    /// the quotient is.
    fn multiple(
        &mut self,
        whole: &Expr,
        by: &Expr,
        target: Option<Register>,
    ) -> Result<Register, Inexpressible> {
        let [whole, by] = self.operands([whole, by])?;
        let result = self.result(&[], target, &[whole, by])?;
        self.emit(Op::Max, result, by, Register::Immediate(1));
        self.emit(Op::Div, result, whole, result);
        self.emit(Op::Mul, result, result, by);
        self.free(whole);
        self.free(by);
        Ok(result)
    }

    fn ewma(
        &mut self,
        weight: &Expr,
        old: &Expr,
        new: &Expr,
        target: Option<Register>,
    ) -> Result<Register, Inexpressible> {
        let [weight, old, new] = self.operands([weight, old, new])?;
        let weight = self.weight(weight)?;
        let result = self.result(&[old], target, &[weight, new])?;
        if old != result {
            self.emit(Op::Bind, result, result, old);
        }
        self.emit(Op::Ewma, result, weight, new);
        self.free(weight);
        self.free(new);
        Ok(result)
    }

    /// The weight of an average, at most 10: above that, libccp's difference from 10 wraps around.
    fn weight(&mut self, weight: Register) -> Result<Register, Inexpressible> {
        let largest = 10;
        if let Register::Immediate(weight) = weight {
            return Ok(Register::Immediate(weight.min(largest)));
        }
        let bounded = self.result(&[weight], None, &[])?;
        self.emit(Op::Min, bounded, weight, Register::Immediate(largest));
        Ok(bounded)
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
        let result = self.result(&[left, right], target, &[])?;
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

    /// Where instructions write that use up the registers in `used` with the first of them, and read
    /// those in `read` after it: the target unless they read it, else a scratch register.
    fn result(
        &mut self,
        used: &[Register],
        target: Option<Register>,
        read: &[Register],
    ) -> Result<Register, Inexpressible> {
        used.iter()
            .filter(|register| !read.contains(register))
            .for_each(|register| self.free(*register));
        match target {
            Some(target) if !read.contains(&target) => Ok(target),
            _ => self.allocate(),
        }
    }

    /// An immediate, or a scratch register with a constant that no immediate can be.
    fn constant(&mut self, value: u64) -> Result<Register, Inexpressible> {
        match value {
            u64::MAX => return Ok(Register::Immediate(INFINITY)),
            0..=LARGEST => return Ok(Register::Immediate(value as u32)),
            _ => {}
        }
        // As a product if there is one of round numbers, else as one and what is left.
        let factor = [1_000_000, 1 << 16, LARGEST]
            .into_iter()
            .find(|factor| value.is_multiple_of(*factor) && value / factor <= LARGEST)
            .unwrap_or(LARGEST);
        if value / factor > LARGEST {
            return Err(Inexpressible::Constant(value));
        }
        let immediate = |part: u64| Register::Immediate(part as u32);
        let result = self.allocate()?;
        self.emit(
            Op::Mul,
            result,
            immediate(value / factor),
            immediate(factor),
        );
        if !value.is_multiple_of(factor) {
            self.emit(Op::Add, result, result, immediate(value % factor));
        }
        Ok(result)
    }
}

/// The instruction that tells whether both booleans hold, and whether it tells the opposite.
const fn conjunction(left: Truth, right: Truth) -> (Op, [Register; 2], bool) {
    let operands = [left.register, right.register];
    match (left.negated, right.negated) {
        (false, false) => (Op::Mul, operands, false),
        (false, true) => (Op::Greater, operands, false),
        (true, false) => (Op::Greater, [right.register, left.register], false),
        (true, true) => (Op::Max, operands, true),
    }
}

pub(super) const fn is_scratch(register: Register) -> bool {
    matches!(register, Register::Tmp(_) | Register::Local(_))
}
