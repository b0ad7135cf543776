//! Compile-time constants: `(const (name value) …)` and the parts of a program that depend on them.
//!
//! Before the program is checked, each name of a constant is replaced by its value, and each part
//! that a condition of constants rules out is removed, as are those conditions. So a program pays
//! nothing for the variants that it is not, and diagnostics still point into its one source.

use std::cell::Cell;

use crate::diagnostic::{Diagnostic, Sink, Span};
use crate::name::{self, as_boolean};
use crate::program::{Comparison, Scope};
use crate::suggest::nearest;
use crate::syntax::{Atom, AtomKind, List, Node};
use crate::words::Word;

/// The value of a compile-time constant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ConstantValue {
    /// A whole number.
    Number(u64),
    /// A decimal, of which six digits behind the point count.
    Decimal(f64),
    /// A boolean.
    Boolean(bool),
}

impl From<u64> for ConstantValue {
    fn from(value: u64) -> Self {
        Self::Number(value)
    }
}

impl From<f64> for ConstantValue {
    fn from(value: f64) -> Self {
        Self::Decimal(value)
    }
}

impl From<bool> for ConstantValue {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl ConstantValue {
    /// As it is written in a program.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Number(n) => n.to_string(),
            Self::Decimal(value) => format!("{value:.6}"),
            Self::Boolean(value) => value.to_string(),
        }
    }

    fn is_boolean(self) -> bool {
        matches!(self, Self::Boolean(_))
    }
}

/// A constant of the program.
struct Constant<'s> {
    name: &'s str,
    span: Span,
    kind: AtomKind,
    text: &'s str,
    used: Cell<bool>,
}

/// Takes the `const` blocks out of the forms and puts their values in. `given` replaces the values
/// that the program states; each comes with its text.
pub(crate) fn resolve<'s>(
    forms: Vec<Node<'s>>,
    given: &[(&str, ConstantValue, &'s str)],
    errors: &mut Sink,
    warnings: &mut Sink,
) -> Vec<Node<'s>> {
    let is_const = |node: &Node<'_>| {
        matches!(node, Node::List(list) if !list.broken
            && list.head().is_some_and(|head| head.text.eq_ignore_ascii_case("const")))
    };
    let (blocks, forms): (Vec<_>, Vec<_>) = forms.into_iter().partition(is_const);
    let mut constants = Vec::new();
    for block in &blocks {
        if let Node::List(list) = block {
            list.arguments()
                .iter()
                .for_each(|node| declare(node, given, &mut constants, errors));
        }
    }
    for (name, ..) in given {
        if !constants.iter().any(|c: &Constant<'_>| c.name == *name) {
            let message = format!("the program has no constant `{name}`");
            let mut error = Diagnostic::error("unknown-constant", Span::new(0, 0), message);
            if let Some(near) = nearest(name, constants.iter().map(|c| c.name)) {
                error = error.help(format!("did you mean `{near}`?"));
            }
            errors.push(error);
        }
    }
    if constants.is_empty() {
        return forms;
    }
    let mut resolver = Resolver {
        constants: &constants,
        errors,
    };
    let forms = resolver.nodes(forms, Position::Outermost);
    for constant in constants.iter().filter(|c| !c.used.get()) {
        let message = format!("the constant `{}` is never used", constant.name);
        warnings.push(Diagnostic::warning("never-used", constant.span, message));
    }
    forms
}

