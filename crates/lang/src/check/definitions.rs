//! The `def` block.

use super::ratio::Constant;
use super::{Checker, Declared, Kind, head_word};
use crate::bounds::MAX_VARIABLES;
use crate::diagnostic::{Diagnostic, Span};
use crate::name::{self, as_boolean};
use crate::program::{Scope, Type, VarId, Variable};
use crate::syntax::{Atom, AtomKind, List, Node};
use crate::words::Word;

impl Checker<'_, '_> {
    pub(super) fn definitions(&mut self, def: &List<'_>) {
        if def.broken {
            self.incomplete_def = true;
            return;
        }
        // `(def name init)`, an easy slip, would otherwise be two errors.
        if let [Node::Atom(name), Node::Atom(_)] = def.arguments()
            && name.kind == AtomKind::Word
        {
            self.bad_declaration(def.span, "a declaration stands in parentheses of its own");
            return;
        }
        for node in def.arguments() {
            match node {
                Node::List(list)
                    if list
                        .head()
                        .is_some_and(|h| h.text.eq_ignore_ascii_case("Report")) =>
                {
                    self.report_block(list);
                }
                _ => self.declaration(node, Scope::Control),
            }
        }
    }

    fn report_block(&mut self, block: &List<'_>) {
        for node in block.arguments() {
            self.declaration(node, Scope::Report);
        }
    }

    fn bad_declaration(&mut self, span: Span, message: &str) {
        self.incomplete_def = true;
        let error = Diagnostic::error("bad-declaration", span, message).help(
            "a declaration is `(name 0)`, or `(volatile name 0)` to start anew after each report",
        );
        self.errors.push(error);
    }

    fn declaration(&mut self, node: &Node<'_>, scope: Scope) {
        let list = match node {
            Node::List(list) => list,
            Node::Atom(atom) if atom.kind == AtomKind::Bad => return,
            Node::Atom(atom) => {
                return self.bad_declaration(atom.span, "this is not a declaration");
            }
        };
        let volatile = head_word(list) == Some(Word::Volatile) && list.items.len() != 2;
        let rest = if volatile {
            list.arguments()
        } else {
            &list.items[..]
        };
        match rest {
            [Node::Atom(name), init] if name.kind == AtomKind::Word => {
                self.declare(name, init, scope, volatile)
            }
            [Node::Atom(name), Node::Atom(init)]
                if name.kind == AtomKind::Bad || init.kind == AtomKind::Bad =>
            {
                self.incomplete_def = true;
            }
            [Node::Atom(name)] if name.kind == AtomKind::Word => {
                self.bad_declaration(list.span, "this declaration has no initial value");
            }
            _ => self.bad_declaration(list.span, "this is not a declaration"),
        }
    }

    fn declare(&mut self, name: &Atom<'_>, init: &Node<'_>, scope: Scope, volatile: bool) {
        let (scope, bare) = match name.text.strip_prefix("Report.") {
            Some(bare) => (Scope::Report, bare),
            None => (scope, name.text),
        };
        let full = if scope == Scope::Report {
            format!("Report.{bare}")
        } else {
            bare.to_owned()
        };
        let (kind, init) = self.initial(init);
        if let Err(why) = name::check(scope, bare) {
            // Only the name is refused; what uses it is not wrong as well.
            self.reported_names.insert(full);
            self.errors.push(
                Diagnostic::error(
                    "reserved-name",
                    name.span,
                    "a variable cannot have this name",
                )
                .here(why.to_string()),
            );
            return;
        }
        if let Some(first) = self
            .by_name
            .get(&full)
            .and_then(|at| self.declared.get(*at))
        {
            let error = Diagnostic::error(
                "duplicate-variable",
                name.span,
                format!("`{full}` is declared twice"),
            )
            .label(first.span, "first here");
            self.errors.push(error);
            return;
        }
        if self.declared.len() == MAX_VARIABLES {
            if !std::mem::replace(&mut self.incomplete_def, true) {
                self.too_many_variables(name.span);
            }
            return;
        }
        let ty = if kind == Kind::Bool {
            Type::Bool
        } else {
            Type::Num
        };
        self.by_name.insert(full, self.declared.len());
        self.declared.push(Declared {
            variable: Variable {
                name: bare.to_owned(),
                scope,
                volatile,
                ty,
                init,
            },
            kind,
            span: name.span,
            id: VarId(0),
            read: false,
            assigned: false,
        });
    }

    fn initial(&mut self, node: &Node<'_>) -> (Kind, u64) {
        if let Node::Atom(atom) = node {
            match atom.kind {
                AtomKind::Number(n) => return (Kind::Num, n),
                AtomKind::Decimal => {
                    if let Ok(Constant::Whole(n)) = Constant::parse(atom.text) {
                        return (Kind::Num, n);
                    }
                }
                AtomKind::Word => {
                    if let Some(b) = as_boolean(atom.text) {
                        return (Kind::Bool, b.into());
                    }
                }
                AtomKind::Bad => return (Kind::Unknown, 0),
            }
        }
        let error = Diagnostic::error(
            "bad-initial-value",
            node.span(),
            "an initial value is a constant",
        )
        .help("write a whole number, `+infinity`, `true` or `false`");
        self.errors.push(error);
        (Kind::Unknown, 0)
    }

    /// Report variables are numbered first, each scope in the order of declaration.
    pub(super) fn number_variables(&mut self) {
        let mut next = 0_usize;
        for scope in [Scope::Report, Scope::Control] {
            for declared in self
                .declared
                .iter_mut()
                .filter(|d| d.variable.scope == scope)
            {
                declared.id = VarId(u16::try_from(next).unwrap_or(u16::MAX));
                next += 1;
            }
        }
    }
}
