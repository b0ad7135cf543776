//! `when` clauses and the statements in them.

use super::{Checker, Kind, LocatedEvent, Value, head_word};
use crate::diagnostic::Diagnostic;
use crate::program::{Event, Expr, Place, Stmt, Type};
use crate::signal::Signal;
use crate::syntax::{AtomKind, List, Node};
use crate::words::Word;

impl Checker<'_, '_> {
    /// A top-level `when`.
    pub(super) fn event(&mut self, list: &List<'_>) -> Option<LocatedEvent> {
        let mut prelude = Vec::new();
        let (condition, body) = self.when(list, &mut prelude);
        let condition = condition?;
        let event = Event {
            prelude,
            condition: condition.expr,
            body,
        };
        Some(LocatedEvent {
            event,
            span: list.span,
            condition: condition.span,
        })
    }

    /// The condition and body of a `when`; what the condition needs first goes to `prelude`.
    fn when(&mut self, list: &List<'_>, prelude: &mut Vec<Stmt>) -> (Option<Value>, Vec<Stmt>) {
        let Some((condition, body)) = list.arguments().split_first() else {
            let error = Diagnostic::error(
                "incomplete-when",
                list.span,
                "this `when` has neither condition nor body",
            )
            .help("write `(when condition statement…)`");
            self.errors.push(error);
            return (None, Vec::new());
        };
        let condition = self.condition(condition, prelude);
        if body.is_empty() {
            let error = Diagnostic::error("empty-when", list.span, "this `when` has no body")
                .help("write at least one statement after the condition, such as `(report)`");
            self.errors.push(error);
        }
        let mut statements = Vec::new();
        for node in body {
            self.statement(node, &mut statements);
        }
        (Some(condition), statements)
    }

    pub(super) fn condition(&mut self, node: &Node<'_>, hoisted: &mut Vec<Stmt>) -> Value {
        let value = self.value(node, hoisted);
        if matches!(value.kind, Kind::Num | Kind::Ratio(_)) {
            let message = "a condition must be a boolean";
            let mut error =
                Diagnostic::error("not-a-condition", value.span, message).here("this is a number");
            if value.kind == Kind::Num {
                error = error.help(format!("compare it: `(> {} 0)`", self.excerpt(value.span)));
            }
            self.errors.push(error);
        }
        value
    }

    fn statement(&mut self, node: &Node<'_>, out: &mut Vec<Stmt>) {
        let list = match node {
            Node::List(list) => list,
            Node::Atom(atom) => {
                if atom.kind != AtomKind::Bad {
                    let mut error =
                        Diagnostic::error("not-a-statement", atom.span, "this is not a statement");
                    if matches!(
                        Word::find(atom.text),
                        Some(Word::Report | Word::Fallthrough | Word::Reset)
                    ) {
                        error = error.help(format!("write `({})`", atom.text));
                    }
                    self.errors.push(error);
                }
                return;
            }
        };
        match head_word(list) {
            Some(Word::Bind) => self.bind(list, out),
            Some(Word::When) => {
                let (condition, then) = self.when(list, out);
                if let Some(condition) = condition {
                    out.push(Stmt::If {
                        condition: condition.expr,
                        then,
                        otherwise: Vec::new(),
                    });
                }
            }
            Some(Word::If) => self.branch(list, false, out),
            Some(Word::NotIf) => self.branch(list, true, out),
            Some(Word::Report) => self.command(list, Stmt::Report, out),
            Some(Word::Fallthrough) => self.command(list, Stmt::Fallthrough, out),
            Some(Word::Reset) => {
                self.command(
                    list,
                    Stmt::Assign(Place::Micros, Expr::Const(0, Type::Num)),
                    out,
                );
            }
            Some(Word::Def) => {
                let error = Diagnostic::error(
                    "misplaced-def",
                    list.span,
                    "the `def` block stands before every `when`",
                );
                self.errors.push(error);
            }
            Some(Word::Volatile) => {
                let error = Diagnostic::error(
                    "not-a-statement",
                    list.span,
                    "`volatile` belongs in the `def` block",
                );
                self.errors.push(error);
            }
            Some(_) => {
                self.value(node, &mut Vec::new());
                let error =
                    Diagnostic::error("unused-value", list.span, "this value is not used").help(
                        format!("assign it: `(:= Report.x {})`", self.excerpt(list.span)),
                    );
                self.errors.push(error);
            }
            None => {
                self.value(node, &mut Vec::new());
            }
        }
    }