/// `(name value)` within a `const` block.
fn declare<'s>(
    node: &Node<'s>,
    given: &[(&str, ConstantValue, &'s str)],
    constants: &mut Vec<Constant<'s>>,
    errors: &mut Sink,
) {
    let pair = match node {
        Node::List(list) => match list.items.as_slice() {
            [Node::Atom(name), Node::Atom(value)] => Some((*name, *value)),
            _ => None,
        },
        Node::Atom(_) => None,
    };
    let literal = |value: &Atom<'_>| match value.kind {
        AtomKind::Word => as_boolean(value.text).is_some(),
        AtomKind::Number(_) | AtomKind::Decimal | AtomKind::Bad => true,
    };
    let Some((name, value)) = pair.filter(|(name, value)| {
        matches!(name.kind, AtomKind::Word | AtomKind::Bad) && literal(value)
    }) else {
        let message = "a constant is `(name value)`";
        let help = "the value is a whole number, a decimal, `+infinity`, `true` or `false`";
        errors.push(Diagnostic::error("bad-constant", node.span(), message).help(help));
        return;
    };
    if name.kind == AtomKind::Bad || value.kind == AtomKind::Bad {
        return;
    }
    if let Err(why) = name::check(Scope::Control, name.text) {
        let message = "a constant cannot have this name";
        let error = Diagnostic::error("reserved-name", name.span, message);
        errors.push(error.here(why.to_string()));
        return;
    }
    if let Some(first) = constants.iter().find(|c| c.name == name.text) {
        let message = format!("the constant `{}` is declared twice", name.text);
        let error = Diagnostic::error("duplicate-constant", name.span, message);
        errors.push(error.label(first.span, "first here"));
        return;
    }
    let (mut kind, mut text) = (value.kind, value.text);
    if let Some((_, new, written)) = given.iter().find(|(n, ..)| *n == name.text) {
        if new.is_boolean() != (kind == AtomKind::Word) {
            let (declared, given) = if new.is_boolean() {
                ("a number", "a boolean")
            } else {
                ("a boolean", "a number")
            };
            let message = format!("`{}` is {declared}, and was given {given}", name.text);
            errors.push(Diagnostic::error("type-mismatch", value.span, message));
            return;
        }
        kind = match new {
            ConstantValue::Number(n) => AtomKind::Number(*n),
            ConstantValue::Decimal(_) => AtomKind::Decimal,
            ConstantValue::Boolean(_) => AtomKind::Word,
        };
        text = written;
    }
    constants.push(Constant {
        name: name.text,
        span: name.span,
        kind,
        text,
        used: Cell::new(false),
    });
}

/// What becomes of a node.
enum Resolved<'s> {
    Nothing,
    One(Node<'s>),
    /// The body of a `when` that always holds.
    Many(Vec<Node<'s>>),
}

/// Where a node stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Outermost,
    /// In the body of a `when`.
    Statement,
    Elsewhere,
}

struct Resolver<'c, 's, 'k> {
    constants: &'c [Constant<'s>],
    errors: &'k mut Sink,
}

