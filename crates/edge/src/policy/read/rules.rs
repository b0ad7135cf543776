//! One rule of the file.

use std::sync::Arc;

use fairwater_document::diagnostic::Diagnostic;
use fairwater_document::fields::Fields;
use fairwater_document::tree::Node;
use fairwater_document::{network, quantity};
use fairwater_lang::nearest;

use super::{Document, Named, values};
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
    let (name, tenant) = of_name(fields, "tenant", "tenant", &mut document.tenants)?;
    Some((name, tenant.clone()))
}

/// What a key names of the tables `[KIND.NAME]`; `None`, with a diagnostic there or here, if that cannot be.
fn of_name<'t, T>(
    fields: &mut Fields<'_>,
    key: &'static str,
    kind: &str,
    all: &'t mut [Named<T>],
) -> Option<(Arc<str>, &'t T)> {
    let node = fields.node(key)?;
    let name = fields.optional(key, quantity::text)?;
    let Some(index) = all.iter().position(|each| *each.name == *name) else {
        let message = format!("there is no `[{kind}.{name}]`");
        let mut diagnostic = Diagnostic::new(node.span.clone(), message);
        if let Some(near) = nearest(&name, all.iter().map(|each| &*each.name)) {
            diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
        }
        fields.sink.push(diagnostic);
        return None;
    };
    let found = all.get_mut(index)?;
    found.is_used = true;
    let value = found.value.as_ref()?;
    Some((Arc::clone(&found.name), value))
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
    let mut treatment = treatment(fields, document);
    treatment.only_starved = when_starved == Some(WhenStarved::Control);
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
        if fields.node("algorithm").is_none() && fields.node("select").is_none() {
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
    let mut algorithm = algorithm(fields, document);
    let selector = of_name(fields, "select", "selector", &mut document.selectors);
    let selector = selector.map(|(_, selector)| Arc::clone(selector));
    if let (Some(node), Some(_)) = (fields.node("select"), fields.node("algorithm")) {
        let message = "`select`: the rule names its algorithm";
        let diagnostic = Diagnostic::new(node.span.clone(), message);
        fields.sink.push(diagnostic.help("remove one of the two"));
    }
    if let Some(selector) = &selector {
        algorithm = Arc::clone(&selector.first);
    }
    let mode = fields.optional("mode", values::mode).unwrap_or_default();
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
        selector,
        mode,
        ..Treatment::default()
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