    fn command(&mut self, list: &List<'_>, statement: Stmt, out: &mut Vec<Stmt>) {
        if self.arity(list, 0, 0).is_some() {
            out.push(statement);
        }
    }

    /// `(if c then [else])` as a statement.
    fn branch(&mut self, list: &List<'_>, negated: bool, out: &mut Vec<Stmt>) {
        let Some((condition, branches)) = list.arguments().split_first() else {
            self.arity(list, 2, 3);
            return;
        };
        let condition = self.condition(condition, out);
        if branches.is_empty() || branches.len() > 2 {
            let count = branches.len() + 1;
            let name = list.head().map_or("", |h| h.text);
            let message = format!("`{name}` takes 2 or 3 arguments, not {count}");
            let error = Diagnostic::error("wrong-arguments", list.span, message)
                .help(format!(
                    "write `({name} condition statement [else-statement])`"
                ))
                .help("for several statements nest a `when`");
            self.errors.push(error);
        }
        let mut sides = branches.iter().map(|node| {
            let mut statements = Vec::new();
            self.statement(node, &mut statements);
            statements
        });
        let then = sides.next().unwrap_or_default();
        let otherwise = sides.next().unwrap_or_default();
        let condition = if negated {
            Expr::Not(Box::new(condition.expr))
        } else {
            condition.expr
        };
        out.push(Stmt::If {
            condition,
            then,
            otherwise,
        });
    }

    /// `(:= place value)`.
    fn bind(&mut self, list: &List<'_>, out: &mut Vec<Stmt>) {
        let Some([target, source]) = self.arity(list, 2, 2) else {
            self.failed(list, Kind::Unknown);
            return;
        };
        let place = self.place(target);
        let value = match place {
            Some((place, kind)) => self.assigned_value(source, place, kind, out),
            None => self.value(source, out),
        };
        let value = self.no_ratio(value);
        let Some((place, kind)) = place else { return };
        match (kind, value.kind) {
            // portus's programs keep booleans in numbers: `(:= Report.timeout Flow.was_timeout)`.
            (Kind::Num, Kind::Bool) if matches!(place, Place::Var(_)) => {
                let value = self.boolean_as_number(value);
                out.push(Stmt::Assign(place, value.expr));
            }
            (Kind::Num, Kind::Bool) => {
                let error = self.mismatch(target, "a number", &value, "a boolean");
                self.errors.push(error);
            }
            (Kind::Bool, Kind::Num) => {
                let compare = format!("compare it: `(> {} 0)`", self.excerpt(value.span));
                let error = self.mismatch(target, "a boolean", &value, "a number");
                let error = error
                    .help(compare)
                    .help("or declare the variable as a number, with the initial value `0`");
                self.errors.push(error);
            }
            _ => out.push(Stmt::Assign(place, value.expr)),
        }
    }

    fn mismatch(&self, target: &Node<'_>, wanted: &str, value: &Value, found: &str) -> Diagnostic {
        let name = self.excerpt(target.span());
        Diagnostic::error(
            "type-mismatch",
            value.span,
            format!("`{name}` is {wanted}, the value is {found}"),
        )
        .here(format!("this is {found}"))
        .label(target.span(), format!("this is {wanted}"))
    }

    /// What is assigned to; an error if it cannot be.
    fn place(&mut self, target: &Node<'_>) -> Option<(Place, Kind)> {
        let atom = match target {
            Node::Atom(atom) if atom.kind == AtomKind::Bad => return None,
            Node::Atom(atom) if atom.kind == AtomKind::Word => atom,
            _ => {
                let error =
                    Diagnostic::error("not-a-place", target.span(), "this cannot be assigned to")
                        .help("assign to a declared variable, `Cwnd`, `Rate` or `Micros`");
                self.errors.push(error);
                return None;
            }
        };
        let of_datapath = ["Ack.", "Flow."]
            .iter()
            .any(|prefix| atom.text.starts_with(prefix));
        if of_datapath || Signal::from_name(atom.text).is_some() {
            let error = Diagnostic::error("read-only", atom.span, "signals are read-only")
                .help("assign to a variable declared in the `def` block");
            self.errors.push(error);
            return None;
        }
        let Some(name) = self.resolve(atom.text) else {
            self.unknown_place(atom.text, atom.span);
            return None;
        };
        if let super::names::Name::Variable(at) = name
            && let Some(declared) = self.declared.get_mut(at)
        {
            declared.assigned = true;
        }
        self.place_kind(name)
    }
}
