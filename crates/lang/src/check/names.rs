//! Resolution of names.

use super::{Checker, Kind};
use crate::diagnostic::{Diagnostic, Span};
use crate::name::IMPLICIT;
use crate::program::Place;
use crate::signal::Signal;
use crate::suggest;
use crate::syntax::Atom;
use crate::words::Word;

#[derive(Debug, Clone, Copy)]
pub(super) enum Name {
    /// `Cwnd`, `Rate` or `Micros`.
    Implicit(Place),
    /// An index of `declared`.
    Variable(usize),
    Signal(Signal),
}

pub(super) fn operators_first(operator: &str) -> String {
    format!("operators come first, in parentheses: `({operator} …)`")
}

impl Checker<'_, '_> {
    pub(super) fn resolve(&self, text: &str) -> Option<Name> {
        if let Some((_, place)) = IMPLICIT.iter().find(|(name, _)| *name == text) {
            return Some(Name::Implicit(*place));
        }
        if let Some(signal) = Signal::from_name(text) {
            return Some(Name::Signal(signal));
        }
        self.by_name.get(text).map(|at| Name::Variable(*at))
    }

    pub(super) fn place_kind(&self, name: Name) -> Option<(Place, Kind)> {
        match name {
            Name::Implicit(place) => Some((place, Kind::Num)),
            Name::Variable(at) => self.declared.get(at).map(|d| (Place::Var(d.id), d.kind)),
            Name::Signal(_) => None,
        }
    }

    /// The error for a name in a place where a value is expected.
    pub(super) fn unknown_name(&mut self, atom: &Atom<'_>) {
        if let Some(word) = Word::find(atom.text) {
            let message = format!("`{}` is a word of the language, not a value", atom.text);
            let mut error = Diagnostic::error("word-as-value", atom.span, message);
            if word.is_value() {
                error = error.help(operators_first(atom.text));
            }
            self.errors.push(error);
            return;
        }
        if self.incomplete_def
            || self.errors.is_full()
            || !self.reported_names.insert(atom.text.to_owned())
        {
            return;
        }
        let error = Diagnostic::error(
            "unknown-name",
            atom.span,
            format!("`{}` is not known", atom.text),
        );
        let mut known = self.sorted_names();
        known.extend(IMPLICIT.iter().map(|(name, _)| *name));
        known.extend(Signal::ALL.iter().map(|signal| signal.name()));
        known.push("+infinity");
        let help = match suggest::nearest(atom.text, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => match signals_beside(atom.text) {
                Some(signals) => format!("the signals there are: {signals}"),
                None => format!("declare it: `(def ({} 0))`", atom.text),
            },
        };
        self.errors.push(error.help(help));
    }

    /// The error for a name that cannot be assigned to because it is not known.
    pub(super) fn unknown_place(&mut self, text: &str, span: Span) {
        if self.incomplete_def
            || self.errors.is_full()
            || !self.reported_names.insert(text.to_owned())
        {
            return;
        }
        let mut error = Diagnostic::error("undeclared", span, format!("`{text}` is not declared"));
        let mut known = self.sorted_names();
        known.extend(["Cwnd", "Rate", "Micros"]);
        if let Some(near) = suggest::nearest(text, known) {
            error = error.help(format!("did you mean `{near}`?"));
        }
        let declaration = match text.strip_prefix("Report.") {
            Some(name) => format!("or declare it: `(def (Report ({name} 0)))`"),
            None => format!("or declare it: `(def ({text} 0))`"),
        };
        let declaration = if error.help.is_empty() {
            declaration.replacen("or ", "", 1)
        } else {
            declaration
        };
        self.errors.push(error.help(declaration));
    }

    /// The error for a list that begins with no operator; `later` is one that follows.
    pub(super) fn unknown_operator(&mut self, head: &Atom<'_>, later: Option<&str>) {
        let message = format!("`{}` is not an operator", head.text);
        let mut error = Diagnostic::error("unknown-operator", head.span, message);
        if let Some(later) = later {
            error = error.help(operators_first(later));
        } else if self.resolve(head.text).is_some() {
            error = error
                .help("a name stands without parentheses")
                .help(format!("to assign to it, write `(:= {} …)`", head.text));
        } else if !self.errors.is_full()
            && let Some(near) = suggest::nearest(head.text, Word::spellings())
        {
            error = error.help(format!("did you mean `{near}`?"));
        }
        self.errors.push(error);
    }

    /// The declared names in order, so that suggestions do not depend on hashing.
    fn sorted_names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.by_name.iter().collect();
        names.sort_by_key(|(_, at)| **at);
        names.into_iter().map(|(name, _)| name.as_str()).collect()
    }
}

/// The signals of the scope that a name claims to be of, which no `def` can add to.
fn signals_beside(name: &str) -> Option<String> {
    let (scope, _) = name.split_once('.')?;
    let of_scope = |signal: &Signal| {
        signal
            .name()
            .split_once('.')
            .is_some_and(|(s, _)| s == scope)
    };
    let names: Vec<_> = Signal::ALL
        .iter()
        .filter(|s| of_scope(s))
        .map(|s| s.name())
        .collect();
    (!names.is_empty()).then(|| names.join(", "))
}
