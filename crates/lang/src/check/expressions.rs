//! Values: atoms, `if`, `ewma`, and the logic; [`arithmetic`](super::arithmetic) does the rest.

use super::names::{Name, operators_first};
use super::ratio::{Constant, OutOfBounds, Ratio};
use super::{Checker, Kind, Value, head_word};
use crate::bounds::{MAX_DEPTH, MAX_RATIO};
use crate::diagnostic::{Diagnostic, Span};
use crate::name::as_boolean;
use crate::program::{Expr, Place, Stmt, Type};
use crate::signal::Signal;
use crate::syntax::{Atom, AtomKind, List, Node};
use crate::words::Word;

/// The place that the form directly around a value assigns it to.
#[derive(Debug, Clone, Copy)]
struct Target {
    place: Place,
    kind: Kind,
}

impl Checker<'_, '_> {
    /// The value of a node. Statements that must run before it is evaluated go to `hoisted`.
    pub(super) fn value(&mut self, node: &Node<'_>, hoisted: &mut Vec<Stmt>) -> Value {
        match node {
            Node::Atom(atom) => self.atom(atom),
            Node::List(list) => self.form(list, None, hoisted),
        }
    }

    /// A value directly under an assignment: `ewma` averages into the place, and an `if` without
    /// an else leaves it as it is.
    pub(super) fn assigned_value(
        &mut self,
        node: &Node<'_>,
        place: Place,
        kind: Kind,
        hoisted: &mut Vec<Stmt>,
    ) -> Value {
        match node {
            Node::Atom(atom) => self.atom(atom),
            Node::List(list) => self.form(list, Some(Target { place, kind }), hoisted),
        }
    }

    fn atom(&mut self, atom: &Atom<'_>) -> Value {
        let span = atom.span;
        match atom.kind {
            AtomKind::Number(n) => Value::leaf(Expr::Const(n, Type::Num), Kind::Num, span),
            AtomKind::Decimal => {
                let constant = Constant::parse(atom.text);
                self.constant(constant, span)
            }
            AtomKind::Bad => Value::unknown(span),
            AtomKind::Word => {
                if let Some(b) = as_boolean(atom.text) {
                    return Value::leaf(Expr::Const(b.into(), Type::Bool), Kind::Bool, span);
                }
                let Some(name) = self.resolve(atom.text) else {
                    self.unknown_name(atom);
                    return Value::unknown(span);
                };
                if let Name::Variable(at) = name
                    && let Some(declared) = self.declared.get_mut(at)
                {
                    declared.read = true;
                }
                match (name, self.place_kind(name)) {
                    (Name::Signal(signal), _) => Self::signal(signal, span),
                    (_, Some((place, kind))) => Value::leaf(Expr::Place(place), kind, span),
                    (_, None) => Value::unknown(span),
                }
            }
        }
    }

    fn signal(signal: Signal, span: Span) -> Value {
        Value::leaf(Expr::Signal(signal), signal.ty().into(), span)
    }

    pub(super) fn constant(
        &mut self,
        constant: Result<Constant, OutOfBounds>,
        span: Span,
    ) -> Value {
        match constant {
            Ok(Constant::Whole(n)) => Value::leaf(Expr::Const(n, Type::Num), Kind::Num, span),
            Ok(Constant::Fraction(ratio)) => Value {
                kind: Kind::Ratio(ratio),
                ..Value::unknown(span)
            },
            Err(OutOfBounds) => {
                let message = "this decimal constant is too large or too precise";
                let error = Diagnostic::error("decimal-out-of-bounds", span, message).help(format!(
                    "as a reduced fraction, numerator and denominator are at most {MAX_RATIO}; use fewer digits"
                ));
                self.errors.push(error);
                Value::unknown(span)
            }
        }
    }

