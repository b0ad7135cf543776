//! What a link does to packets besides carrying them: loss, jitter, reordering.

use std::time::Duration;

use fairwater_net::{GilbertElliott, Jitter, LossConfig, Probability, Reordering};

use crate::diagnostic::{Diagnostic, Sink};
use crate::fields::{Fields, refuse};
use crate::quantity;
use crate::tree::{Node, Value};

/// Loss, jitter and reordering, as far as they are given.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disturbance {
    pub(crate) loss: Option<LossConfig>,
    pub(crate) jitter: Option<Jitter>,
    pub(crate) reordering: Option<Reordering>,
}

impl Disturbance {
    /// These disturbances, with those of `over` where it has any.
    pub(crate) fn overlaid(self, over: Disturbance) -> Disturbance {
        Disturbance {
            loss: over.loss.or(self.loss),
            jitter: over.jitter.or(self.jitter),
            reordering: over.reordering.or(self.reordering),
        }
    }
}

pub(crate) fn read(fields: &mut Fields<'_>, sink: &Sink) -> Disturbance {
    Disturbance {
        loss: fields.node("loss").and_then(|node| loss(node, sink)),
        jitter: fields.node("jitter").and_then(|node| jitter(node, sink)),
        reordering: fields
            .node("reordering")
            .and_then(|node| reordering(node, sink)),
    }
}

/// `"0.1%"`, or `{ to_bad = "0.1%", to_good = "20%", in_bad = "100%", in_good = "0%" }`.
fn loss(node: &Node, sink: &Sink) -> Option<LossConfig> {
    if !matches!(node.value, Value::Table(_)) {
        return match quantity::probability(node) {
            Ok(Probability::NEVER) => Some(LossConfig::None),
            Ok(probability) => Some(LossConfig::Random(probability)),
            Err(wrong) => {
                refuse("loss", node, wrong, sink);
                None
            }
        };
    }
    let mut fields = Fields::of("`loss`", node, sink)?;
    let to_bad = fields.required("to_bad", quantity::probability);
    let to_good = fields.required("to_good", quantity::probability);
    let in_bad = fields.optional("in_bad", quantity::probability);
    let in_good = fields.optional("in_good", quantity::probability);
    fields.finish();
    let bursts = GilbertElliott::bursts(to_bad?, to_good?);
    Some(LossConfig::GilbertElliott(GilbertElliott {
        loss_in_bad: in_bad.unwrap_or(bursts.loss_in_bad),
        loss_in_good: in_good.unwrap_or(bursts.loss_in_good),
        ..bursts
    }))
}

/// `"2ms"`, or `{ max = "2ms", reorders = true }`.
fn jitter(node: &Node, sink: &Sink) -> Option<Jitter> {
    let (max, reorders) = if let Value::Table(_) = node.value {
        let mut fields = Fields::of("`jitter`", node, sink)?;
        let max = fields.required("max", quantity::duration);
        let reorders = fields.optional("reorders", quantity::boolean);
        fields.finish();
        (max?, reorders.unwrap_or(false))
    } else {
        let max = quantity::duration(node).map_err(|wrong| refuse("jitter", node, wrong, sink));
        (max.ok()?, false)
    };
    (max > Duration::ZERO).then_some(Jitter { max, reorders })
}

/// `{ probability = "1%", extra = "5ms" }`.
fn reordering(node: &Node, sink: &Sink) -> Option<Reordering> {
    if !matches!(node.value, Value::Table(_)) && !node.is_unknown() {
        let message = "`reordering`: which packets are held back, and for how long?";
        sink.push(
            Diagnostic::new(node.span.clone(), message)
                .label("for instance `{ probability = \"1%\", extra = \"5ms\" }`"),
        );
        return None;
    }
    let mut fields = Fields::of("`reordering`", node, sink)?;
    let probability = fields.required("probability", quantity::probability);
    let extra = fields.required("extra", quantity::duration);
    fields.finish();
    Some(Reordering {
        probability: probability?,
        extra: extra?,
    })
}
