//! Constant folding: what can be computed now costs nothing per ACK.

use crate::arith;
use fairwater_lang::{Binary, Expr, Type};

/// The same value by fewer operations.
pub(crate) fn fold(expr: &Expr) -> Expr {
    match expr {
        Expr::Const(..) | Expr::Place(_) | Expr::Signal(_) => expr.clone(),
        Expr::Binary(op, left, right) => binary(*op, fold(left), fold(right)),
        Expr::Scale { value, num, den } => match fold(value) {
            Expr::Const(v, ty) => Expr::Const(arith::scale(v, *num, *den), ty),
            value => Expr::Scale {
                value: Box::new(value),
                num: *num,
                den: *den,
            },
        },
        Expr::Ewma { weight, old, new } => Expr::Ewma {
            weight: Box::new(fold(weight)),
            old: Box::new(fold(old)),
            new: Box::new(fold(new)),
        },
        Expr::Compare(op, left, right) => match (fold(left), fold(right)) {
            (Expr::Const(l, _), Expr::Const(r, _)) => boolean(arith::compare(*op, l, r)),
            (left, right) => Expr::Compare(*op, Box::new(left), Box::new(right)),
        },
        Expr::And(left, right) => match (fold(left), fold(right)) {
            (Expr::Const(0, _), _) | (_, Expr::Const(0, _)) => boolean(false),
            (Expr::Const(..), other) | (other, Expr::Const(..)) => other,
            (left, right) => Expr::And(Box::new(left), Box::new(right)),
        },
        Expr::Or(left, right) => match (fold(left), fold(right)) {
            (Expr::Const(0, _), other) | (other, Expr::Const(0, _)) => other,
            (Expr::Const(..), _) | (_, Expr::Const(..)) => boolean(true),
            (left, right) => Expr::Or(Box::new(left), Box::new(right)),
        },
        Expr::Not(inner) => match fold(inner) {
            Expr::Const(v, _) => boolean(v == 0),
            Expr::Not(inner) => *inner,
            inner => Expr::Not(Box::new(inner)),
        },
        Expr::If {
            condition,
            then,
            otherwise,
        } => match fold(condition) {
            Expr::Const(0, _) => fold(otherwise),
            Expr::Const(..) => fold(then),
            condition => Expr::If {
                condition: Box::new(condition),
                then: Box::new(fold(then)),
                otherwise: Box::new(fold(otherwise)),
            },
        },
    }
}

fn binary(op: Binary, left: Expr, right: Expr) -> Expr {
    match (op, left, right) {
        (_, Expr::Const(l, ty), Expr::Const(r, _)) => Expr::Const(arith::binary(op, l, r), ty),
        // A constant on the right becomes an immediate operand.
        (Binary::Add | Binary::Mul | Binary::Min | Binary::Max, left @ Expr::Const(..), right) => {
            Expr::Binary(op, Box::new(right), Box::new(left))
        }
        (op, left, right) => Expr::Binary(op, Box::new(left), Box::new(right)),
    }
}

const fn boolean(holds: bool) -> Expr {
    Expr::Const(holds as u64, Type::Bool)
}
