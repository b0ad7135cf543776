//! The discipline of a queue: `queue = "fq_codel"`, or a table with its parameters. The disciplines
//! and their parameters are those of [`fairwater_net::Discipline`].

use fairwater_lang::nearest;
use fairwater_net::{Discipline, QueueSpec, QueueSpecError};

use crate::diagnostic::{Diagnostic, Sink};
use crate::fields::{InvalidValue, listed, refuse};
use crate::tree::{Key, Node, Value};

/// Reads a discipline with its parameters; how much it holds is the link's buffer.
pub fn read(node: &Node, sink: &Sink) -> Option<QueueSpec> {
    let nothing: &[(Key, Node)] = &[];
    let (name, parameters) = match &node.value {
        Value::Text(_) => (node, nothing),
        Value::Table(entries) => match entries.iter().find(|(key, _)| key.name == "type") {
            Some((_, name)) => (name, entries.as_slice()),
            None => {
                sink.push(Diagnostic::new(node.span.clone(), "`queue` has no `type`"));
                return None;
            }
        },
        _ => {
            refuse(
                "queue",
                node,
                InvalidValue::kind(node, "a discipline"),
                sink,
            );
            return None;
        }
    };
    let mut spec = QueueSpec::new(discipline(name, sink)?);
    let before = sink.said();
    for (key, value) in parameters {
        if key.name != "type" {
            set(&mut spec, key, value, sink);
        }
    }
    // What is refused may be what is missing.
    if sink.said() == before
        && let Err(error) = spec.check_complete()
    {
        sink.push(Diagnostic::new(node.span.clone(), error.to_string()));
    }
    (sink.said() == before).then_some(spec)
}

fn discipline(node: &Node, sink: &Sink) -> Option<&'static Discipline> {
    let Value::Text(name) = &node.value else {
        refuse("type", node, InvalidValue::kind(node, "a discipline"), sink);
        return None;
    };
    let found = Discipline::named(name);
    if found.is_none() {
        let known: Vec<&str> = Discipline::all().iter().map(Discipline::name).collect();
        let message = format!("there is no queue discipline `{name}`");
        let help = match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", listed(&known)),
        };
        sink.push(Diagnostic::new(node.span.clone(), message).help(help));
    }
    found
}

fn set(spec: &mut QueueSpec, key: &Key, value: &Node, sink: &Sink) {
    if value.is_unknown() {
        return;
    }
    let outcome = match &value.value {
        Value::Array(weights) if key.name == "weights" => {
            let weight = |weight: &Node| {
                weight.plain().or_else(|| {
                    let invalid = InvalidValue::kind(weight, "a weight");
                    refuse(&key.name, weight, invalid, sink);
                    None
                })
            };
            let weights: Option<Vec<String>> = weights.iter().map(weight).collect();
            let Some(weights) = weights else { return };
            spec.set("weights", &weights.join("+"))
        }
        Value::Array(classes) => {
            let classes: Option<Vec<_>> = classes.iter().map(|class| read(class, sink)).collect();
            let Some(classes) = classes else { return };
            match key.name.as_str() {
                "classes" => spec.set_classes(classes),
                other => spec.set(other, ""),
            }
        }
        _ => match value.plain() {
            Some(text) => spec.set(&key.name, &text),
            None => {
                refuse(
                    &key.name,
                    value,
                    InvalidValue::kind(value, "a parameter"),
                    sink,
                );
                return;
            }
        },
    };
    match outcome {
        Ok(()) => {}
        Err(QueueSpecError::UnknownParameter { discipline, .. }) => {
            let message = format!("a `{discipline}` queue has no parameter `{}`", key.name);
            let diagnostic = Diagnostic::new(key.span.clone(), message);
            let parameters = spec.discipline().parameters();
            let known: Vec<&str> = parameters.iter().map(|parameter| parameter.name).collect();
            sink.push(match nearest(&key.name, known.iter().copied()) {
                Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
                None if known.is_empty() => diagnostic,
                None => diagnostic.help(format!("it has {}", listed(&known))),
            });
        }
        Err(QueueSpecError::Value { error, .. }) => {
            let invalid = InvalidValue {
                message: error.message,
                allowed: error.expected.to_owned(),
            };
            refuse(&key.name, value, invalid, sink);
        }
        Err(error) => sink.push(Diagnostic::new(value.span.clone(), error.to_string())),
    }
}
