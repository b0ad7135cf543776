//! What holds of a program whatever happens to it, so that it need not be checked each time.

use crate::fold::fold;
use fairwater_lang::{Binary, Event, Expr, Place, Program, Stmt};

/// Whether each invocation sets `Cwnd`, and never to 0.
pub(super) fn sets_positive_cwnd(program: &Program) -> bool {
    let sets = program.events.first().is_some_and(|first| {
        let body = match fold(&first.condition) {
            Expr::Const(condition, _) if condition != 0 => first.body.as_slice(),
            _ => &[],
        };
        let mut always = first.prelude.iter().chain(body);
        always.any(|statement| matches!(statement, Stmt::Assign(Place::Cwnd, _)))
    });
    let sound = |Event { prelude, body, .. }: &Event| only_positive(prelude) && only_positive(body);
    sets && program.events.iter().all(sound)
}

/// Whether no statement sets `Cwnd` to 0.
fn only_positive(statements: &[Stmt]) -> bool {
    statements.iter().all(|statement| match statement {
        Stmt::Assign(Place::Cwnd, value) => is_positive(&fold(value)),
        Stmt::If {
            then, otherwise, ..
        } => only_positive(then) && only_positive(otherwise),
        Stmt::Assign(..) | Stmt::Report | Stmt::Fallthrough => true,
    })
}

/// Whether the value is never 0, as far as its form tells.
fn is_positive(expr: &Expr) -> bool {
    match expr {
        Expr::Const(value, _) => *value != 0,
        Expr::Binary(Binary::Add | Binary::Max, left, right) => {
            is_positive(left) || is_positive(right)
        }
        Expr::Binary(Binary::Mul | Binary::Min, left, right) => {
            is_positive(left) && is_positive(right)
        }
        Expr::If {
            then, otherwise, ..
        } => is_positive(then) && is_positive(otherwise),
        _ => false,
    }
}
