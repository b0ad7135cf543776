//! Forms to a checked, typed program. A mistake yields one error and a value of unknown type,
//! which agrees with everything, so that the rest is still checked.

mod arithmetic;
mod definitions;
mod expressions;
mod lint;
mod names;
mod ratio;
mod statements;

use std::collections::{HashMap, HashSet};

use crate::bounds::{MAX_NODES, MAX_VARIABLES};
use crate::diagnostic::{Diagnostic, Sink, Span};
use crate::program::{Event, Expr, Program, Scope, Type, VarId, Variable};
use crate::syntax::{AtomKind, List, Node};
use crate::walk;
use crate::words::Word;
use ratio::Ratio;

/// Checks the forms of one source text. Returns the program and the place of each of its events; the
/// program is valid only if `errors` stays empty.
pub(crate) fn check(
    source: &str,
    forms: &[Node<'_>],
    errors: &mut Sink,
    warnings: &mut Sink,
) -> (Program, Vec<Span>) {
    let mut checker = Checker {
        source,
        errors,
        warnings,
        declared: Vec::new(),
        by_name: HashMap::new(),
        incomplete_def: false,
        reported_names: HashSet::new(),
        hidden: Vec::new(),
    };
    checker.program(forms)
}

/// The type of a value under check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Num,
    Bool,
    /// A decimal constant, which is not a value of its own.
    Ratio(Ratio),
    /// Already reported.
    Unknown,
}

impl From<Type> for Kind {
    fn from(ty: Type) -> Self {
        match ty {
            Type::Num => Self::Num,
            Type::Bool => Self::Bool,
        }
    }
}

/// A checked expression. `expr` is valid only where the kind is `Num` or `Bool`.
#[derive(Debug)]
struct Value {
    expr: Expr,
    kind: Kind,
    /// Depth of `expr`, in levels.
    depth: usize,
    span: Span,
}

impl Value {
    fn leaf(expr: Expr, kind: Kind, span: Span) -> Self {
        Self {
            expr,
            kind,
            depth: 1,
            span,
        }
    }

    fn unknown(span: Span) -> Self {
        Self::leaf(Expr::Const(0, Type::Num), Kind::Unknown, span)
    }

    /// The type in the program.
    fn ty(&self) -> Type {
        if self.kind == Kind::Bool {
            Type::Bool
        } else {
            Type::Num
        }
    }
}

/// A variable of the `def` block.
#[derive(Debug)]
struct Declared {
    variable: Variable,
    kind: Kind,
    /// Place of its name in the source.
    span: Span,
    id: VarId,
    read: bool,
    assigned: bool,
}

/// A top-level `when` and its place in the source.
#[derive(Debug)]
struct LocatedEvent {
    event: Event,
    span: Span,
    condition: Span,
}

struct Checker<'s, 'k> {
    source: &'s str,
    errors: &'k mut Sink,
    warnings: &'k mut Sink,
    declared: Vec<Declared>,
    /// Full names, `Report.acked`, to indices of `declared`.
    by_name: HashMap<String, usize>,
    /// The `def` block could not be read, so nothing is said about unknown names.
    incomplete_def: bool,
    /// Unknown names already reported: each is reported once.
    reported_names: HashSet<String>,
    hidden: Vec<Variable>,
}

