//! Expressions: each leaves its value in `R1`; `R0` and `R2`–`R5` are scratch.
//!
//! An intermediate value waits for others in the frame's scratch slots, not on the stack, and
//! comes back from there before anything branches on it. The verifier knows nothing
//! of what it loads from a map, so no branch over values can ever be decided by it; its states
//! merge after each branch, and its work stays linear in the length of the program. Were it to
//! follow values (a saturated sum is a constant, say), it would have to tell apart every
//! combination of the paths that led to them.

use super::asm::{Asm, Label};
use super::generate::GenerateError;
use super::insn::{Alu, Cond, Operand, Reg, Size};
use crate::frame::{CWND, FrameLayout, RATE, SIGNALS, TIMER_ZERO};
use fairwater_lang::{Binary, Comparison, Expr, Place, Signal, VarId};

use Reg::{R0, R1, R2, R6};

/// What the verifier can know of a value in a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Knowledge {
    /// Nothing: it comes straight from the frame.
    None,
    /// Perhaps its range.
    Some,
}

/// Emits expressions.
pub(super) struct Emitter<'a> {
    pub(super) asm: &'a mut Asm,
    pub(super) layout: FrameLayout,
}

impl Emitter<'_> {
    /// `R1` = the value. Scratch slots from `slot` on are free.
    pub(super) fn value(&mut self, expr: &Expr, slot: usize) -> Result<Knowledge, GenerateError> {
        match expr {
            Expr::Const(value, _) => {
                self.asm.constant(R1, *value);
                Ok(Knowledge::Some)
            }
            Expr::Place(place) => {
                self.leaf(Leaf::Place(*place), R1);
                Ok(Knowledge::None)
            }
            Expr::Signal(signal) => {
                self.leaf(Leaf::Signal(*signal), R1);
                Ok(Knowledge::None)
            }
            Expr::Binary(op, left, right) => {
                let hidden = !matches!(op, Binary::Div);
                let right = self.operands(left, right, slot, hidden)?;
                self.binary(*op, right);
                Ok(Knowledge::Some)
            }
            Expr::Scale { value, num, den } => {
                self.hidden(value, slot)?;
                self.scale(*num, *den);
                Ok(Knowledge::Some)
            }
            Expr::Ewma { weight, old, new } => {
                self.ewma(weight, old, new, slot)?;
                Ok(Knowledge::Some)
            }
            Expr::Compare(..) | Expr::And(..) | Expr::Or(..) | Expr::Not(_) => {
                let (no, end) = (self.asm.label(), self.asm.label());
                self.branch(expr, false, no, slot)?;
                self.asm.mov(R1, 1);
                self.asm.jump(end);
                self.asm.bind(no);
                self.asm.mov(R1, 0);
                self.asm.bind(end);
                Ok(Knowledge::Some)
            }
            Expr::If {
                condition,
                then,
                otherwise,
            } => {
                let (no, end) = (self.asm.label(), self.asm.label());
                self.branch(condition, false, no, slot)?;
                let known_then = self.value(then, slot)?;
                self.asm.jump(end);
                self.asm.bind(no);
                let known_otherwise = self.value(otherwise, slot)?;
                self.asm.bind(end);
                if known_then == Knowledge::None {
                    Ok(known_otherwise)
                } else {
                    Ok(Knowledge::Some)
                }
            }
        }
    }

    /// Goes to the label if the boolean is `when`; falls through otherwise.
    pub(super) fn branch(
        &mut self,
        expr: &Expr,
        when: bool,
        to: Label,
        slot: usize,
    ) -> Result<(), GenerateError> {
        match expr {
            Expr::Const(value, _) => {
                if (*value != 0) == when {
                    self.asm.jump(to);
                }
            }
            Expr::Not(inner) => self.branch(inner, !when, to, slot)?,
            Expr::And(left, right) => self.branch_both(left, right, when, false, to, slot)?,
            Expr::Or(left, right) => self.branch_both(left, right, when, true, to, slot)?,
            Expr::Compare(op, left, right) => {
                let right = self.operands(left, right, slot, true)?;
                self.asm.jump_if(condition(*op, when), R1, right, to);
            }
            Expr::If {
                condition,
                then,
                otherwise,
            } => {
                let (no, end) = (self.asm.label(), self.asm.label());
                self.branch(condition, false, no, slot)?;
                self.branch(then, when, to, slot)?;
                self.asm.jump(end);
                self.asm.bind(no);
                self.branch(otherwise, when, to, slot)?;
                self.asm.bind(end);
            }
            _ => {
                self.hidden(expr, slot)?;
                let cond = if when { Cond::Ne } else { Cond::Eq };
                self.asm.jump_if(cond, R1, 0, to);
            }
        }
        Ok(())
    }

    /// `and` and `or`: `decides` is the value of the left that settles both.
    fn branch_both(
        &mut self,
        left: &Expr,
        right: &Expr,
        when: bool,
        decides: bool,
        to: Label,
        slot: usize,
    ) -> Result<(), GenerateError> {
        if when == decides {
            self.branch(left, when, to, slot)?;
            self.branch(right, when, to, slot)
        } else {
            let end = self.asm.label();
            self.branch(left, decides, end, slot)?;
            self.branch(right, when, to, slot)?;
            self.asm.bind(end);
            Ok(())
        }
    }

    /// `R1` = the value, of which the verifier knows nothing.
    fn hidden(&mut self, expr: &Expr, slot: usize) -> Result<(), GenerateError> {
        if self.value(expr, slot)? == Knowledge::Some {
            let at = self.scratch(slot)?;
            self.asm.store(Size::U64, R6, at, R1);
            self.asm.load(Size::U64, R1, R6, at);
        }
        Ok(())
    }

    /// `R1` = the left value; the right one is in the operand, `R2` or an immediate. When
    /// `hidden`, the verifier knows nothing of either, constants excepted.
    pub(super) fn operands(
        &mut self,
        left: &Expr,
        right: &Expr,
        slot: usize,
        hidden: bool,
    ) -> Result<Operand, GenerateError> {
        if let Some(right) = Leaf::of(right) {
            if hidden && !matches!(left, Expr::Const(..)) {
                self.hidden(left, slot)?;
            } else {
                self.value(left, slot)?;
            }
            return Ok(self.leaf_operand(right));
        }
        if let Some(left) = Leaf::of(left) {
            let known = self.value(right, slot)?;
            self.second(known, slot, hidden)?;
            self.leaf(left, R1);
        } else if depth(left) >= depth(right) {
            self.value(left, slot)?;
            let at = self.scratch(slot)?;
            self.asm.store(Size::U64, R6, at, R1);
            let known = self.value(right, slot + 1)?;
            self.second(known, slot + 1, hidden)?;
            self.asm.load(Size::U64, R1, R6, at);
        } else {
            self.value(right, slot)?;
            let at = self.scratch(slot)?;
            self.asm.store(Size::U64, R6, at, R1);
            if hidden {
                self.hidden(left, slot + 1)?;
            } else {
                self.value(left, slot + 1)?;
            }
            self.asm.load(Size::U64, R2, R6, at);
        }
        Ok(R2.into())
    }

    /// `R2 = R1`, hidden from the verifier if asked.
    fn second(&mut self, known: Knowledge, slot: usize, hide: bool) -> Result<(), GenerateError> {
        if hide && known == Knowledge::Some {
            let at = self.scratch(slot)?;
            self.asm.store(Size::U64, R6, at, R1);
            self.asm.load(Size::U64, R2, R6, at);
        } else {
            self.asm.mov(R2, R1);
        }
        Ok(())
    }

    fn leaf_operand(&mut self, leaf: Leaf) -> Operand {
        if let Leaf::Const(value) = leaf {
            self.number(value, R2)
        } else {
            self.leaf(leaf, R2);
            R2.into()
        }
    }

    /// The number as an operand: an immediate, or in `reg` if it is too large.
    pub(super) fn number(&mut self, value: u64, reg: Reg) -> Operand {
        match i32::try_from(value) {
            Ok(imm) => imm.into(),
            Err(_) => {
                self.asm.constant(reg, value);
                reg.into()
            }
        }
    }

    /// `dst` = a leaf; `R0` is lost.
    fn leaf(&mut self, leaf: Leaf, dst: Reg) {
        let at = match leaf {
            Leaf::Const(value) => return self.asm.constant(dst, value),
            Leaf::Signal(signal) => signal_at(signal),
            Leaf::Place(Place::Var(var)) => self.variable_at(var),
            Leaf::Place(Place::Cwnd) => CWND,
            Leaf::Place(Place::Rate) => RATE,
            Leaf::Place(Place::Micros) => {
                self.asm.load(Size::U64, dst, R6, signal_at(Signal::Now));
                self.asm.load(Size::U64, R0, R6, TIMER_ZERO);
                return self.asm.alu(Alu::Sub, dst, R0);
            }
        };
        self.asm.load(Size::U64, dst, R6, at);
    }

    /// Evaluates each into a scratch slot, the deepest first, and tells their offsets.
    pub(super) fn park<const N: usize>(
        &mut self,
        exprs: [&Expr; N],
        slot: usize,
    ) -> Result<[i16; N], GenerateError> {
        let mut order: [usize; N] = std::array::from_fn(|i| i);
        order.sort_by_key(|&i| std::cmp::Reverse(depth(exprs[i])));
        let mut at = [0; N];
        for (taken, i) in order.into_iter().enumerate() {
            self.value(exprs[i], slot + taken)?;
            at[i] = self.scratch(slot + taken)?;
            self.asm.store(Size::U64, R6, at[i], R1);
        }
        Ok(at)
    }

    pub(super) fn variable_at(&self, VarId(at): VarId) -> i16 {
        self.layout.variable(at.into()) as i16
    }

    pub(super) fn scratch(&self, slot: usize) -> Result<i16, GenerateError> {
        match self.layout.scratch(slot) {
            Some(at) => Ok(at as i16),
            None => Err(GenerateError::TooDeep),
        }
    }
}

