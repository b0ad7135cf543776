//! Events as one event, for conditions that write what only bodies may.

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use fairwater_lang::{Event, Expr, Place, Stmt, Type};

use super::lift::Lift;

/// One event that does what `events` do in order. Two hidden booleans say whether an event has ended
/// the invocation, and whether none may because `(fallthrough)` ran.
pub(super) fn event(events: Vec<Event>, lift: &mut Lift<'_>) -> Event {
    let ended = Place::Var(lift.new_hidden("__ended".to_string(), Type::Bool));
    let falls = Place::Var(lift.new_hidden("__falls".to_string(), Type::Bool));
    let no = || Expr::Const(0, Type::Bool);
    let not = |place| Expr::Not(Box::new(Expr::Place(place)));
    let mut body = vec![Stmt::Assign(ended, no()), Stmt::Assign(falls, no())];
    for event in events {
        let mut then = marked(event.body, falls);
        then.push(Stmt::Assign(ended, not(falls)));
        let mut statements = event.prelude;
        statements.push(Stmt::If {
            condition: event.condition,
            then,
            otherwise: Vec::new(),
        });
        body.push(Stmt::If {
            condition: not(ended),
            then: statements,
            otherwise: Vec::new(),
        });
    }
    Event {
        prelude: Vec::new(),
        condition: Expr::Const(1, Type::Bool),
        body,
    }
}

/// The statements with each `(fallthrough)` noted instead.
fn marked(statements: Vec<Stmt>, falls: Place) -> Vec<Stmt> {
    let mark = |statement| match statement {
        Stmt::Fallthrough => Stmt::Assign(falls, Expr::Const(1, Type::Bool)),
        Stmt::If {
            condition,
            then,
            otherwise,
        } => Stmt::If {
            condition,
            then: marked(then, falls),
            otherwise: marked(otherwise, falls),
        },
        other => other,
    };
    statements.into_iter().map(mark).collect()
}