impl<'s> Resolver<'_, 's, '_> {
    fn find(&self, atom: &Atom<'_>) -> Option<&Constant<'s>> {
        let found = self.constants.iter().find(|c| c.name == atom.text)?;
        (atom.kind == AtomKind::Word).then_some(found)
    }

    fn nodes(&mut self, nodes: Vec<Node<'s>>, position: Position) -> Vec<Node<'s>> {
        let mut out = Vec::with_capacity(nodes.len());
        for node in nodes {
            match self.node(node, position) {
                Resolved::Nothing => {}
                Resolved::One(node) => out.push(node),
                Resolved::Many(nodes) => out.extend(nodes),
            }
        }
        out
    }

    fn node(&mut self, node: Node<'s>, position: Position) -> Resolved<'s> {
        match node {
            Node::List(list) => self.list(list, position),
            Node::Atom(atom) => Resolved::One(Node::Atom(match self.find(&atom) {
                Some(constant) => {
                    constant.used.set(true);
                    Atom {
                        kind: constant.kind,
                        text: constant.text,
                        span: atom.span,
                    }
                }
                None => atom,
            })),
        }
    }

    fn list(&mut self, mut list: List<'s>, position: Position) -> Resolved<'s> {
        let word = list.head().and_then(|head| Word::find(head.text));
        self.refuse_change(&list, word);
        // The first names what the list is, or what it declares.
        let first = usize::from(matches!(list.items.first(), Some(Node::Atom(_))));
        let had_body = list.items.len() > 2;
        let rest = list.items.split_off(first);
        let inner = match word {
            Some(Word::When) => Position::Statement,
            _ => Position::Elsewhere,
        };
        list.items.extend(self.nodes(rest, inner));
        if list.broken {
            return Resolved::One(Node::List(list));
        }
        match word {
            Some(Word::When) => match list.items.get(1).and_then(truth) {
                Some(false) => Resolved::Nothing,
                Some(true) if position != Position::Outermost => {
                    list.items.drain(..2);
                    Resolved::Many(list.items)
                }
                _ if had_body && list.items.len() == 2 => Resolved::Nothing,
                _ => Resolved::One(Node::List(list)),
            },
            Some(Word::If | Word::NotIf) => choose(list, word == Some(Word::If), position),
            Some(Word::And) => Resolved::One(join(list, true)),
            Some(Word::Or) => Resolved::One(join(list, false)),
            Some(Word::Not) => match list.arguments() {
                [only] => match truth(only) {
                    Some(value) => Resolved::One(boolean(!value, list.span)),
                    None => Resolved::One(Node::List(list)),
                },
                _ => Resolved::One(Node::List(list)),
            },
            Some(Word::Compare(op)) => match list.arguments() {
                [Node::Atom(a), Node::Atom(b)] => match (a.kind, b.kind) {
                    (AtomKind::Number(a), AtomKind::Number(b)) => {
                        Resolved::One(boolean(compare(op, a, b), list.span))
                    }
                    _ => Resolved::One(Node::List(list)),
                },
                _ => Resolved::One(Node::List(list)),
            },
            _ => Resolved::One(Node::List(list)),
        }
    }

    /// A constant is neither declared as a variable nor assigned to.
    fn refuse_change(&mut self, list: &List<'s>, word: Option<Word>) {
        let at = match word {
            None => 0,
            Some(Word::Bind | Word::Volatile) => 1,
            Some(_) => return,
        };
        let Some(Node::Atom(atom)) = list.items.get(at) else {
            return;
        };
        if let Some(constant) = self.find(atom) {
            let message = format!("`{}` is a constant", atom.text);
            let error = Diagnostic::error("constant-changed", atom.span, message)
                .here("it can be neither declared again nor assigned to")
                .label(constant.span, "its declaration");
            self.errors.push(error);
        }
    }
}

/// `(if c a b)`: the branch that a constant condition leaves.
fn choose(mut list: List<'_>, when_true: bool, position: Position) -> Resolved<'_> {
    let Some(holds) = list.items.get(1).and_then(truth) else {
        return Resolved::One(Node::List(list));
    };
    match (list.items.len(), holds == when_true) {
        (3 | 4, true) => Resolved::One(list.items.swap_remove(2)),
        (4, false) => Resolved::One(list.items.swap_remove(3)),
        (3, false) if position == Position::Statement => Resolved::Nothing,
        _ => Resolved::One(Node::List(list)),
    }
}

/// `&&`, whose neutral value is true, or `||`, whose is false.
fn join(mut list: List<'_>, neutral: bool) -> Node<'_> {
    if list.arguments().iter().any(|n| truth(n) == Some(!neutral)) {
        return boolean(!neutral, list.span);
    }
    let before = list.items.len();
    list.items.retain(|node| truth(node) != Some(neutral));
    match list.items.len() {
        // As it was written, for what is wrong with it to be said.
        n if n == before => Node::List(list),
        1 => boolean(neutral, list.span),
        2 => list.items.swap_remove(1),
        _ => Node::List(list),
    }
}

fn truth(node: &Node<'_>) -> Option<bool> {
    match node {
        Node::Atom(atom) if atom.kind == AtomKind::Word => as_boolean(atom.text),
        _ => None,
    }
}

fn boolean<'s>(value: bool, span: Span) -> Node<'s> {
    Node::Atom(Atom {
        kind: AtomKind::Word,
        text: if value { "true" } else { "false" },
        span,
    })
}

fn compare(op: Comparison, a: u64, b: u64) -> bool {
    match op {
        Comparison::Eq => a == b,
        Comparison::Ne => a != b,
        Comparison::Lt => a < b,
        Comparison::Le => a <= b,
        Comparison::Gt => a > b,
        Comparison::Ge => a >= b,
    }
}
