//! Expressions as values, and conditions as branches.
//!
//! Expressions are pure and nothing in them can trap, so what is cheap is computed whether or not
//! it is needed, and selected afterwards.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value, types};
use fairwater_lang::{Binary, Comparison, Expr, Type};

use super::places::Lower;

impl Lower<'_, '_> {
    /// The value, of 64 bits; a boolean is 0 or 1.
    pub(super) fn value(&mut self, expr: &Expr) -> Value {
        match expr {
            Expr::Const(value, _) => self.number(*value),
            Expr::Place(place) => self.read(*place),
            Expr::Signal(signal) => self.signal(*signal),
            Expr::Binary(op, left, right) => {
                let left = self.value(left);
                match **right {
                    Expr::Const(right, _) => self.binary_by(*op, left, right),
                    _ => {
                        let right = self.value(right);
                        self.binary(*op, left, right)
                    }
                }
            }
            Expr::Scale { value, num, den } => {
                let value = self.value(value);
                self.scale(value, *num, *den)
            }
            Expr::Ewma { weight, old, new } => {
                let (old, new) = (self.value(old), self.value(new));
                match **weight {
                    Expr::Const(weight, _) => self.ewma_by(weight, old, new),
                    _ => {
                        let weight = self.value(weight);
                        self.ewma(weight, old, new)
                    }
                }
            }
            Expr::Compare(..) | Expr::And(..) | Expr::Or(..) | Expr::Not(_) => {
                let holds = self.truth(expr);
                self.ir.ins().uextend(types::I64, holds)
            }
            Expr::If {
                condition,
                then,
                otherwise,
            } => {
                let holds = self.truth(condition);
                if is_cheap(then) && is_cheap(otherwise) {
                    let (then, otherwise) = (self.value(then), self.value(otherwise));
                    self.ir.ins().select(holds, then, otherwise)
                } else {
                    self.choose(holds, |l| l.value(then), |l| l.value(otherwise))
                }
            }
        }
    }

    /// Whether the boolean holds: 8 bits, 0 or 1.
    fn truth(&mut self, expr: &Expr) -> Value {
        match expr {
            Expr::Compare(op, left, right) => {
                let (left, right) = (self.value(left), self.value(right));
                self.ir.ins().icmp(condition(*op), left, right)
            }
            Expr::And(left, right) => {
                let (left, right) = (self.truth(left), self.truth(right));
                self.ir.ins().band(left, right)
            }
            Expr::Or(left, right) => {
                let (left, right) = (self.truth(left), self.truth(right));
                self.ir.ins().bor(left, right)
            }
            Expr::Not(inner) => {
                let holds = self.truth(inner);
                self.ir.ins().bxor_imm_u(holds, 1)
            }
            _ => {
                let value = self.value(expr);
                self.ir.ins().icmp_imm_u(IntCC::NotEqual, value, 0)
            }
        }
    }

    /// Ends the block by going where the boolean says.
    pub(super) fn decide(&mut self, expr: &Expr, yes: Block, no: Block) {
        match expr {
            Expr::Const(0, _) => self.jump(no),
            Expr::Const(..) => self.jump(yes),
            Expr::Not(inner) => self.decide(inner, no, yes),
            Expr::And(left, right) => {
                let both = self.ir.create_block();
                self.decide(left, both, no);
                if self.enter(both) {
                    self.decide(right, yes, no);
                }
            }
            Expr::Or(left, right) => {
                let neither = self.ir.create_block();
                self.decide(left, yes, neither);
                if self.enter(neither) {
                    self.decide(right, yes, no);
                }
            }
            Expr::If {
                condition,
                then,
                otherwise,
            } => {
                let (first, second) = (self.ir.create_block(), self.ir.create_block());
                self.decide(condition, first, second);
                for (block, expr) in [(first, then), (second, otherwise)] {
                    if self.enter(block) {
                        self.decide(expr, yes, no);
                    }
                }
            }
            _ => {
                let holds = self.truth(expr);
                self.branch(holds, yes, no);
            }
        }
    }

    /// One of two values, of which the other is not computed.
    pub(super) fn choose(
        &mut self,
        condition: Value,
        then: impl FnOnce(&mut Self) -> Value,
        otherwise: impl FnOnce(&mut Self) -> Value,
    ) -> Value {
        let blocks = [(); 3].map(|()| self.ir.create_block());
        let [yes, no, after] = blocks;
        let chosen = self.ir.append_block_param(after, types::I64);
        self.branch(condition, yes, no);
        self.enter(yes);
        let value = then(self);
        self.ir.ins().jump(after, &[BlockArg::Value(value)]);
        self.arrive(after);
        self.enter(no);
        let value = otherwise(self);
        self.ir.ins().jump(after, &[BlockArg::Value(value)]);
        self.arrive(after);
        self.enter(after);
        chosen
    }
}

const fn condition(op: Comparison) -> IntCC {
    match op {
        Comparison::Eq => IntCC::Equal,
        Comparison::Ne => IntCC::NotEqual,
        Comparison::Lt => IntCC::UnsignedLessThan,
        Comparison::Le => IntCC::UnsignedLessThanOrEqual,
        Comparison::Gt => IntCC::UnsignedGreaterThan,
        Comparison::Ge => IntCC::UnsignedGreaterThanOrEqual,
    }
}

/// Whether a mispredicted branch would cost more than the value does.
fn is_cheap(expr: &Expr) -> bool {
    let is_leaf = |e: &Expr| matches!(e, Expr::Const(..) | Expr::Place(_) | Expr::Signal(_));
    match expr {
        Expr::Binary(op, left, right) => *op != Binary::Div && is_leaf(left) && is_leaf(right),
        Expr::Const(_, Type::Bool | Type::Num) => true,
        _ => is_leaf(expr),
    }
}
