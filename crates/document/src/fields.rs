//! The keys of a table, taken one by one; what is left over is unknown.

use std::ops::Range;

use fairwater_lang::nearest;

use crate::diagnostic::{Diagnostic, Sink};
use crate::tree::{Key, Node, Value};

/// A table that is being read. Each key that is asked for is known; [`Fields::finish`] names the
/// others.
pub struct Fields<'a> {
    /// What the table is, for messages: "a link".
    what: &'static str,
    /// Where it stands, or, of what is missing, should stand.
    pub span: Range<usize>,
    entries: &'a [(Key, Node)],
    taken: Vec<bool>,
    known: Vec<&'static str>,
    /// Where diagnostics go.
    pub sink: &'a Sink,
}

/// What a value should have been.
pub struct InvalidValue {
    /// What is wrong with it.
    pub message: String,
    /// What is allowed there.
    pub allowed: String,
}

impl InvalidValue {
    /// Of a value of another kind.
    pub fn kind(node: &Node, allowed: &str) -> Self {
        Self {
            message: format!("expected {allowed}, found {}", node.kind()),
            allowed: allowed.to_owned(),
        }
    }
}

/// From a node to what it means.
pub type Read<T> = fn(&Node) -> Result<T, InvalidValue>;

impl<'a> Fields<'a> {
    /// The fields of a table; `None`, with a diagnostic, when it is none.
    pub fn of(what: &'static str, node: &'a Node, sink: &'a Sink) -> Option<Self> {
        let Value::Table(entries) = &node.value else {
            if !node.is_unknown() {
                let message = format!("{what} is a table, and this is {}", node.kind());
                sink.push(Diagnostic::new(node.span.clone(), message));
            }
            return None;
        };
        Some(Self {
            what,
            span: node.span.clone(),
            entries,
            taken: vec![false; entries.len()],
            known: Vec::new(),
            sink,
        })
    }

    /// The value of a key, if it is there.
    pub fn node(&mut self, key: &'static str) -> Option<&'a Node> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        let at = self.entries.iter().position(|(k, _)| k.name == key)?;
        self.taken[at] = true;
        Some(&self.entries[at].1)
    }

    /// The value of a key, if it is there and right.
    pub fn optional<T>(&mut self, key: &'static str, read: Read<T>) -> Option<T> {
        let node = self.node(key)?;
        self.read(key, node, read)
    }

    /// The value of a key, which must be there.
    pub fn required<T>(&mut self, key: &'static str, read: Read<T>) -> Option<T> {
        match self.node(key) {
            Some(node) => self.read(key, node, read),
            None => {
                self.missing(key);
                None
            }
        }
    }

    /// Says that a key is missing.
    pub fn missing(&self, key: &'static str) {
        let message = format!("{} has no `{key}`", self.what);
        self.sink.push(Diagnostic::new(self.span.clone(), message));
    }

    fn read<T>(&self, key: &str, node: &Node, read: Read<T>) -> Option<T> {
        read(node)
            .map_err(|wrong| refuse(key, node, wrong, self.sink))
            .ok()
    }

    /// Names the keys that nobody asked for.
    pub fn finish(self) {
        let unknown = self.entries.iter().zip(&self.taken).filter(|(_, t)| !**t);
        for ((key, _), _) in unknown {
            let message = format!("{} has no key `{}`", self.what, key.name);
            let diagnostic = Diagnostic::new(key.span.clone(), message);
            let help = match nearest(&key.name, self.known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("it has {}", listed(&self.known)),
            };
            self.sink.push(diagnostic.help(help));
        }
    }
}

/// Says that a value is wrong, unless it was said already.
pub fn refuse(key: &str, node: &Node, wrong: InvalidValue, sink: &Sink) {
    if node.is_unknown() {
        return;
    }
    let message = format!("`{key}`: {}", wrong.message);
    sink.push(Diagnostic::new(node.span.clone(), message).label(wrong.allowed));
}

/// `a`, `b` and `c`.
pub fn listed(names: &[&str]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}