impl Checker<'_, '_> {
    fn program(&mut self, forms: &[Node<'_>]) -> (Program, Vec<Span>) {
        let is =
            |form: &Node<'_>, word| matches!(form, Node::List(l) if head_word(l) == Some(word));
        for (i, form) in forms.iter().enumerate() {
            if let Node::List(list) = form
                && is(form, Word::Def)
            {
                if forms[..i].iter().any(|f| is(f, Word::Def)) {
                    let message = "a program has one `def` block";
                    let help = "declare all variables in the first";
                    self.errors
                        .push(Diagnostic::error("misplaced-def", list.span, message).help(help));
                } else if forms[..i].iter().any(|f| is(f, Word::When)) {
                    let message = "the `def` block comes before every `when`";
                    self.errors
                        .push(Diagnostic::error("misplaced-def", list.span, message));
                }
                self.definitions(list);
            }
        }
        self.number_variables();

        let mut located = Vec::new();
        for form in forms.iter().filter(|form| !is(form, Word::Def)) {
            match form {
                Node::List(list) if list.broken => {}
                Node::List(list) if head_word(list) == Some(Word::When) => {
                    located.extend(self.event(list))
                }
                _ => self.stray_form(form),
            }
        }
        if located.is_empty() && self.errors.is_empty() {
            let end = self.source.trim_end().len();
            let message = "a program needs at least one `when`";
            let error = Diagnostic::error("no-when", Span::new(end, end), message)
                .help("`(when true …)` runs on every ACK");
            self.errors.push(error);
        }
        self.bound_size(&located);
        self.lint(&located);

        let (events, spans): (Vec<_>, Vec<_>) =
            located.into_iter().map(|p| (p.event, p.span)).unzip();
        let signals = walk::signals(&events);
        let mut variables: Vec<_> = Vec::with_capacity(self.declared.len() + self.hidden.len());
        for scope in [Scope::Report, Scope::Control] {
            let of_scope = self
                .declared
                .iter()
                .map(|d| &d.variable)
                .filter(|v| v.scope == scope);
            variables.extend(of_scope.cloned());
        }
        variables.append(&mut self.hidden);
        let program = Program {
            variables,
            events,
            signals,
        };
        (program, spans)
    }

    fn stray_form(&mut self, form: &Node<'_>) {
        if matches!(form, Node::Atom(a) if a.kind == AtomKind::Bad) {
            return;
        }
        let message = "only `def` and `when` stand at the outermost level";
        let mut error = Diagnostic::error("outside-when", form.span(), message);
        if let Node::List(list) = form {
            match (head_word(list), list.head()) {
                (Some(_), _) => {
                    error = error.help("put it into the body of a `when`, such as `(when true …)`")
                }
                (None, Some(head)) => {
                    let near = crate::suggest::nearest(head.text, ["when", "def"]);
                    if let Some(near) = near {
                        error = error.help(format!("did you mean `{near}`?"));
                    }
                }
                (None, None) => {}
            }
        }
        self.errors.push(error);
    }

    fn bound_size(&mut self, located: &[LocatedEvent]) {
        let mut nodes = 0;
        for LocatedEvent { event, span, .. } in located {
            nodes += walk::size(event);
            if nodes > MAX_NODES {
                let message = format!(
                    "the program has more than {MAX_NODES} statements and expression nodes"
                );
                let error =
                    Diagnostic::error("too-large", *span, message).here("the bound is passed here");
                self.errors.push(error);
                return;
            }
        }
    }

    /// Adds a hidden variable, for the state of an `ewma`.
    fn new_hidden(&mut self, span: Span) -> VarId {
        let at = self.declared.len() + self.hidden.len();
        if at == MAX_VARIABLES {
            self.too_many_variables(span);
        }
        self.hidden.push(Variable {
            name: format!("__ewma{}", self.hidden.len()),
            scope: Scope::Hidden,
            volatile: false,
            ty: Type::Num,
            init: 0,
        });
        VarId(u16::try_from(at).unwrap_or(u16::MAX))
    }

    fn too_many_variables(&mut self, span: Span) {
        let message = format!("a program has at most {MAX_VARIABLES} variables");
        let error = Diagnostic::error("too-many-variables", span, message)
            .help("an `ewma` that is not directly assigned to a variable counts as one");
        self.errors.push(error);
    }
}

/// The keyword, command or operator that a list begins with.
fn head_word(list: &List<'_>) -> Option<Word> {
    list.head()
        .filter(|head| head.kind == AtomKind::Word)
        .and_then(|head| Word::find(head.text))
}
