//! What the report of a grid shows: `[report]`.

use fairwater_plane::nearest;

use super::Reading;
use super::diagnostic::Diagnostic;
use super::fields::{Fields, Wrong, listed, refuse};
use super::quantity;
use super::sweep::Sweep;
use super::tree::{Node, Value};
use crate::findings::grid::METRICS;

/// How the report of a grid is drawn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Picture {
    /// The variable along the axis; unless given, the one with the most values.
    pub over: Option<String>,
    /// Variables of which each combination has pictures of its own.
    pub panels: Vec<String>,
    /// Titles of [`METRICS`] that are shown; unless given, all.
    pub metrics: Vec<String>,
    /// A variable and one of its values: the others are shown as multiples of that one's.
    pub baseline: Option<(String, String)>,
}

/// Reads `[report]`.
pub(super) fn read(node: &Node, sweep: &Sweep, reading: &Reading<'_>) -> Picture {
    let mut picture = Picture::default();
    let Some(mut fields) = Fields::of("`[report]`", node, reading.sink) else {
        return picture;
    };
    let variables: Vec<&str> = sweep.names().collect();
    let one_of = |key: &str, what: &str, node: &Node, known: &[&str]| -> Option<String> {
        let name = quantity::text(node)
            .map_err(|wrong| refuse(key, node, wrong, reading.sink))
            .ok()?;
        if known.contains(&name.as_str()) {
            return Some(name);
        }
        let message = format!("`{key}`: no {what} is called `{name}`");
        let mut diagnostic = Diagnostic::new(node.span.clone(), message);
        if let Some(near) = nearest(&name, known.iter().copied()) {
            diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
        } else if !known.is_empty() {
            diagnostic = diagnostic.help(format!("there are {}", listed(known)));
        }
        reading.sink.push(diagnostic);
        None
    };
    let several = |key: &str, what: &str, node: Option<&Node>, known: &[&str]| -> Vec<String> {
        match node.map(|node| (&node.value, node)) {
            Some((Value::Array(items), _)) => items
                .iter()
                .filter_map(|item| one_of(key, what, item, known))
                .collect(),
            Some((_, node)) => {
                refuse(
                    key,
                    node,
                    Wrong::kind(node, "a list of names"),
                    reading.sink,
                );
                Vec::new()
            }
            None => Vec::new(),
        }
    };
    let variable = "variable of `[sweep]`";
    picture.over = fields
        .node("over")
        .and_then(|node| one_of("over", variable, node, &variables));
    let panels = fields.node("panels");
    picture.panels = several("panels", variable, panels, &variables);
    if let (Some(over), Some(panels)) = (&picture.over, panels)
        && picture.panels.contains(over)
    {
        let message = format!("`panels`: `{over}` is what the pictures are drawn over");
        reading
            .sink
            .push(Diagnostic::new(panels.span.clone(), message));
    }
    let titles = METRICS.map(|metric| metric.title);
    picture.metrics = several("metrics", "metric", fields.node("metrics"), &titles);
    if let Some(node) = fields.node("baseline") {
        match &node.value {
            Value::Table(entries) if entries.len() == 1 => {
                let (key, value) = &entries[0];
                let name = Node {
                    span: key.span.clone(),
                    value: Value::Text(key.name.clone()),
                };
                if let Some(name) = one_of("baseline", variable, &name, &variables) {
                    let values = sweep.labels(&name);
                    let known: Vec<&str> = values.iter().map(String::as_str).collect();
                    let label = Node {
                        span: value.span.clone(),
                        value: Value::Text(value.label()),
                    };
                    picture.baseline = one_of("baseline", "value of it", &label, &known)
                        .map(|value| (name, value));
                }
            }
            _ => {
                let wrong = Wrong::kind(node, "a variable with one of its values");
                refuse("baseline", node, wrong, reading.sink);
            }
        }
    }
    fields.finish();
    picture
}