    fn form(&mut self, list: &List<'_>, target: Option<Target>, hoisted: &mut Vec<Stmt>) -> Value {
        let span = list.span;
        let Some(word) = head_word(list) else {
            match list.items.first() {
                None => self.errors.push(Diagnostic::error(
                    "empty-form",
                    span,
                    "these parentheses are empty",
                )),
                Some(Node::Atom(head)) if head.kind == AtomKind::Bad => {}
                Some(Node::Atom(head)) => {
                    self.unknown_operator(head, list.arguments().iter().find_map(operator))
                }
                Some(Node::List(inner)) => {
                    let error = Diagnostic::error(
                        "no-operator",
                        inner.span,
                        "an operator is expected here",
                    );
                    self.errors
                        .push(error.help("`(` is followed by an operator, as in `(+ a b)`"));
                    self.value(&list.items[0], hoisted);
                }
            }
            return self.failed(list, Kind::Unknown);
        };
        match word {
            Word::Binary(op) => self.arithmetic(list, op, hoisted),
            Word::Compare(op) => self.comparison(list, op, hoisted),
            Word::And => self.logic(list, Expr::And, hoisted),
            Word::Or => self.logic(list, Expr::Or, hoisted),
            Word::Not => {
                let Some([argument]) = self.arity(list, 1, 1) else {
                    return self.failed(list, Kind::Bool);
                };
                let value = self.boolean(argument, "!", hoisted);
                self.tree(
                    Expr::Not(Box::new(value.expr)),
                    Kind::Bool,
                    value.depth,
                    span,
                )
            }
            Word::If => self.choice(list, false, target, hoisted),
            Word::NotIf => self.choice(list, true, target, hoisted),
            Word::Ewma => self.ewma(list, target, hoisted),
            Word::Bind
            | Word::When
            | Word::Report
            | Word::Fallthrough
            | Word::Reset
            | Word::Def
            | Word::Volatile => {
                let text = list.head().map_or("", |h| h.text);
                let error = Diagnostic::error(
                    "not-a-value",
                    span,
                    format!("`({text} …)` is a statement, not a value"),
                );
                self.errors
                    .push(error.help("statements stand in the body of a `when`, each by itself"));
                Value::unknown(span)
            }
        }
    }

    fn logic(
        &mut self,
        list: &List<'_>,
        join: fn(Box<Expr>, Box<Expr>) -> Expr,
        hoisted: &mut Vec<Stmt>,
    ) -> Value {
        let name = list.head().map_or("", |h| h.text);
        let Some(arguments) = self.arity(list, 2, usize::MAX) else {
            return self.failed(list, Kind::Bool);
        };
        let values: Vec<_> = arguments
            .iter()
            .map(|a| self.boolean(a, name, hoisted))
            .collect();
        self.left_fold(values, list.span, |checker, left, right| {
            let depth = left.depth.max(right.depth);
            checker.tree(
                join(Box::new(left.expr), Box::new(right.expr)),
                Kind::Bool,
                depth,
                list.span,
            )
        })
    }

    /// `(op a b c)` is `(op (op a b) c)`.
    pub(super) fn left_fold(
        &mut self,
        values: Vec<Value>,
        span: Span,
        mut join: impl FnMut(&mut Self, Value, Value) -> Value,
    ) -> Value {
        if values.len() > MAX_DEPTH {
            return self.too_deep(Kind::Unknown, span);
        }
        values
            .into_iter()
            .reduce(|left, right| join(self, left, right))
            .unwrap_or_else(|| Value::unknown(span))
    }

