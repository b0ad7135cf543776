//! Boxes at the edges of hosts: `edge = { … }` of a flow.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairwater_edge::policy::read_selector;
use fairwater_experiment::{Controller, Ecn, EdgeMode, EdgeTreatment, SelectorConfig, TcpConfig};
use fairwater_plane::nearest;

use crate::Context;
use crate::diagnostic::Diagnostic;
use crate::fields::{Fields, InvalidValue};
use crate::quantity;
use crate::tree::{Node, Value};

/// Greatest shift of a window (RFC 7323 §2.3).
const MAX_SCALE: u8 = 14;

/// Greatest weight, as in a policy of an edge.
const MAX_WEIGHT: u16 = 1_000;

/// Whether there is a box: `edge = false` is none, for sweeps over flows with a box and without.
pub(crate) fn is_there(node: &Node) -> bool {
    !matches!(node.value, Value::Boolean(false))
}

/// The selectors of a scenario by name: `[selector.NAME]`, as in a policy of an edge; `None` of one that is wrong.
pub(crate) type Selectors = BTreeMap<String, Option<Arc<SelectorConfig>>>;

/// Reads the tables `[selector.NAME]`.
pub(crate) fn selectors(node: Option<&Node>, context: &Context<'_>) -> Selectors {
    let Some(node) = node else {
        return Selectors::new();
    };
    let Value::Table(entries) = &node.value else {
        if !node.is_unknown() {
            let message = "`[selector]` holds tables with names of their own";
            let diagnostic = Diagnostic::new(node.span.clone(), message);
            context.sink.push(diagnostic);
        }
        return Selectors::new();
    };
    let read = entries.iter().map(|(key, node)| {
        let check =
            |key: &str, node: &Node, name: &str| check_name(key, node, (name, "an edge"), context);
        let selector = read_selector(&key.name, node, context.sink, &check);
        (key.name.clone(), selector.map(Arc::new))
    });
    read.collect()
}

/// Reads what the box does with a flow; `None` if it is not known.
pub(crate) fn read(
    node: &Node,
    selectors: &Selectors,
    context: &Context<'_>,
) -> Option<EdgeTreatment> {
    let mut fields = Fields::of("`edge`", node, context.sink)?;
    let selector = selector(&mut fields, selectors, context);
    let algorithm = match (fields.node("algorithm"), &selector) {
        (Some(node), _) => algorithm(node, "an edge", context),
        (None, Some(selector)) => Some(selector.first.to_string()),
        (None, None) => {
            if fields.node("select").is_none() {
                fields.missing("algorithm");
            }
            None
        }
    };
    let mode = fields.optional("mode", mode).unwrap_or_default();
    let mut flag = |key| fields.optional(key, quantity::boolean).unwrap_or(false);
    let (ecn, police) = (flag("ecn"), flag("police"));
    let max_scale = fields.optional("max_scale", scale);
    let weight_node = fields.node("weight");
    let weight = fields.optional("weight", weight);
    if let (Some(node), EdgeMode::Buffer) = (weight_node, mode) {
        let message = "`weight`: flows divide the windows that their senders are told, and with \
                       `mode = \"buffer\"` the box sends by its own";
        let diagnostic = Diagnostic::new(node.span.clone(), message);
        context
            .sink
            .push(diagnostic.help("remove `weight`, or the mode"));
    }
    fields.finish();
    Some(EdgeTreatment {
        algorithm: algorithm?,
        mode,
        selector,
        ecn,
        police,
        max_scale,
        weight,
    })
}

