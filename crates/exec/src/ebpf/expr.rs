//! Expressions: each leaves its value in `R1`; `R0` and `R2`–`R5` are scratch.
//!
//! An intermediate value waits for others in the frame's scratch slots, not on the stack, and
//! comes back from there before anything branches on it that the verifier could decide. It knows
//! nothing of what it loads from a map; its states merge after each branch, and its work stays
//! linear in the length of the program. Were it to follow values (a limited one is a constant,
//! say), it would have to tell apart every combination of the paths that led to them.
//!
//! The verifier follows both sides of a branch, so there is none where a few operations do.

use super::asm::{Asm, Label};
use super::generate::GenerateError;
use super::insn::{Alu, Cond, Operand, Reg, Size};
use crate::frame::{CWND, FrameLayout, RATE, SIGNALS, TIMER_ZERO};
use fairwater_lang::{Binary, Comparison, Expr, Place, Signal, VarId};

use Reg::{R0, R1, R2, R6};

/// What the verifier can know of a value in a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Knowledge {
    /// Nothing: it comes straight from the frame, or from arithmetic that it does not follow.
    None,
    /// That it is between 0 and this, which is not 0.
    UpTo(u64),
    /// That it is not one of the least or the greatest values, on some path to here.
    NotExtreme,
    /// Perhaps all.
    Some,
}

impl Knowledge {
    /// Whether it is more than it may be beside `other`, of which the verifier knows nothing
    /// unless it is a constant.
    fn must_be_hidden(self, want: ComparisonNeed, other: &Expr) -> bool {
        match (want, self, other) {
            (ComparisonNeed::Any, ..) | (_, Self::None, _) => false,
            (ComparisonNeed::Unknown, ..) | (_, Self::Some, _) => true,
            (ComparisonNeed::Open, Self::UpTo(most), Expr::Const(other, _)) => {
                !(1..most).contains(other)
            }
            (ComparisonNeed::Open, Self::NotExtreme, Expr::Const(..)) => true,
            (ComparisonNeed::Open, Self::UpTo(_) | Self::NotExtreme, _) => false,
        }
    }
}

/// What has to be so of two operands for the verifier to decide no branch on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ComparisonNeed {
    /// Anything: there is no branch.
    Any,
    /// It cannot tell how they compare.
    Open,
    /// It knows nothing of either, constants excepted.
    Unknown,
}