    /// `(if c a b)` as a value.
    fn choice(
        &mut self,
        list: &List<'_>,
        negated: bool,
        target: Option<Target>,
        hoisted: &mut Vec<Stmt>,
    ) -> Value {
        let span = list.span;
        let Some([condition, branches @ ..]) = self.arity(list, 2, 3) else {
            return self.failed(list, Kind::Unknown);
        };
        let condition = self.condition(condition, hoisted);
        let mut branches = branches.iter().map(|b| {
            let value = self.value(b, hoisted);
            self.no_ratio(value)
        });
        let then = branches.next().unwrap_or_else(|| Value::unknown(span));
        let otherwise = branches.next();
        let then = match (target, &otherwise) {
            // A boolean that is stored in a number, or leaves it as it is.
            (
                Some(Target {
                    place: Place::Var(_),
                    kind: Kind::Num,
                }),
                None,
            ) if then.kind == Kind::Bool => self.boolean_as_number(then),
            _ => then,
        };
        let otherwise = otherwise.unwrap_or_else(|| match target {
            Some(Target { place, kind }) => Value::leaf(Expr::Place(place), kind, then.span),
            None => Value::leaf(Expr::Const(0, then.ty()), then.kind, then.span),
        });
        let kind = match (then.kind, otherwise.kind) {
            (Kind::Unknown, kind) | (kind, Kind::Unknown) => kind,
            (a, b) if a == b => a,
            // Without an else the assignment itself reports the mismatch.
            _ if list.items.len() == 3 => then.kind,
            (a, _) => {
                let (first, second) = if a == Kind::Num {
                    ("a number", "a boolean")
                } else {
                    ("a boolean", "a number")
                };
                let error = Diagnostic::error(
                    "type-mismatch",
                    otherwise.span,
                    "the two values of an `if` differ in type",
                )
                .here(format!("this is {second}"))
                .label(then.span, format!("this is {first}"));
                self.errors.push(error);
                Kind::Unknown
            }
        };
        let depth = condition.depth.max(then.depth).max(otherwise.depth);
        let condition = if negated {
            Expr::Not(Box::new(condition.expr))
        } else {
            condition.expr
        };
        let expr = Expr::If {
            condition: Box::new(condition),
            then: Box::new(then.expr),
            otherwise: Box::new(otherwise.expr),
        };
        self.tree(expr, kind, depth + usize::from(negated), span)
    }

    fn ewma(&mut self, list: &List<'_>, target: Option<Target>, hoisted: &mut Vec<Stmt>) -> Value {
        let span = list.span;
        let Some([weight, new]) = self.arity(list, 2, 2) else {
            return self.failed(list, Kind::Num);
        };
        let weight = self.number(weight, "ewma", hoisted);
        let new = self.number(new, "ewma", hoisted);
        if let Expr::Const(11.., Type::Num) = weight.expr {
            let warning = Diagnostic::warning(
                "ewma-weight",
                weight.span,
                "this weight is more than the whole",
            )
            .help("the weight of the old value is in tenths, 0 to 10");
            self.warnings.push(warning);
        }
        let depth = weight.depth.max(new.depth);
        let averaged = |old| Expr::Ewma {
            weight: Box::new(weight.expr),
            old: Box::new(Expr::Place(old)),
            new: Box::new(new.expr),
        };
        // An average of what is not a number is reported by the assignment.
        if let Some(Target {
            place,
            kind: Kind::Num | Kind::Unknown,
        }) = target
        {
            return self.tree(averaged(place), Kind::Num, depth, span);
        }
        let state = Place::Var(self.new_hidden(span));
        let value = self.tree(averaged(state), Kind::Num, depth, span);
        hoisted.push(Stmt::Assign(state, value.expr));
        Value::leaf(Expr::Place(state), value.kind, span)
    }

