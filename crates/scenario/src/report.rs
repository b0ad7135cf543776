//! What the report of a grid shows: `[report]`.

use fairwater_plane::nearest;

use crate::Context;
use crate::diagnostic::{Diagnostic, Sink};
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
    let names: Vec<&str> = sweep.names().collect();
    let variables = Known {
        what: "variable of `[sweep]`",
        names: &names,
        sink: context.sink,
    };
    let titles = METRICS.map(|metric| metric.title);
    let metrics = Known {
        what: "metric",
        names: &titles,
        sink: context.sink,
    };
    let over = fields.node("over");
    layout.over = over.and_then(|node| variables.one("over", node));
    let panels = fields.node("panels");
    layout.panels = variables.several("panels", panels);
    if let (Some(over), Some(panels)) = (&layout.over, panels)
        && layout.panels.contains(over)
    {
        let message = format!("`panels`: `{over}` is what the plots are drawn over");
        context
            .sink
            .push(Diagnostic::new(panels.span.clone(), message));
    }
    layout.metrics = metrics.several("metrics", fields.node("metrics"));
    let baseline = fields.node("baseline");
    layout.baseline = baseline.and_then(|node| baseline_of(node, sweep, &variables));
    fields.finish();
    layout
}

/// `baseline = { algorithm = "cubic" }`: a variable with one of its values.
fn baseline_of(node: &Node, sweep: &Sweep, variables: &Known<'_>) -> Option<(String, String)> {
    let entry = match &node.value {
        Value::Table(entries) if entries.len() == 1 => entries.first(),
        _ => None,
    };
    let Some((key, value)) = entry else {
        let invalid = InvalidValue::kind(node, "a variable with one of its values");
        refuse("baseline", node, invalid, variables.sink);
        return None;
    };
    let name = Node {
        span: key.span.clone(),
        value: Value::Text(key.name.clone()),
    };
    let name = variables.one("baseline", &name)?;
    let label = Node {
        span: value.span.clone(),
        value: Value::Text(value.label()),
    };
    let labels = sweep.labels(&name);
    let values = Known {
        what: &format!("value of `{name}`"),
        names: &labels.iter().map(String::as_str).collect::<Vec<_>>(),
        sink: variables.sink,
    };
    let value = values.one("baseline", &label)?;
    Some((name, value))
}

/// The names that a key may take.
struct Known<'a> {
    /// What each name is called in messages.
    what: &'a str,
    names: &'a [&'a str],
    sink: &'a Sink,
}

impl Known<'_> {
    /// The name that a node gives, if the name is known; otherwise says which are.
    fn one(&self, key: &str, node: &Node) -> Option<String> {
        let name = quantity::text(node)
            .map_err(|invalid| refuse(key, node, invalid, self.sink))
            .ok()?;
        if self.names.contains(&name.as_str()) {
            return Some(name);
        }
        let message = format!("`{key}`: no {} is called `{name}`", self.what);
        let mut diagnostic = Diagnostic::new(node.span.clone(), message);
        if let Some(near) = nearest(&name, self.names.iter().copied()) {
            diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
        } else if !self.names.is_empty() {
            diagnostic = diagnostic.help(format!("there are {}", listed(self.names)));
        }
        self.sink.push(diagnostic);
        None
    }

    /// The known names of a list.
    fn several(&self, key: &str, node: Option<&Node>) -> Vec<String> {
        let Some(node) = node else {
            return Vec::new();
        };
        let Value::Array(items) = &node.value else {
            let invalid = InvalidValue::kind(node, "a list of names");
            refuse(key, node, invalid, self.sink);
            return Vec::new();
        };
        let names = items.iter().filter_map(|item| self.one(key, item));
        names.collect()
    }
}
