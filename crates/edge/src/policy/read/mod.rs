//! The policy as a file: read with every mistake under its line.

mod expand;
mod rules;
mod selectors;
mod values;

pub use selectors::read_selector;

use std::ops::Range;
use std::sync::Arc;

use fairwater_document::diagnostic::{Diagnostic, Diagnostics, Sink};
use fairwater_document::fields::Fields;
use fairwater_document::quantity;
use fairwater_document::tree::{self, Key, Node, Value};

use crate::buffer::BufferConfig;
use crate::select::SelectorConfig;

use super::{Conditions, Defaults, EdgePolicy, Rule};

/// A policy that was read.
#[derive(Debug, Clone)]
pub struct ParsedPolicy {
    /// The policy.
    pub policy: EdgePolicy,
    /// What is allowed, and probably not what was meant.
    pub warnings: Diagnostics,
}

impl EdgePolicy {
    /// Reads a policy. `algorithms` are the names that may be used; `None` leaves them to the caller.
    ///
    /// # Errors
    /// Everything that is wrong, each mistake under its line.
    pub fn parse(
        file_name: &str,
        source: &str,
        algorithms: Option<&[&str]>,
    ) -> Result<ParsedPolicy, Diagnostics> {
        let sink = Sink::default();
        let root = tree::parse(source, &sink);
        let mut document = Document {
            source,
            algorithms,
            tenants: Vec::new(),
            selectors: Vec::new(),
            sink: &sink,
        };
        let policy = Fields::of("the policy", &root, &sink)
            .map(|fields| document.read(fields))
            .unwrap_or_default();
        let warnings = sink.finish_with_warnings(file_name, source)?;
        Ok(ParsedPolicy { policy, warnings })
    }
}

/// A table with a name of its own: `[tenant.blue]`.
struct Named<T> {
    name: Arc<str>,
    span: Range<usize>,
    /// `None` if it was not understood.
    value: Option<T>,
    is_used: bool,
}

/// What rules are read with.
struct Document<'a> {
    source: &'a str,
    algorithms: Option<&'a [&'a str]>,
    tenants: Vec<Named<Conditions>>,
    selectors: Vec<Named<Arc<SelectorConfig>>>,
    sink: &'a Sink,
}

impl<'a> Document<'a> {
    fn read(&mut self, mut root: Fields<'a>) -> EdgePolicy {
        let sink = self.sink;
        let defaults = root
            .node("defaults")
            .and_then(|node| Fields::of("`[defaults]`", node, sink))
            .map(defaults)
            .unwrap_or_default();
        self.tenants = named(root.node("tenant"), "`[tenant]`", sink, |_, node| {
            Fields::of("a tenant", node, sink).map(values::tenant)
        });
        self.selectors = named(root.node("selector"), "`[selector]`", sink, |name, node| {
            let reading = selectors::Reading {
                sink,
                check_algorithm: &|key, node, name| self.check_algorithm(key, node, name),
            };
            selectors::selector(name, node, &reading).map(Arc::new)
        });
        let selectors = self.selectors.iter().filter_map(|each| each.value.clone());
        let mut policy = EdgePolicy {
            selectors: selectors.collect(),
            defaults,
            ..EdgePolicy::default()
        };
        let mut spans = Vec::new();
        let said = sink.said();
        if let Some(node) = root.node("rule") {
            for (rule, span) in self.rules(node) {
                let index = policy.rules.len();
                expand::expand(&mut policy, index, &rule, &span, sink);
                policy.rules.push(rule);
                spans.push(span);
            }
        }
        root.finish();
        // Of rules that were not all understood, nothing is known about what hides what.
        if sink.said() == said {
            self.warn(&policy, &spans);
        }
        policy
    }

    fn rules(&mut self, node: &'a Node) -> Vec<(Rule, Range<usize>)> {
        let Value::Array(items) = &node.value else {
            if !node.is_unknown() {
                let message = "rules are tables: `[[rule]]`";
                self.sink.push(Diagnostic::new(node.span.clone(), message));
            }
            return Vec::new();
        };
        let rules = items.iter().filter_map(|item| {
            let fields = Fields::of("a rule", item, self.sink)?;
            Some((rules::rule(fields, self)?, item.span.clone()))
        });
        rules.collect()
    }

