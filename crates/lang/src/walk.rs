//! Walks over programs.

use crate::program::{Event, Expr, Stmt};
use crate::signal::SignalSet;

/// The signals that the events read.
pub(crate) fn signals(events: &[Event]) -> SignalSet {
    let mut set = SignalSet::EMPTY;
    for event in events {
        nodes(event, &mut |expr| {
            if let Expr::Signal(signal) = expr {
                set.insert(*signal);
            }
        });
    }
    set
}

/// The statements and expression nodes of an event, the event itself counted as one.
pub(crate) fn size(event: &Event) -> usize {
    let mut expressions = 0;
    let statements = nodes(event, &mut |_| expressions += 1);
    1 + statements + expressions
}

/// Visits every expression node of an event; yields how many statements there are.
fn nodes(event: &Event, visit: &mut impl FnMut(&Expr)) -> usize {
    expression(&event.condition, visit);
    statements(&event.prelude, visit) + statements(&event.body, visit)
}

fn statements(list: &[Stmt], visit: &mut impl FnMut(&Expr)) -> usize {
    let mut count = list.len();
    for statement in list {
        match statement {
            Stmt::Assign(_, value) => expression(value, visit),
            Stmt::If {
                condition,
                then,
                otherwise,
            } => {
                expression(condition, visit);
                count += statements(then, visit) + statements(otherwise, visit);
            }
            Stmt::Report | Stmt::Fallthrough => {}
        }
    }
    count
}

fn expression(expr: &Expr, visit: &mut impl FnMut(&Expr)) {
    visit(expr);
    match expr {
        Expr::Const(..) | Expr::Place(_) | Expr::Signal(_) => {}
        Expr::Scale { value, .. } | Expr::Not(value) => expression(value, visit),
        Expr::Binary(_, a, b) | Expr::Compare(_, a, b) | Expr::And(a, b) | Expr::Or(a, b) => {
            expression(a, visit);
            expression(b, visit);
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
        } => {
            expression(a, visit);
            expression(b, visit);
            expression(c, visit);
        }
    }
}
