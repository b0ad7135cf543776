//! Boxes at the edges of hosts: `edge = { … }` of a flow.

use fairwater_experiment::{Controller, Ecn, EdgeTreatment, TcpConfig};

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

/// Reads what the box does with a flow; `None` if it is not known.
pub(crate) fn read(node: &Node, context: &Context<'_>) -> Option<EdgeTreatment> {
    let mut fields = Fields::of("`edge`", node, context.sink)?;
    let algorithm = match fields.node("algorithm") {
        Some(node) => algorithm(node, context),
        None => {
            fields.missing("algorithm");
            None
        }
    };
    let mut flag = |key| fields.optional(key, quantity::boolean).unwrap_or(false);
    let (ecn, police) = (flag("ecn"), flag("police"));
    let max_scale = fields.optional("max_scale", scale);
    let weight = fields.optional("weight", weight);
    fields.finish();
    Some(EdgeTreatment {
        algorithm: algorithm?,
        ecn,
        police,
        max_scale,
        weight,
    })
}

/// An algorithm of the plane: neither one inside a sender, nor one of a kernel.
fn algorithm(node: &Node, context: &Context<'_>) -> Option<String> {
    let refuse = |message: String| {
        let diagnostic = Diagnostic::new(node.span.clone(), message);
        context.sink.push(diagnostic);
    };
    let Value::Text(text) = &node.value else {
        if !node.is_unknown() {
            refuse("`algorithm`: expected the name of an algorithm".to_owned());
        }
        return None;
    };
    if text.starts_with("native:") || text.starts_with("kernel:") {
        refuse(format!(
            "`algorithm`: an edge runs an algorithm of `fairwater algorithms`, not `{text}`"
        ));
        return None;
    }
    match context.resolver.check_algorithm(text) {
        Ok(()) => Some(text.clone()),
        Err(faults) => {
            for fault in faults {
                refuse(format!("`algorithm`: {fault}"));
            }
            None
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
