//! A TOML document as a tree of values that know their places, and variables put into it.

use std::ops::Range;

use fairwater_lang::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diagnostic::{Diagnostic, Sink};

/// A value and where it stands in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Bytes of the file.
    pub span: Range<usize>,
    /// The value.
    pub value: Value,
}

/// A TOML value; tables are in the order of their names.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A finite number.
    Float(f64),
    /// A truth value.
    Boolean(bool),
    /// A list.
    Array(Vec<Node>),
    /// A table.
    Table(Vec<(Key, Node)>),
    /// A date, or a number that is none.
    Other(&'static str),
}

/// A key and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Bytes of the file.
    pub span: Range<usize>,
    /// The key.
    pub name: String,
}

/// How deeply tables and lists may lie in one another.
const MAX_DEPTH: usize = 12;

/// The most bytes of a text with its variables' values in it.
const MAX_TEXT: usize = 1 << 16;

/// Reads TOML; syntax errors go to the sink, and what could be read is returned.
pub fn parse(source: &str, sink: &Sink) -> Node {
    let (table, errors) = DeTable::parse_recoverable(source);
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        sink.push(Diagnostic::new(span, error.message()));
    }
    let span = table.span();
    Node {
        value: entries(table.into_inner(), 0, sink),
        span,
    }
}

fn entries(table: DeTable<'_>, depth: usize, sink: &Sink) -> Value {
    let entry = |(key, value): (Spanned<std::borrow::Cow<'_, str>>, Spanned<DeValue<'_>>)| {
        let key = Key {
            span: key.span(),
            name: key.into_inner().into_owned(),
        };
        let node = node(value, depth + 1, sink);
        (key, node)
    };
    Value::Table(table.into_iter().map(entry).collect())
}

fn node(value: Spanned<DeValue<'_>>, depth: usize, sink: &Sink) -> Node {
    let span = value.span();
    if depth > MAX_DEPTH {
        sink.push(Diagnostic::new(
            span.clone(),
            format!("values lie more than {MAX_DEPTH} deep in one another"),
        ));
        let value = Value::Other("too deep");
        return Node { span, value };
    }
    let value = match value.into_inner() {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(Value::Other("a number too large"), Value::Integer),
        DeValue::Float(number) => match number.as_str().parse::<f64>() {
            Ok(number) if number.is_finite() => Value::Float(number),
            _ => Value::Other("a number without a value"),
        },
        DeValue::Boolean(value) => Value::Boolean(value),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Array(items) => Value::Array(
            items
                .into_iter()
                .map(|n| node(n, depth + 1, sink))
                .collect(),
        ),
        DeValue::Table(table) => entries(table, depth, sink),
    };
    Node { span, value }
}