    /// The arguments of a form, if there are `least` to `most` of them.
    pub(super) fn arity<'n, 's>(
        &mut self,
        list: &'n List<'s>,
        least: usize,
        most: usize,
    ) -> Option<&'n [Node<'s>]> {
        let arguments = list.arguments();
        if (least..=most).contains(&arguments.len()) {
            return Some(arguments);
        }
        let name = list.head().map_or("", |h| h.text);
        let plural = |n: usize| if n == 1 { "argument" } else { "arguments" };
        let takes = match (least, most) {
            (0, 0) => "no arguments".to_owned(),
            (n, usize::MAX) => format!("at least {n} {}", plural(n)),
            (n, m) if n == m => format!("{n} {}", plural(n)),
            (n, m) => format!("{n} or {m} arguments"),
        };
        let message = format!("`{name}` takes {takes}, not {}", arguments.len());
        let mut error = Diagnostic::error("wrong-arguments", list.span, message);
        if let Some(operator) = arguments.iter().find_map(operator) {
            error = error.help(operators_first(operator));
        }
        self.errors.push(error);
        None
    }

    /// The value of a malformed form. Its arguments are still checked, except operators among them,
    /// which belong to the same mistake.
    pub(super) fn failed(&mut self, list: &List<'_>, kind: Kind) -> Value {
        for argument in list.arguments().iter().filter(|a| operator(a).is_none()) {
            self.value(argument, &mut Vec::new());
        }
        Value {
            kind,
            ..Value::unknown(list.span)
        }
    }

    /// A value that must be a number; `user` is the operator that wants it.
    pub(super) fn number(&mut self, node: &Node<'_>, user: &str, hoisted: &mut Vec<Stmt>) -> Value {
        let value = self.value(node, hoisted);
        let value = self.no_ratio(value);
        self.wants_number(&value, user);
        value
    }

    pub(super) fn wants_number(&mut self, value: &Value, user: &str) {
        if value.kind == Kind::Bool {
            let error = Diagnostic::error(
                "type-mismatch",
                value.span,
                format!("`{user}` takes numbers"),
            )
            .here("this is a boolean")
            .help(format!(
                "make a number of it: `(if {} 1 0)`",
                self.excerpt(value.span)
            ));
            self.errors.push(error);
        }
    }

    fn boolean(&mut self, node: &Node<'_>, user: &str, hoisted: &mut Vec<Stmt>) -> Value {
        let value = self.value(node, hoisted);
        if matches!(value.kind, Kind::Num | Kind::Ratio(_)) {
            let error = Diagnostic::error(
                "type-mismatch",
                value.span,
                format!("`{user}` takes booleans"),
            )
            .here("this is a number")
            .help(format!("compare it: `(> {} 0)`", self.excerpt(value.span)));
            self.errors.push(error);
        }
        value
    }

    /// The number that a boolean is stored as: 0 or 1.
    pub(super) fn boolean_as_number(&mut self, value: Value) -> Value {
        if let Expr::Const(constant, _) = value.expr {
            return Value::leaf(Expr::Const(constant, Type::Num), Kind::Num, value.span);
        }
        let number = |n| Box::new(Expr::Const(n, Type::Num));
        let expr = Expr::If {
            condition: Box::new(value.expr),
            then: number(1),
            otherwise: number(0),
        };
        self.tree(expr, Kind::Num, value.depth, value.span)
    }

    /// Refuses a decimal constant where only a number will do.
    pub(super) fn no_ratio(&mut self, value: Value) -> Value {
        let Kind::Ratio(Ratio { num, den }) = value.kind else {
            return value;
        };
        let error = Diagnostic::error("decimal-misplaced", value.span, "a decimal constant cannot stand here")
            .here(format!("this is {num}/{den}"))
            .help("a decimal constant scales a number, `(* 1.25 x)` or `(/ x 1.25)`, or is compared with one")
            .help("elsewhere use a whole number; put a factor inside the values of an `if`");
        self.errors.push(error);
        Value::unknown(value.span)
    }

    /// An expression above others of which the deepest has `below` levels.
    pub(super) fn tree(&mut self, expr: Expr, kind: Kind, below: usize, span: Span) -> Value {
        if below < MAX_DEPTH {
            return Value {
                expr,
                kind,
                depth: below + 1,
                span,
            };
        }
        self.too_deep(kind, span)
    }

    fn too_deep(&mut self, kind: Kind, span: Span) -> Value {
        let message = format!("this expression is deeper than {MAX_DEPTH} levels");
        let error = Diagnostic::error("too-deep", span, message)
            .help("`(+ a b c)` is `(+ (+ a b) c)`; keep a part of it in a variable");
        self.errors.push(error);
        Value {
            kind,
            ..Value::unknown(span)
        }
    }

    /// The source text of a place, if it is short enough to quote.
    pub(super) fn excerpt(&self, span: Span) -> &str {
        let text = &self.source[span.start..span.end];
        if text.len() > 40 || text.contains(['\n', '#']) {
            "…"
        } else {
            text
        }
    }
}

/// The text of an operator that stands as an atom.
fn operator<'s>(node: &Node<'s>) -> Option<&'s str> {
    let Node::Atom(atom) = node else { return None };
    let word = Word::find(atom.text)?;
    (word.is_value() || word == Word::Bind).then_some(atom.text)
}