    /// Warns of rules that can never match, and of what no rule uses.
    fn warn(&self, policy: &EdgePolicy, spans: &[Range<usize>]) {
        for (rule, hiding) in policy.shadowed() {
            let (Some(span), Some(earlier)) = (spans.get(rule), policy.rules.get(hiding)) else {
                continue;
            };
            let message = "the rule never matches: earlier ones match all that it would";
            let label = format!("see line {}: {earlier}", earlier.line);
            let warning = Diagnostic::warning(span.clone(), message).label(label);
            self.sink
                .push(warning.help("the first rule that matches counts: move it up, or remove it"));
        }
        unused(&self.tenants, "tenant", self.sink);
        unused(&self.selectors, "selector", self.sink);
    }

    /// The line of a place in the file, from 1.
    fn line(&self, span: &Range<usize>) -> usize {
        let before = self.source.get(..span.start).unwrap_or(self.source);
        before.matches('\n').count() + 1
    }
}

/// Warns of what no rule uses.
fn unused<T>(all: &[Named<T>], kind: &str, sink: &Sink) {
    for each in all.iter().filter(|each| !each.is_used) {
        let message = format!("no rule uses {kind} `{}`", each.name);
        sink.push(Diagnostic::warning(each.span.clone(), message));
    }
}

/// Reads a table of tables with names of their own, in the order of the file.
fn named<T>(
    node: Option<&Node>,
    what: &'static str,
    sink: &Sink,
    read: impl Fn(&Arc<str>, &Node) -> Option<T>,
) -> Vec<Named<T>> {
    let Some(node) = node else {
        return Vec::new();
    };
    let Value::Table(entries) = &node.value else {
        if !node.is_unknown() {
            let message = format!("{what} holds tables with names of their own");
            sink.push(Diagnostic::new(node.span.clone(), message));
        }
        return Vec::new();
    };
    let mut entries: Vec<&(Key, Node)> = entries.iter().collect();
    entries.sort_by_key(|(key, _)| key.span.start);
    let read = entries.into_iter().map(|(key, node)| {
        let name = Arc::from(key.name.as_str());
        Named {
            span: key.span.clone(),
            value: read(&name, node),
            name,
            is_used: false,
        }
    });
    read.collect()
}

fn defaults(mut fields: Fields<'_>) -> Defaults {
    let usual = Defaults::default();
    let table = usual.table;
    let mut count = |key, usual: usize| {
        let read = fields.optional(key, values::flows);
        read.unwrap_or(usual)
    };
    let (max_flows, max_flows_per_interface, max_half_open) = (
        count("max_flows", table.max_flows),
        count("max_flows_per_port", table.max_flows_per_interface),
        count("max_half_open", table.max_half_open),
    );
    let mut period = |key, usual| fields.optional(key, quantity::period).unwrap_or(usual);
    let (idle, closing, half_open) = (
        period("idle", table.idle),
        period("closing", table.closing),
        period("half_open", table.half_open),
    );
    let mut bytes = |key, usual: usize| {
        let read = fields.optional(key, values::buffer);
        read.unwrap_or(usual)
    };
    let buffers = BufferConfig {
        max_flow_bytes: bytes("max_buffer_per_flow", usual.buffers.max_flow_bytes),
        max_bytes: bytes("max_buffers", usual.buffers.max_bytes),
        ..usual.buffers
    };
    let defaults = Defaults {
        buffers,
        grace: fields
            .optional("grace", values::grace)
            .unwrap_or(usual.grace),
        on_plane_loss: fields
            .optional("on_plane_loss", values::on_plane_loss)
            .unwrap_or_default(),
        propose: fields
            .optional("propose", quantity::boolean)
            .unwrap_or(usual.propose),
        table: crate::track::TableConfig {
            max_flows,
            max_flows_per_interface,
            max_half_open,
            idle,
            closing,
            half_open,
            ..table
        },
    };
    fields.finish();
    defaults
}