/// Emits expressions.
pub(super) struct Emitter<'a> {
    pub(super) asm: &'a mut Asm,
    pub(super) layout: FrameLayout,
    /// How many scratch slots have been used at a time.
    pub(super) slots: usize,
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
                if let Binary::Min | Binary::Max = op {
                    return self.extreme(*op, left, right, slot);
                }
                let want = match op {
                    Binary::Add | Binary::Div => ComparisonNeed::Any,
                    Binary::Mul if matches!(**right, Expr::Const(..)) => ComparisonNeed::Any,
                    _ => ComparisonNeed::Unknown,
                };
                let (known, operand) = self.operands(left, right, slot, want)?;
                self.binary(*op, operand);
                Ok(known_of(*op, known, left, right))
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
                Ok(match (known_then, known_otherwise) {
                    (Knowledge::None, known) | (known, Knowledge::None) => known,
                    (then, otherwise) if then == otherwise => then,
                    _ => Knowledge::Some,
                })
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
                let (_, right, swapped) = self.compared(left, right, slot)?;
                let cond = condition(if swapped { mirrored(*op) } else { *op }, when);
                self.asm.jump_if(cond, R1, right, to);
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
    pub(super) fn hidden(&mut self, expr: &Expr, slot: usize) -> Result<(), GenerateError> {
        let known = self.value(expr, slot)?;
        self.hide(known, slot)
    }

    /// Makes the verifier forget what it knows of `R1`.
    fn hide(&mut self, known: Knowledge, slot: usize) -> Result<(), GenerateError> {
        if known != Knowledge::None {
            let at = self.scratch(slot)?;
            self.asm.store(Size::U64, R6, at, R1);
            self.asm.load(Size::U64, R1, R6, at);
        }
        Ok(())
    }

    /// `R1` = the left value, of which that is known then; the right one is in the operand, `R2`
    /// or an immediate.
    pub(super) fn operands(
        &mut self,
        left: &Expr,
        right: &Expr,
        slot: usize,
        want: ComparisonNeed,
    ) -> Result<(Knowledge, Operand), GenerateError> {
        if let Some(leaf) = Leaf::of(right) {
            let mut known = self.value(left, slot)?;
            if !matches!(left, Expr::Const(..)) && known.must_be_hidden(want, right) {
                self.hide(known, slot)?;
                known = Knowledge::None;
            }
            return Ok((known, self.leaf_operand(leaf)));
        }
        if let Some(leaf) = Leaf::of(left) {
            let known = self.value(right, slot)?;
            self.second(known.must_be_hidden(want, left), slot)?;
            self.leaf(leaf, R1);
            let known = match left {
                Expr::Const(..) => Knowledge::Some,
                _ => Knowledge::None,
            };
            Ok((known, R2.into()))
        } else if depth(left) >= depth(right) {
            self.value(left, slot)?;
            let at = self.scratch(slot)?;
            self.asm.store(Size::U64, R6, at, R1);
            let known = self.value(right, slot + 1)?;
            self.second(known.must_be_hidden(want, left), slot + 1)?;
            self.asm.load(Size::U64, R1, R6, at);
            Ok((Knowledge::None, R2.into()))
        } else {
            self.value(right, slot)?;
            let at = self.scratch(slot)?;
            self.asm.store(Size::U64, R6, at, R1);
            let mut known = self.value(left, slot + 1)?;
            if known.must_be_hidden(want, right) {
                self.hide(known, slot + 1)?;
                known = Knowledge::None;
            }
            self.asm.load(Size::U64, R2, R6, at);
            Ok((known, R2.into()))
        }
    }

    /// Operands that compare the same either way: in `R1` and the operand, and whether they are
    /// swapped there, which spares a move if only the right one has to be computed.
    pub(super) fn compared(
        &mut self,
        left: &Expr,
        right: &Expr,
        slot: usize,
    ) -> Result<(Knowledge, Operand, bool), GenerateError> {
        let swapped = Leaf::of(left).is_some() && Leaf::of(right).is_none();
        let (first, second) = if swapped {
            (right, left)
        } else {
            (left, right)
        };
        let (known, operand) = self.operands(first, second, slot, ComparisonNeed::Open)?;
        Ok((known, operand, swapped))
    }

    /// `R1` = the less or the greater of the two.
    fn extreme(
        &mut self,
        op: Binary,
        left: &Expr,
        right: &Expr,
        slot: usize,
    ) -> Result<Knowledge, GenerateError> {
        if let Expr::Const(by, _) = right
            && let Ok(by) = i32::try_from(*by)
            && !matches!(left, Expr::Const(..))
        {
            let known = self.value(left, slot)?;
            if let Knowledge::UpTo(..=0x7fff_ffff_ffff_ffff) = known {
                self.limit(op, by);
                return Ok(Knowledge::None);
            }
            if known.must_be_hidden(ComparisonNeed::Open, right) {
                self.hide(known, slot)?;
            }
            self.binary(op, by.into());
            return Ok(known_of(op, Knowledge::None, left, right));
        }
        let (known, operand, swapped) = self.compared(left, right, slot)?;
        self.binary(op, operand);
        let (left, right) = if swapped {
            (right, left)
        } else {
            (left, right)
        };
        Ok(known_of(op, known, left, right))
    }

    /// `R2 = R1`, hidden from the verifier if asked.
    fn second(&mut self, hide: bool, slot: usize) -> Result<(), GenerateError> {
        if hide {
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

    pub(super) fn scratch(&mut self, slot: usize) -> Result<i16, GenerateError> {
        self.slots = self.slots.max(slot + 1);
        match self.layout.scratch(slot) {
            Some(at) => Ok(at as i16),
            None => Err(GenerateError::TooDeep),
        }
    }
}

/// What is known of `left op right` when that is known of the left one in its register.
fn known_of(op: Binary, known: Knowledge, left: &Expr, right: &Expr) -> Knowledge {
    if matches!(left, Expr::Const(..)) {
        return Knowledge::Some;
    }
    match (op, right) {
        (Binary::Mul, Expr::Const(0, _)) => Knowledge::Some,
        (Binary::Mul, _) => Knowledge::None,
        (Binary::Div, &Expr::Const(by, _)) if known == Knowledge::None && by > 0 => {
            Knowledge::UpTo(u64::MAX / by)
        }
        (Binary::Min | Binary::Max, Expr::Const(0 | u64::MAX, _)) => Knowledge::Some,
        (Binary::Min | Binary::Max, _) => Knowledge::NotExtreme,
        _ => Knowledge::Some,
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

/// The comparison with its sides swapped.
const fn mirrored(op: Comparison) -> Comparison {
    match op {
        Comparison::Lt => Comparison::Gt,
        Comparison::Le => Comparison::Ge,
        Comparison::Gt => Comparison::Lt,
        Comparison::Ge => Comparison::Le,
        Comparison::Eq | Comparison::Ne => op,
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
