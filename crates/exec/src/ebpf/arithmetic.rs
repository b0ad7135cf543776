//! Arithmetic on values that are in registers already. `R0` and `R3`–`R5` are scratch.

use super::expr::{ComparisonNeed, Emitter};
use super::generate::GenerateError;
use super::insn::{Alu, Cond, Operand, Reg, Size};
use crate::arith::MAX_TIMER;
use fairwater_lang::{Binary, Expr};

use Reg::{R0, R1, R2, R3, R4, R5, R6};

impl Emitter<'_> {
    /// `R1 = R1 op right`.
    pub(super) fn binary(&mut self, op: Binary, right: Operand) {
        match op {
            Binary::Add => self.add(R1, right),
            Binary::Sub => {
                self.keep_or(Cond::Ge, right);
                self.asm.alu(Alu::Sub, R1, right);
            }
            Binary::Mul => match right {
                Operand::Reg(right) => self.multiply(R1, right),
                Operand::Imm(by) => self.multiply_by(R1, by.cast_unsigned()),
            },
            Binary::Div => match right {
                // The verifier refuses a division by an immediate 0.
                Operand::Imm(0) => self.asm.mov(R1, 0),
                Operand::Imm(by) => self.divide_by(R1, by.cast_unsigned()),
                Operand::Reg(_) => self.asm.alu(Alu::Div, R1, right),
            },
            Binary::Min => self.keep_or(Cond::Le, right),
            Binary::Max => self.keep_or(Cond::Ge, right),
            Binary::WrappedMax => {
                let end = self.asm.label();
                self.asm.mov(R0, R1);
                self.asm.alu32(Alu::Sub, R0, right);
                self.asm.jump_if32(Cond::Sge, R0, 0, end);
                self.asm.mov(R1, right);
                self.asm.bind(end);
            }
        }
    }

    /// `R1 = right` unless `R1 cond right`.
    fn keep_or(&mut self, cond: Cond, right: Operand) {
        let end = self.asm.label();
        self.asm.jump_if(cond, R1, right, end);
        self.asm.mov(R1, right);
        self.asm.bind(end);
    }

    /// Makes the word of the frame at `at`, which is `old`, the less or the greater of itself and
    /// `new`: stores only if it changes.
    pub(super) fn limit_place(
        &mut self,
        at: i16,
        op: Binary,
        old: &Expr,
        new: &Expr,
    ) -> Result<(), GenerateError> {
        let end = self.asm.label();
        let (keep, replace) = match op {
            Binary::Min => (Cond::Le, Cond::Ge),
            _ => (Cond::Ge, Cond::Le),
        };
        let (_, right, swapped) = self.compared(old, new, 0)?;
        if swapped {
            self.asm.jump_if(replace, R1, right, end);
            self.asm.store(Size::U64, R6, at, R1);
        } else {
            self.asm.jump_if(keep, R1, right, end);
            self.asm.store(Size::U64, R6, at, right);
        }
        self.asm.meet(end);
        Ok(())
    }

    /// `dst += right`, saturating, without a branch. `R0` and `R3` are lost.
    ///
    /// It wrapped if both had the highest bit, or one had it and the sum does not.
    fn add(&mut self, dst: Reg, right: Operand) {
        self.asm.mov(R0, dst);
        self.asm.alu(Alu::Xor, R0, right);
        self.asm.alu(Alu::Add, dst, right);
        self.asm.mov(R3, dst);
        self.asm.alu(Alu::Xor, R3, -1);
        self.asm.alu(Alu::Xor, R3, right);
        self.asm.alu(Alu::And, R0, R3);
        self.asm.alu(Alu::Xor, R0, right);
        self.asm.alu(Alu::Arsh, R0, 63);
        self.asm.alu(Alu::Or, dst, R0);
    }

    /// `R1 = R1 min by` or `R1 max by`, without a branch, where both are less than 2⁶³. `R0` is
    /// lost.
    pub(super) fn limit(&mut self, op: Binary, by: i32) {
        self.asm.alu(Alu::Sub, R1, by);
        self.asm.mov(R0, R1);
        self.asm.alu(Alu::Arsh, R0, 63);
        if op == Binary::Max {
            self.asm.alu(Alu::Xor, R0, -1);
        }
        self.asm.alu(Alu::And, R1, R0);
        self.asm.alu(Alu::Add, R1, by);
    }

    /// `left *= right`, saturating. Divides only if either has more than 32 bits, and then sees
    /// as [`multiply_by`](Self::multiply_by) does whether it wrapped. `R0` and `R4` are lost, and
    /// `right`.
    fn multiply(&mut self, left: Reg, right: Reg) {
        let end = self.asm.label();
        self.asm.mov(R4, left);
        self.asm.mov(R0, left);
        self.asm.alu(Alu::Or, R0, right);
        self.asm.alu(Alu::Rsh, R0, 32);
        self.asm.alu(Alu::Mul, left, right);
        self.asm.jump_if(Cond::Eq, R0, 0, end);
        self.asm.mov(R0, -1);
        self.asm.alu(Alu::Div, R0, right);
        self.asm.alu(Alu::Sub, R0, R4);
        self.asm.alu(Alu::Or, R0, R4);
        // By 0 and 1 it cannot wrap: the negative of a half is then 0.
        self.asm.alu(Alu::Rsh, right, 1);
        self.asm.negate(right);
        self.asm.alu(Alu::And, R0, right);
        self.asm.alu(Alu::Arsh, R0, 63);
        self.asm.alu(Alu::Or, left, R0);
        self.asm.bind(end);
    }

    /// `dst *= by`, saturating, without a branch. `R0` and `R3` are lost.
    ///
    /// It wraps if `dst` is more than `most = u64::MAX / by`, which is less than 2⁶³ for `by` ≥ 2:
    /// then `dst` has the highest bit, or else `most - dst` has it.
    fn multiply_by(&mut self, dst: Reg, by: u32) {
        match by {
            0 => self.asm.mov(dst, 0),
            1 => {}
            2 => {
                self.asm.mov(R0, dst);
                self.asm.alu(Alu::Arsh, R0, 63);
                self.asm.alu(Alu::Lsh, dst, 1);
                self.asm.alu(Alu::Or, dst, R0);
            }
            _ => {
                self.asm.constant(R0, u64::MAX / u64::from(by));
                self.asm.alu(Alu::Sub, R0, dst);
                self.asm.alu(Alu::Or, R0, dst);
                self.asm.alu(Alu::Arsh, R0, 63);
                if by.is_power_of_two() {
                    self.asm.alu(Alu::Lsh, dst, by.trailing_zeros() as i32);
                } else {
                    let by = self.number(by.into(), R3);
                    self.asm.alu(Alu::Mul, dst, by);
                }
                self.asm.alu(Alu::Or, dst, R0);
            }
        }
    }

    /// `dst /= by`, which is not 0. `R4` is lost.
    fn divide_by(&mut self, dst: Reg, by: u32) {
        if by.is_power_of_two() {
            self.asm.alu(Alu::Rsh, dst, by.trailing_zeros() as i32);
        } else {
            let by = self.number(by.into(), R4);
            self.asm.alu(Alu::Div, dst, by);
        }
    }

    /// `R1 = floor(R1 × num / den)`, saturating.
    ///
    /// With `R1 = q·den + r` that is `q·num + floor(r·num / den)`, and `r·num` fits 64 bits.
    pub(super) fn scale(&mut self, num: u32, den: u32) {
        if den <= 1 || num == 0 {
            return self.multiply_by(R1, num);
        }
        let (slow, full, end) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.asm.mov(R0, R1);
        self.asm.alu(Alu::Rsh, R0, 32);
        self.asm.jump_if(Cond::Ne, R0, 0, slow);
        let factor = self.number(num.into(), R3);
        self.asm.alu(Alu::Mul, R1, factor);
        self.divide_by(R1, den);
        self.asm.jump(end);

        self.asm.bind(slow);
        let factor = self.number(num.into(), R3);
        let divisor = self.number(den.into(), R4);
        self.asm.mov(R0, R1);
        self.asm.alu(Alu::Div, R0, divisor);
        self.asm.alu(Alu::Mod, R1, divisor);
        self.asm.alu(Alu::Mul, R1, factor);
        self.asm.alu(Alu::Div, R1, divisor);
        if num > den {
            self.asm.constant(R2, u64::MAX / u64::from(num));
            self.asm.jump_if(Cond::Gt, R0, R2, full);
        }
        self.asm.alu(Alu::Mul, R0, factor);
        self.asm.alu(Alu::Add, R1, R0);
        if num > den {
            self.asm.jump_if(Cond::Ge, R1, R0, end);
            self.asm.bind(full);
            self.asm.mov(R1, -1);
        }
        self.asm.bind(end);
    }

    pub(super) fn ewma(
        &mut self,
        weight: &Expr,
        old: &Expr,
        new: &Expr,
        slot: usize,
    ) -> Result<(), GenerateError> {
        if let Expr::Const(weight, _) = weight {
            let (_, right) = self.operands(old, new, slot, ComparisonNeed::Unknown)?;
            if right != Operand::Reg(R2) {
                self.asm.mov(R2, right);
            }
            self.ewma_by(*weight);
            return Ok(());
        }
        let [weight, old, new] = self.park([weight, old, new], slot)?;
        let (first, end) = (self.asm.label(), self.asm.label());
        self.asm.load(Size::U64, R1, R6, weight);
        self.keep_or(Cond::Le, 10.into());
        // The verifier is not to follow which of the two it is.
        self.asm.store(Size::U64, R6, weight, R1);
        self.asm.load(Size::U64, R4, R6, weight);
        self.asm.mov(R5, 10);
        self.asm.alu(Alu::Sub, R5, R4);
        self.asm.load(Size::U64, R2, R6, new);
        self.asm.load(Size::U64, R1, R6, old);
        self.asm.jump_if(Cond::Eq, R1, 0, first);
        self.large_average(R4.into(), R5.into());
        self.asm.jump(end);
        self.asm.bind(first);
        self.asm.mov(R1, R2);
        self.asm.bind(end);
        Ok(())
    }

    /// `R1` = the average of the old `R1` and the new `R2` by a constant weight.
    fn ewma_by(&mut self, weight: u64) {
        let weight = weight.min(10) as i32;
        let rest = 10 - weight;
        let (first, large, end) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.asm.jump_if(Cond::Eq, R1, 0, first);
        // Below 2⁶⁰ no product wraps around, and neither does their sum, at most 10·2⁶⁰ < 2⁶⁴.
        self.asm.mov(R0, R1);
        self.asm.alu(Alu::Or, R0, R2);
        self.asm.alu(Alu::Rsh, R0, 60);
        self.asm.jump_if(Cond::Ne, R0, 0, large);
        self.asm.alu(Alu::Mul, R1, weight);
        self.asm.alu(Alu::Mul, R2, rest);
        self.asm.alu(Alu::Add, R1, R2);
        self.asm.alu(Alu::Div, R1, 10);
        self.asm.jump(end);
        self.asm.bind(large);
        self.large_average(weight.into(), rest.into());
        self.asm.jump(end);
        self.asm.bind(first);
        self.asm.mov(R1, R2);
        self.asm.bind(end);
    }

    /// `R1` = the average of the old `R1` and the new `R2` by their weights, whose sum is 10. `R0`,
    /// `R2` and `R3` are lost.
    ///
    /// With `R1 = 10·q + r` and `R2 = 10·s + t` it is the weighted sum of `q` and `s`, and a tenth of
    /// that of `r` and `t`; no product wraps around.
    fn large_average(&mut self, weight: Operand, rest: Operand) {
        self.asm.mov(R0, R1);
        self.asm.alu(Alu::Div, R0, 10);
        self.asm.alu(Alu::Mod, R1, 10);
        self.asm.mov(R3, R2);
        self.asm.alu(Alu::Div, R3, 10);
        self.asm.alu(Alu::Mod, R2, 10);
        for (old, new) in [(R0, R3), (R1, R2)] {
            self.asm.alu(Alu::Mul, old, weight);
            self.asm.alu(Alu::Mul, new, rest);
            self.asm.alu(Alu::Add, old, new);
        }
        self.asm.alu(Alu::Div, R1, 10);
        self.asm.alu(Alu::Add, R1, R0);
    }

    /// `R1` = what an assignment of `R1` to `Micros` makes the timer read. `R0` is lost.
    pub(super) fn timer(&mut self) {
        self.asm.constant(R0, MAX_TIMER);
        self.keep_or(Cond::Le, R0.into());
    }
}