/// The selector that is named; `None` if none is, or there is none of that name.
fn selector(
    fields: &mut Fields<'_>,
    selectors: &Selectors,
    context: &Context<'_>,
) -> Option<Arc<SelectorConfig>> {
    let node = fields.node("select")?;
    let name = fields.optional("select", quantity::text)?;
    if fields.node("algorithm").is_some() {
        let message = "`select`: the edge names its algorithm";
        let diagnostic = Diagnostic::new(node.span.clone(), message);
        context.sink.push(diagnostic.help("remove one of the two"));
    }
    let Some(found) = selectors.get(&name) else {
        let message = format!("there is no `[selector.{name}]`");
        let mut diagnostic = Diagnostic::new(node.span.clone(), message);
        if let Some(near) = nearest(&name, selectors.keys().map(String::as_str)) {
            diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
        }
        context.sink.push(diagnostic);
        return None;
    };
    found.clone()
}

fn mode(node: &Node) -> Result<EdgeMode, InvalidValue> {
    match &node.value {
        Value::Text(text) if text == "window" => Ok(EdgeMode::Window),
        Value::Text(text) if text == "buffer" => Ok(EdgeMode::Buffer),
        _ => Err(InvalidValue::kind(node, "`\"window\"` or `\"buffer\"`")),
    }
}

/// An algorithm of the plane, for this kind of box.
pub(crate) fn algorithm(node: &Node, of: &str, context: &Context<'_>) -> Option<String> {
    let Value::Text(text) = &node.value else {
        if !node.is_unknown() {
            let message = "`algorithm`: expected the name of an algorithm";
            let diagnostic = Diagnostic::new(node.span.clone(), message);
            context.sink.push(diagnostic);
        }
        return None;
    };
    let said = context.sink.said();
    check_name("algorithm", node, (text, of), context);
    (context.sink.said() == said).then(|| text.clone())
}

/// Refuses what is no algorithm of the plane: neither one inside a sender, nor one of a kernel.
fn check_name(key: &str, node: &Node, (name, of): (&str, &str), context: &Context<'_>) {
    let refuse = |message: String| {
        let diagnostic = Diagnostic::new(node.span.clone(), message);
        context.sink.push(diagnostic);
    };
    if name.starts_with("native:") || name.starts_with("kernel:") {
        refuse(format!(
            "`{key}`: {of} runs an algorithm of `fairwater algorithms`, not `{name}`"
        ));
        return;
    }
    if let Err(faults) = context.resolver.check_algorithm(name) {
        for fault in faults {
            refuse(format!("`{key}`: {fault}"));
        }
    }
}

fn scale(node: &Node) -> Result<u8, InvalidValue> {
    let shift = quantity::integer(node).ok();
    let shift = shift.and_then(|shift| u8::try_from(shift).ok());
    shift
        .filter(|shift| *shift <= MAX_SCALE)
        .ok_or_else(|| InvalidValue {
            message: "the window scale is out of range (RFC 7323 §2.3)".to_owned(),
            allowed: "from 0 to 14".to_owned(),
        })
}

fn weight(node: &Node) -> Result<u16, InvalidValue> {
    let weight = quantity::integer(node).ok();
    let weight = weight.and_then(|weight| u16::try_from(weight).ok());
    weight
        .filter(|weight| (1..=MAX_WEIGHT).contains(weight))
        .ok_or_else(|| InvalidValue {
            message: "the weight is out of range".to_owned(),
            allowed: format!("from 1 to {MAX_WEIGHT}"),
        })
}

/// Refuses a flow that cannot be a guest's.
pub(crate) fn check(node: &Node, controller: &Controller, tcp: &TcpConfig, context: &Context<'_>) {
    let wrong = [
        (
            matches!(controller, Controller::Plane(_)),
            "behind an edge, the flow's `algorithm` is the guest's own, such as `native:cubic`",
        ),
        (
            !matches!(tcp.ecn, Ecn::Off | Ecn::Classic),
            "behind an edge, `ecn` of the flow's `tcp` is `off` or `classic`",
        ),
        (
            !tcp.handshake,
            "behind an edge, a flow needs its `handshake`: the box learns from it",
        ),
    ];
    for (_, message) in wrong.iter().filter(|(is_wrong, _)| *is_wrong) {
        let diagnostic = Diagnostic::new(node.span.clone(), (*message).to_owned());
        context.sink.push(diagnostic);
    }
}