impl Node {
    /// What kind of value it is, as a noun.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Text(_) => "text",
            Value::Integer(_) | Value::Float(_) => "a number",
            Value::Boolean(_) => "a truth value",
            Value::Array(_) => "a list",
            Value::Table(_) => "a table",
            Value::Other(kind) => kind,
        }
    }

    /// What a table has at a key.
    pub fn entry(&self, name: &str) -> Option<&Node> {
        let Value::Table(entries) = &self.value else {
            return None;
        };
        let found = entries.iter().find(|(key, _)| key.name == name);
        found.map(|(_, node)| node)
    }

    /// Its value as text: what goes into a longer text.
    pub fn plain(&self) -> Option<String> {
        match &self.value {
            Value::Text(text) => Some(text.clone()),
            Value::Integer(number) => Some(number.to_string()),
            Value::Float(number) => Some(number.to_string()),
            Value::Boolean(value) => Some(value.to_string()),
            Value::Array(_) | Value::Table(_) | Value::Other(_) => None,
        }
    }

    /// How results name it: its text, or those of what is in it, in the order of the file.
    pub fn label(&self) -> String {
        let joined = |mut nodes: Vec<&Node>| {
            nodes.sort_by_key(|node| node.span.start);
            let texts: Vec<_> = nodes.iter().map(|node| node.label()).collect();
            texts.join(", ")
        };
        match &self.value {
            Value::Array(items) => joined(items.iter().collect()),
            Value::Table(entries) => joined(entries.iter().map(|(_, node)| node).collect()),
            _ => self.plain().unwrap_or_default(),
        }
    }

    /// The tree with variables in the place of their names. A text that is `$name` becomes the
    /// variable's value, whatever it is, at its place in the sweep; `$name` or `${name}` within a
    /// longer text becomes its text; `${name.key}` is what a table has at a key; `$$` is a dollar.
    /// A value may itself name variables whose values name none.
    pub fn with(&self, variables: &[Variable<'_>], used: &mut [bool], sink: &Sink) -> Node {
        self.substituted(variables, used, sink, true)
    }

    fn substituted(
        &self,
        variables: &[Variable<'_>],
        used: &mut [bool],
        sink: &Sink,
        outermost: bool,
    ) -> Node {
        let mut within = |node: &Node| node.substituted(variables, used, sink, outermost);
        let value = match &self.value {
            Value::Text(text) if text.contains('$') => {
                let find = |name: &str| self.stands_for(name, variables, used, sink, outermost);
                return self.expanded(text, find, sink);
            }
            Value::Array(items) => Value::Array(items.iter().map(within).collect()),
            Value::Table(entries) => {
                let entry = |(key, node): &(Key, Node)| (key.clone(), within(node));
                Value::Table(entries.iter().map(entry).collect())
            }
            other => other.clone(),
        };
        Node {
            span: self.span.clone(),
            value,
        }
    }

    /// The value of `name` or `name.key`, which this text names.
    fn stands_for(
        &self,
        reference: &str,
        variables: &[Variable<'_>],
        used: &mut [bool],
        sink: &Sink,
        outermost: bool,
    ) -> Node {
        let nothing = |message: String, near: Option<String>| {
            let mut diagnostic = Diagnostic::new(self.span.clone(), message);
            if let Some(near) = near {
                diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
            }
            sink.push(diagnostic);
            Node::no_value(self.span.clone())
        };
        let (name, key) = match reference.split_once('.') {
            Some((name, key)) => (name, Some(key)),
            None => (reference, None),
        };
        let Some(index) = variables.iter().position(|variable| variable.name == name) else {
            let message = format!("no variable of `[sweep]` is called `{name}`");
            let known = variables.iter().map(|variable| variable.name);
            return nothing(message, nearest(name, known).map(|near| format!("${near}")));
        };
        if let Some(used) = used.get_mut(index) {
            *used = true;
        }
        let mut value = variables[index].value;
        if !outermost && value.names_variables() {
            let message =
                format!("`{name}` names variables itself, so no other variable can name it");
            return nothing(message, None);
        }
        if let Some(key) = key
            && !value.is_unknown()
        {
            let Value::Table(entries) = &value.value else {
                let message = format!("`${name}` is {}, which has no `{key}`", value.kind());
                return nothing(message, None);
            };
            let Some(found) = value.entry(key) else {
                let message = format!("a value of `{name}` has no `{key}`");
                let known = entries.iter().map(|(known, _)| known.name.as_str());
                let near = nearest(key, known).map(|near| format!("${{{name}.{near}}}"));
                return nothing(message, near);
            };
            value = found;
        }
        value.substituted(variables, used, sink, false)
    }

    fn names_variables(&self) -> bool {
        match &self.value {
            Value::Text(text) => text.contains('$'),
            Value::Array(items) => items.iter().any(Node::names_variables),
            Value::Table(entries) => entries.iter().any(|(_, node)| node.names_variables()),
            _ => false,
        }
    }

    fn expanded(&self, text: &str, mut find: impl FnMut(&str) -> Node, sink: &Sink) -> Node {
        if let Some(name) = text.strip_prefix('$') {
            let braced = name.strip_prefix('{').and_then(|n| n.strip_suffix('}'));
            let plain = (name_length(name) == name.len() && !name.is_empty()).then_some(name);
            if let Some(name) = braced.filter(|n| !n.contains('}')).or(plain) {
                return find(name);
            }
        }
        let mut expanded = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            expanded.push_str(before);
            if let Some(after) = after.strip_prefix('$') {
                expanded.push('$');
                rest = after;
                continue;
            }
            let (name, after) = match after.strip_prefix('{').and_then(|a| a.split_once('}')) {
                Some(found) => found,
                None => after.split_at(name_length(after)),
            };
            rest = after;
            let value = find(name);
            if value.is_unknown() {
                return value;
            }
            let Some(plain) = value.plain() else {
                let message = format!(
                    "`${name}` is {}, which cannot be part of a text",
                    value.kind()
                );
                sink.push(Diagnostic::new(self.span.clone(), message));
                return Node::no_value(self.span.clone());
            };
            expanded.push_str(&plain);
            if expanded.len() > MAX_TEXT {
                let message = format!("with its variables, this has more than {MAX_TEXT} bytes");
                sink.push(Diagnostic::new(self.span.clone(), message));
                return Node::no_value(self.span.clone());
            }
        }
        expanded.push_str(rest);
        Node {
            span: self.span.clone(),
            value: Value::Text(expanded),
        }
    }

    /// In the place of a variable that does not exist or has no value, which has been said.
    pub fn no_value(span: Range<usize>) -> Node {
        let value = Value::Other(UNKNOWN);
        Node { span, value }
    }

    /// Whether it stands for a variable that does not exist: nothing more is to be said of it.
    pub fn is_unknown(&self) -> bool {
        matches!(self.value, Value::Other(kind) if kind == UNKNOWN)
    }
}

const UNKNOWN: &str = "an unknown variable";

/// A variable of a sweep with one of its values.
#[derive(Debug, Clone, Copy)]
pub struct Variable<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its value.
    pub value: &'a Node,
}

/// The bytes at the start of a text that can be a variable's name.
fn name_length(text: &str) -> usize {
    text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(text.len())
}

/// Whether it can be a variable's name.
pub fn is_name(text: &str) -> bool {
    !text.is_empty() && name_length(text) == text.len()
}
