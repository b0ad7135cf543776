//! What is known of an expression before any instruction is emitted for it.

use fairwater_lang::{Binary, Comparison, Expr, Type};

use super::flatten::LARGEST;

/// Whether `left` is never less than `right`.
pub(super) fn is_at_least(left: &Expr, right: &Expr) -> bool {
    match (left, right) {
        (Expr::Const(left, _), Expr::Const(right, _)) => left >= right,
        (Expr::Binary(Binary::Max, a, b), _) if **a == *right || **b == *right => true,
        (_, Expr::Binary(Binary::Min, a, b)) => is_at_least(left, a) || is_at_least(left, b),
        (_, Expr::Binary(Binary::Div, whole, _)) if **whole == *left => true,
        (_, Expr::Scale { value, num, den }) => **value == *left && num <= den,
        (_, Expr::Const(0, _)) => true,
        (_, Expr::Const(1, _)) => is_positive(left),
        _ => left == right,
    }
}

/// Whether [`Code::truth`] tells whether the boolean does not hold.
pub(super) fn negated(boolean: &Expr) -> bool {
    match boolean {
        Expr::Compare(op, _, bound) => match (op, &**bound) {
            (Comparison::Ge, Expr::Const(1..=LARGEST, Type::Num))
            | (Comparison::Le, Expr::Const(0..LARGEST, Type::Num)) => false,
            _ => matches!(op, Comparison::Ne | Comparison::Ge | Comparison::Le),
        },
        Expr::Not(inner) => !negated(inner),
        Expr::And(left, right) => negated(left) && negated(right),
        Expr::Or(left, right) => negated(left) || negated(right),
        _ => false,
    }
}

/// What two comparisons compare with one constant, if both ask whether it is more.
pub(super) fn above_one_bound<'e>(
    left: &'e Expr,
    right: &'e Expr,
) -> Option<(&'e Expr, &'e Expr, &'e Expr)> {
    match (left, right) {
        (Expr::Compare(Comparison::Gt, a, bound), Expr::Compare(Comparison::Gt, b, other))
            if bound == other && matches!(**bound, Expr::Const(..)) =>
        {
            Some((a, b, bound))
        }
        _ => None,
    }
}

/// Whether the number is never 0.
pub(super) fn is_positive(expr: &Expr) -> bool {
    match expr {
        Expr::Const(value, _) => *value > 0,
        Expr::Binary(Binary::Max | Binary::Add, a, b) => is_positive(a) || is_positive(b),
        Expr::Binary(Binary::Mul | Binary::Min, a, b) => is_positive(a) && is_positive(b),
        Expr::If {
            then, otherwise, ..
        } => is_positive(then) && is_positive(otherwise),
        _ => false,
    }
}

/// Scratch registers that an expression needs, its operands taken in the best order.
pub(super) fn scratch(expr: &Expr) -> u32 {
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
