//! Warnings: valid programs that probably do not do what their author meant.

use super::{Checker, LocatedEvent};
use crate::diagnostic::{Diagnostic, Span};
use crate::program::{Comparison, Expr, Scope, Stmt, Type};

impl Checker<'_, '_> {
    pub(super) fn lint(&mut self, located: &[LocatedEvent]) {
        if !self.errors.is_empty() {
            return;
        }
        self.lint_reach(located);
        for declared in &self.declared {
            let (variable, span) = (&declared.variable, declared.span);
            let name = &variable.name;
            let warning = match variable.scope {
                Scope::Report if !declared.assigned => {
                    let message = format!("`Report.{name}` is never assigned");
                    Diagnostic::warning("never-assigned", span, message)
                        .help("every report carries its initial value")
                }
                Scope::Control if !declared.read && declared.assigned => {
                    let message = format!("`{name}` is assigned and never read");
                    Diagnostic::warning("never-read", span, message).help(format!(
                        "to see it in reports, declare it as `(Report ({name} …))`"
                    ))
                }
                Scope::Control if !declared.read => {
                    Diagnostic::warning("never-used", span, format!("`{name}` is never used"))
                }
                _ => continue,
            };
            self.warnings.push(warning);
        }
    }

    /// A true condition ends the invocation unless `(fallthrough)` ran, here or in an earlier
    /// body (CCP §4.1), so whatever follows an unconditional `when` without one cannot run.
    fn lint_reach(&mut self, located: &[LocatedEvent]) {
        let mut falls_through = false;
        let mut last: Option<Span> = None;
        for LocatedEvent {
            event, condition, ..
        } in located
        {
            if let Some(last) = last {
                let warning =
                    Diagnostic::warning("unreachable", *condition, "this `when` can never run")
                        .label(
                            last,
                            "this condition always holds, and its body does not fall through",
                        )
                        .help("end the earlier body with `(fallthrough)`");
                self.warnings.push(warning);
                continue;
            }
            let truth = truth(&event.condition);
            if truth == Some(false) {
                let warning =
                    Diagnostic::warning("unreachable", *condition, "this `when` can never run")
                        .here("this condition never holds");
                self.warnings.push(warning);
                continue;
            }
            falls_through |= may_fall_through(&event.body);
            if truth == Some(true) && !falls_through {
                last = Some(*condition);
            }
        }
    }
}

fn may_fall_through(body: &[Stmt]) -> bool {
    body.iter().any(|statement| match statement {
        Stmt::Fallthrough => true,
        Stmt::If {
            then, otherwise, ..
        } => may_fall_through(then) || may_fall_through(otherwise),
        Stmt::Assign(..) | Stmt::Report => false,
    })
}

/// Value of a condition made of constants.
fn truth(condition: &Expr) -> Option<bool> {
    match condition {
        Expr::Const(b, Type::Bool) => Some(*b != 0),
        Expr::Not(inner) => truth(inner).map(|b| !b),
        Expr::And(a, b) => match (truth(a), truth(b)) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        },
        Expr::Or(a, b) => match (truth(a), truth(b)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        },
        Expr::Compare(op, a, b) => match (&**a, &**b) {
            (Expr::Const(a, _), Expr::Const(b, _)) => Some(match op {
                Comparison::Eq => a == b,
                Comparison::Ne => a != b,
                Comparison::Lt => a < b,
                Comparison::Le => a <= b,
                Comparison::Gt => a > b,
                Comparison::Ge => a >= b,
            }),
            _ => None,
        },
        _ => None,
    }
}
