//! What the report of a grid shows: `[report]`.

use fairwater_plane::nearest;

use crate::Context;
use crate::diagnostic::Diagnostic;
use crate::fields::{Fields, InvalidValue, listed, refuse};
use crate::quantity;
use crate::sweep::Sweep;
use crate::tree::{Node, Value};
use fairwater_results::grid::METRICS;
use fairwater_results::report::GridLayout;

/// Reads `[report]`.
pub(crate) fn read(node: &Node, sweep: &Sweep, context: &Context<'_>) -> GridLayout {
    let mut layout = GridLayout::default();
    let Some(mut fields) = Fields::of("`[report]`", node, context.sink) else {
        return layout;
    };
    let variables: Vec<&str> = sweep.names().collect();
    let one_of = |key: &str, what: &str, node: &Node, known: &[&str]| -> Option<String> {
        let name = quantity::text(node)
            .map_err(|wrong| refuse(key, node, wrong, context.sink))
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
        context.sink.push(diagnostic);
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
                    InvalidValue::kind(node, "a list of names"),
                    context.sink,
                );
                Vec::new()
            }
            None => Vec::new(),
        }
    };
    let variable = "variable of `[sweep]`";
    layout.over = fields
        .node("over")
        .and_then(|node| one_of("over", variable, node, &variables));
    let panels = fields.node("panels");
    layout.panels = several("panels", variable, panels, &variables);
    if let (Some(over), Some(panels)) = (&layout.over, panels)
        && layout.panels.contains(over)
    {
        let message = format!("`panels`: `{over}` is what the plots are drawn over");
        context
            .sink
            .push(Diagnostic::new(panels.span.clone(), message));
    }
    let titles = METRICS.map(|metric| metric.title);
    layout.metrics = several("metrics", "metric", fields.node("metrics"), &titles);
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
                    layout.baseline = one_of("baseline", "value of it", &label, &known)
                        .map(|value| (name, value));
                }
            }
            _ => {
                let wrong = InvalidValue::kind(node, "a variable with one of its values");
                refuse("baseline", node, wrong, context.sink);
            }
        }
    }
    fields.finish();
    layout
}
