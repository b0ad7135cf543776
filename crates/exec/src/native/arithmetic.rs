//! The language's arithmetic (see [`crate::arith`]) on values of 64 bits.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use fairwater_lang::Binary;

use super::places::Lower;
use crate::arith::MAX_TIMER;

impl Lower<'_, '_> {
    pub(super) fn binary(&mut self, op: Binary, left: Value, right: Value) -> Value {
        match op {
            Binary::Add => self.add(left, right),
            Binary::Sub => {
                let difference = self.ir.ins().isub(left, right);
                let zero = self.number(0);
                self.if_compares(IntCC::UnsignedLessThan, left, right, zero, difference)
            }
            Binary::Mul => {
                let low = self.ir.ins().imul(left, right);
                let high = self.ir.ins().umulhi(left, right);
                self.unless_any(high, low)
            }
            Binary::Div => {
                let zero = self.number(0);
                self.choose(right, |l| l.ir.ins().udiv(left, right), |_| zero)
            }
            Binary::Min => self.if_compares(IntCC::UnsignedLessThan, left, right, left, right),
            Binary::Max => self.if_compares(IntCC::UnsignedGreaterThan, left, right, left, right),
            Binary::WrappedMax => {
                let difference = self.ir.ins().isub(left, right);
                let low = self.ir.ins().ireduce(types::I32, difference);
                let zero = self.ir.ins().iconst(types::I32, 0);
                self.if_compares(IntCC::SignedGreaterThanOrEqual, low, zero, left, right)
            }
        }
    }

    /// The same by a constant.
    pub(super) fn binary_by(&mut self, op: Binary, left: Value, right: u64) -> Value {
        match op {
            Binary::Mul => self.multiply_by(left, right),
            Binary::Div => self.divide_by(left, right),
            _ => {
                let right = self.number(right);
                self.binary(op, left, right)
            }
        }
    }

    /// `floor(value × num / den)`, saturating; 0 when `den` is 0.
    pub(super) fn scale(&mut self, value: Value, num: u32, den: u32) -> Value {
        match den {
            0 => self.number(0),
            1 => self.multiply_by(value, num.into()),
            _ if den.is_power_of_two() => self.scale_by_power(value, num, den.trailing_zeros()),
            _ => {
                let high = self.ir.ins().ushr_imm_u(value, 32);
                self.choose(
                    high,
                    |l| l.scale_large(value, num, den),
                    |l| {
                        let product = l.ir.ins().imul_imm_u(value, i64::from(num));
                        l.divide_by(product, den.into())
                    },
                )
            }
        }
    }

    /// The product is 96 bits at most; its bits from `shift` on are the result.
    fn scale_by_power(&mut self, value: Value, num: u32, shift: u32) -> Value {
        let by = self.number(num.into());
        let low = self.ir.ins().imul(value, by);
        let high = self.ir.ins().umulhi(value, by);
        let beyond = self.ir.ins().ushr_imm_u(high, i64::from(shift));
        let high = self.ir.ins().ishl_imm_u(high, i64::from(64 - shift));
        let low = self.ir.ins().ushr_imm_u(low, i64::from(shift));
        let scaled = self.ir.ins().bor(high, low);
        self.unless_any(beyond, scaled)
    }

    /// With `value = q·den + r` it is `q·num + floor(r·num / den)`, and `r·num` fits 64 bits.
    fn scale_large(&mut self, value: Value, num: u32, den: u32) -> Value {
        let quotient = self.divide_by(value, den.into());
        let whole = self.ir.ins().imul_imm_u(quotient, i64::from(den));
        let rest = self.ir.ins().isub(value, whole);
        let rest = self.ir.ins().imul_imm_u(rest, i64::from(num));
        let rest = self.divide_by(rest, den.into());
        let whole = self.multiply_by(quotient, num.into());
        self.add(whole, rest)
    }

    /// The average by a constant weight.
    pub(super) fn ewma_by(&mut self, weight: u64, old: Value, new: Value) -> Value {
        let weight = weight.min(10);
        let (kept, added) = (self.number(weight), self.number(10 - weight));
        self.average([kept, added], old, new)
    }

    pub(super) fn ewma(&mut self, weight: Value, old: Value, new: Value) -> Value {
        let ten = self.number(10);
        let kept = self.binary(Binary::Min, weight, ten);
        let added = self.ir.ins().isub(ten, kept);
        self.average([kept, added], old, new)
    }

    /// `new` if `old` is 0; else the average by the weights of the two, whose sum is 10.
    fn average(&mut self, weights: [Value; 2], old: Value, new: Value) -> Value {
        // Below 2⁶⁰ no product wraps around, and neither does their sum, at most 10·2⁶⁰ < 2⁶⁴.
        let either = self.ir.ins().bor(old, new);
        let high = self.ir.ins().ushr_imm_u(either, 60);
        let average = self.choose(
            high,
            |l| l.large_average(weights, old, new),
            |l| {
                let sum = l.weighted(weights, old, new);
                l.divide_by(sum, 10)
            },
        );
        self.ir.ins().select(old, average, new)
    }

    /// With `old = 10·q + r` and `new = 10·s + t` it is the weighted sum of `q` and `s`, and a tenth
    /// of that of `r` and `t`.
    fn large_average(&mut self, weights: [Value; 2], old: Value, new: Value) -> Value {
        let [(q, r), (s, t)] = [old, new].map(|value| {
            let quotient = self.divide_by(value, 10);
            let tens = self.ir.ins().imul_imm_u(quotient, 10);
            (quotient, self.ir.ins().isub(value, tens))
        });
        let whole = self.weighted(weights, q, s);
        let rest = self.weighted(weights, r, t);
        let rest = self.divide_by(rest, 10);
        self.ir.ins().iadd(whole, rest)
    }

    fn weighted(&mut self, [kept, added]: [Value; 2], old: Value, new: Value) -> Value {
        let kept = self.ir.ins().imul(old, kept);
        let added = self.ir.ins().imul(new, added);
        self.ir.ins().iadd(kept, added)
    }

    /// What an assignment of `value` to `Micros` makes the timer read.
    pub(super) fn timer(&mut self, value: Value) -> Value {
        let most = self.number(MAX_TIMER);
        self.binary(Binary::Min, value, most)
    }

    fn add(&mut self, left: Value, right: Value) -> Value {
        let sum = self.ir.ins().iadd(left, right);
        let full = self.number(u64::MAX);
        self.if_compares(IntCC::UnsignedLessThan, sum, left, full, sum)
    }

    fn multiply_by(&mut self, value: Value, by: u64) -> Value {
        if by == 0 {
            return self.number(0);
        }
        let factor = self.number(by);
        let product = self.ir.ins().imul(value, factor);
        let most = self.number(u64::MAX / by);
        let full = self.number(u64::MAX);
        self.if_compares(IntCC::UnsignedGreaterThan, value, most, full, product)
    }

    fn divide_by(&mut self, value: Value, by: u64) -> Value {
        if by == 0 {
            return self.number(0);
        }
        let divisor = self.number(by);
        self.ir.ins().udiv(value, divisor)
    }

    /// `value`, or the largest number if `excess` is not 0.
    fn unless_any(&mut self, excess: Value, value: Value) -> Value {
        let full = self.number(u64::MAX);
        self.ir.ins().select(excess, full, value)
    }

    fn if_compares(
        &mut self,
        compare: IntCC,
        a: Value,
        b: Value,
        then: Value,
        otherwise: Value,
    ) -> Value {
        let holds = self.ir.ins().icmp(compare, a, b);
        self.ir.ins().select(holds, then, otherwise)
    }
}