/// Offset of a signal.
pub(super) const fn signal_at(signal: Signal) -> i16 {
    SIGNALS + 8 * signal as i16
}

/// An expression that is a load or two.
#[derive(Clone, Copy)]
enum Leaf {
    Const(u64),
    Place(Place),
    Signal(Signal),
}

impl Leaf {
    const fn of(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Const(value, _) => Some(Self::Const(*value)),
            Expr::Place(place) => Some(Self::Place(*place)),
            Expr::Signal(signal) => Some(Self::Signal(*signal)),
            _ => None,
        }
    }
}

/// How many scratch slots the value needs when the deeper operand always goes first (Sethi and
/// Ullman): at most the logarithm of its size.
fn depth(expr: &Expr) -> usize {
    match expr {
        Expr::Const(..) | Expr::Place(_) | Expr::Signal(_) => 0,
        Expr::Binary(_, left, right)
        | Expr::Compare(_, left, right)
        | Expr::And(left, right)
        | Expr::Or(left, right) => both(depth(left), depth(right)).max(1),
        Expr::Scale { value, .. } | Expr::Not(value) => depth(value).max(1),
        Expr::Ewma { weight, old, new } => {
            let mut needs = [depth(weight), depth(old), depth(new)];
            needs.sort_unstable_by(|a, b| b.cmp(a));
            needs[0].max(needs[1] + 1).max(needs[2] + 2).max(3)
        }
        Expr::If {
            condition,
            then,
            otherwise,
        } => depth(condition).max(depth(then)).max(depth(otherwise)),
    }
}

const fn both(left: usize, right: usize) -> usize {
    if left == right {
        left + 1
    } else if left > right {
        left
    } else {
        right
    }
}

/// The jump that is taken when the comparison is `when`.
const fn condition(op: Comparison, when: bool) -> Cond {
    match (op, when) {
        (Comparison::Eq, true) | (Comparison::Ne, false) => Cond::Eq,
        (Comparison::Ne, true) | (Comparison::Eq, false) => Cond::Ne,
        (Comparison::Lt, true) | (Comparison::Ge, false) => Cond::Lt,
        (Comparison::Le, true) | (Comparison::Gt, false) => Cond::Le,
        (Comparison::Gt, true) | (Comparison::Le, false) => Cond::Gt,
        (Comparison::Ge, true) | (Comparison::Lt, false) => Cond::Ge,
    }
}
