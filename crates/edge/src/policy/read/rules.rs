//! One rule of the file.

use std::sync::Arc;

use fairwater_document::diagnostic::Diagnostic;
use fairwater_document::fields::Fields;
use fairwater_document::tree::Node;
use fairwater_document::{network, quantity};
use fairwater_lang::nearest;

use super::{Document, values};
use crate::policy::conditions::ANY_PORT;
use crate::policy::{Action, Conditions, Rule, Share, Treatment, WhenStarved};

/// Reads a rule; `None` if it was not understood, and a diagnostic says why.
pub(super) fn rule(mut fields: Fields<'_>, document: &mut Document<'_>) -> Option<Rule> {
    let said = fields.sink.said();
    let line = document.line(&fields.span);
    let conditions = Conditions {
        ports: values::list(&mut fields, "port", values::port_pattern),
        vlans: values::list(&mut fields, "vlan", values::vlan),
        guests: values::list(&mut fields, "guest", values::prefix),
        peers: values::list(&mut fields, "peer", values::prefix),
        guest_ports: ports(&mut fields, "guest_port"),
        peer_ports: ports(&mut fields, "peer_port"),
    };
    let tenant = tenant(&mut fields, document);
    if let Some(node) = fields.node("cgroup") {
        let message = "`cgroup`: an edge sees the packets of a guest, not its sockets";
        let help = "name the guest's port; cgroups of this host's own sockets belong into the \
                    configuration of `fairwater up`";
        let diagnostic = Diagnostic::new(node.span.clone(), message).help(help);
        fields.sink.push(diagnostic);
    }
    let when_starved = fields.optional("when_starved", values::when_starved);
    let action = action(&mut fields, document, when_starved);
    let sink = fields.sink;
    fields.finish();
    if sink.said() != said {
        return None;
    }
    Some(Rule {
        line,
        tenant,
        conditions,
        action: action?,
        when_starved,
    })
}

fn ports(fields: &mut Fields<'_>, key: &'static str) -> std::ops::RangeInclusive<u16> {
    fields.optional(key, network::ports).unwrap_or(ANY_PORT)
}

fn tenant(fields: &mut Fields<'_>, document: &mut Document<'_>) -> Option<(Arc<str>, Conditions)> {
    let node = fields.node("tenant")?;
    let name = fields.optional("tenant", quantity::text)?;
    let names: Vec<_> = document.tenants.iter().map(|each| &*each.name).collect();
    let near = nearest(&name, names).map(str::to_owned);
    let found = document.tenants.iter_mut().find(|each| *each.name == *name);
    let Some(tenant) = found else {
        unknown(fields, node, "tenant", &name, near);
        return None;
    };
    tenant.is_used = true;
    Some((Arc::clone(&tenant.name), tenant.value.clone()))
}

/// Says that there is no `[KIND.NAME]`.
fn unknown(fields: &Fields<'_>, node: &Node, kind: &str, name: &str, near: Option<String>) {
    let message = format!("there is no `[{kind}.{name}]`");
    let mut diagnostic = Diagnostic::new(node.span.clone(), message);
    if let Some(near) = near {
        diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
    }
    fields.sink.push(diagnostic);
}

/// Keys that say how a connection is controlled.
const OF_CONTROL: [&str; 10] = [
    "algorithm",
    "select",
    "mode",
    "ecn",
    "police",
    "max_scale",
    "native_ecn",
    "weight",
    "group",
    "pass",
];

fn action(
    fields: &mut Fields<'_>,
    document: &mut Document<'_>,
    when_starved: Option<WhenStarved>,
) -> Option<Action> {
    let pass = fields.node("pass");
    let is_pass = fields.optional("pass", quantity::boolean);
    let treatment = treatment(fields, document);
    if let Some(node) = pass {
        if is_pass == Some(false) {
            let message = "`pass`: it is `true` or left out";
            fields
                .sink
                .push(Diagnostic::new(node.span.clone(), message));
        }
        for key in &OF_CONTROL[..OF_CONTROL.len() - 1] {
            if let Some(other) = fields.node(key) {
                let message = format!("`{key}`: the rule passes its connections");
                let diagnostic = Diagnostic::new(other.span.clone(), message);
                fields.sink.push(diagnostic.help("remove one of the two"));
            }
        }
        if when_starved == Some(WhenStarved::Control) {
            let message = "a rule with `when_starved = \"control\"` says how: it has an \
                           `algorithm`, and no `pass`";
            let diagnostic = Diagnostic::new(fields.span.clone(), message);
            fields.sink.push(diagnostic);
        }
        return Some(Action::Pass);
    }
    if treatment.algorithm.is_empty() {
        if fields.node("algorithm").is_none() {
            let message = "a rule has one of `pass`, `algorithm` and `select`";
            let diagnostic = Diagnostic::new(fields.span.clone(), message);
            fields.sink.push(diagnostic);
        }
        return None;
    }
    if when_starved == Some(WhenStarved::Propose) {
        let message = "a rule that controls its connections proposes none";
        let diagnostic = Diagnostic::new(fields.span.clone(), message);
        let help =
            "add `pass = true` in place of the algorithm, or say `when_starved = \"control\"`";
        fields.sink.push(diagnostic.help(help));
    }
    Some(Action::Control(treatment))
}

fn treatment(fields: &mut Fields<'_>, document: &mut Document<'_>) -> Treatment {
    let algorithm = algorithm(fields, document);
    fields.optional("mode", values::mode);
    fields.optional("native_ecn", values::native_ecn);
    let mut boolean = |key| fields.optional(key, quantity::boolean).unwrap_or(false);
    let (ecn, police) = (boolean("ecn"), boolean("police"));
    let weight = fields.optional("weight", values::weight);
    let group = fields.node("group").map(|node| node.span.clone());
    let name = fields.optional("group", quantity::text).unwrap_or_default();
    if let (Some(span), None) = (group, fields.node("weight")) {
        let message = "`group`: a member of a group has a `weight`";
        fields.sink.push(Diagnostic::new(span, message));
    }
    Treatment {
        algorithm,
        ecn,
        police,
        max_scale: fields.optional("max_scale", values::max_scale),
        share: weight.map(|weight| Share {
            group: Arc::from(name),
            weight,
        }),
        selector: None,
    }
}

/// The algorithm's name; empty if there is none, or a wrong one.
fn algorithm(fields: &mut Fields<'_>, document: &Document<'_>) -> Arc<str> {
    let nothing = || Arc::from("");
    let Some(node) = fields.node("algorithm") else {
        return nothing();
    };
    let Some(name) = fields.optional("algorithm", quantity::text) else {
        return nothing();
    };
    document.check_algorithm("algorithm", node, &name);
    Arc::from(name)
}

impl Document<'_> {
    /// Says so if there is no algorithm of that name.
    pub(super) fn check_algorithm(&self, key: &str, node: &Node, name: &str) {
        let Some(known) = self.algorithms else {
            return;
        };
        if known.contains(&name) {
            return;
        }
        let message = format!("`{key}`: no algorithm is called `{name}`");
        let mut diagnostic = Diagnostic::new(node.span.clone(), message);
        if let Some(near) = nearest(name, known.iter().copied()) {
            diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
        }
        self.sink.push(diagnostic);
    }
}
