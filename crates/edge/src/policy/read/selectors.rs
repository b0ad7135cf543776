//! Selectors: `[selector.NAME]` with its clauses.

use std::sync::Arc;
use std::time::Duration;

use fairwater_document::diagnostic::Diagnostic;
use fairwater_document::fields::{Fields, InvalidValue, refuse};
use fairwater_document::quantity;
use fairwater_document::tree::{Node, Value};
use fairwater_net::Probability;

use super::Document;
use crate::select::{Clause, Condition, Measure, SelectorConfig};

/// Most clauses of a selector.
const MAX_CLAUSES: usize = 16;
/// Greatest margin, per cent.
const MAX_MARGIN: Probability = Probability::percent(90);
/// Longest window, and longest hold time.
const MAX_TIME: Duration = Duration::from_secs(3600);

/// Reads a selector.
pub(super) fn selector(
    name: &Arc<str>,
    node: &Node,
    document: &Document<'_>,
) -> Option<SelectorConfig> {
    let mut fields = Fields::of("a selector", node, document.sink)?;
    let said = document.sink.said();
    let hold = fields.optional("hold", time).unwrap_or_default();
    let window = fields.optional("window", time).unwrap_or_default();
    let margin = fields.optional("margin", margin).unwrap_or_default();
    let least_packets = fields.optional("least_packets", quantity::integer);
    let first = algorithm(&mut fields, "first", document);
    let clauses = clauses(&mut fields, document);
    fields.finish();
    if document.sink.said() != said {
        return None;
    }
    let first = first.or_else(|| Some(Arc::clone(&clauses.first()?.algorithm)))?;
    Some(SelectorConfig {
        name: Arc::clone(name),
        first,
        hold,
        window,
        margin,
        least_packets: least_packets.unwrap_or(0),
        clauses,
    })
}

/// The name of an algorithm.
fn algorithm(
    fields: &mut Fields<'_>,
    key: &'static str,
    document: &Document<'_>,
) -> Option<Arc<str>> {
    let node = fields.node(key)?;
    let name = fields.optional(key, quantity::text)?;
    document.check_algorithm(key, node, &name);
    Some(Arc::from(name))
}

fn clauses(fields: &mut Fields<'_>, document: &Document<'_>) -> Vec<Clause> {
    let Some(node) = fields.node("when") else {
        fields.missing("when");
        return Vec::new();
    };
    let Value::Array(items) = &node.value else {
        let wrong = InvalidValue::kind(node, "clauses: `[[selector.NAME.when]]`");
        refuse("when", node, wrong, fields.sink);
        return Vec::new();
    };
    let say = |node: &Node, message: String| {
        document
            .sink
            .push(Diagnostic::new(node.span.clone(), message));
    };
    if items.is_empty() || items.len() > MAX_CLAUSES {
        say(node, format!("a selector has 1 to {MAX_CLAUSES} clauses"));
    }
    let mut clauses = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let Some(clause) = clause(item, document) else {
            continue;
        };
        let is_last = index + 1 == items.len();
        if is_last && !clause.conditions.is_empty() {
            let message = "the last clause has no condition: it is for all other flows";
            say(item, message.to_owned());
        }
        if !is_last && clause.conditions.is_empty() {
            let message = "a clause without conditions always holds: it is the last one";
            say(item, message.to_owned());
        }
        clauses.push(clause);
    }
    clauses
}

fn clause(node: &Node, document: &Document<'_>) -> Option<Clause> {
    let mut fields = Fields::of("a clause", node, document.sink)?;
    let mut conditions = Vec::new();
    let boolean = |fields: &mut Fields<'_>, key| fields.optional(key, quantity::boolean);
    conditions.extend(boolean(&mut fields, "lost").map(Condition::Lost));
    conditions.extend(boolean(&mut fields, "marked").map(Condition::Marked));
    for (measure, below, above) in [
        (Measure::Rtt, "rtt_below", "rtt_above"),
        (Measure::MinRtt, "min_rtt_below", "min_rtt_above"),
        (Measure::Queueing, "queueing_below", "queueing_above"),
        (Measure::Loss, "loss_below", "loss_above"),
    ] {
        let read = match measure {
            Measure::Loss => loss_ppb,
            _ => micros,
        };
        let below = fields.optional(below, read);
        let above = fields.optional(above, read);
        if let (Some(below), Some(above)) = (below, above)
            && above >= below
        {
            let message = format!("the clause never holds: no {measure} is above and below these");
            document
                .sink
                .push(Diagnostic::new(node.span.clone(), message));
        }
        conditions.extend(below.map(|value| Condition::Below(measure, value)));
        conditions.extend(above.map(|value| Condition::Above(measure, value)));
    }
    if fields.node("algorithm").is_none() {
        fields.missing("algorithm");
    }
    let algorithm = algorithm(&mut fields, "algorithm", document);
    fields.finish();
    Some(Clause {
        conditions,
        algorithm: algorithm?,
    })
}

fn time(node: &Node) -> Result<Duration, InvalidValue> {
    let time = quantity::duration(node)?;
    if time <= MAX_TIME {
        return Ok(time);
    }
    Err(InvalidValue {
        message: "it is out of range".to_owned(),
        allowed: "0ms to 60min".to_owned(),
    })
}

fn margin(node: &Node) -> Result<Probability, InvalidValue> {
    let margin = quantity::probability(node)?;
    if margin <= MAX_MARGIN {
        return Ok(margin);
    }
    Err(InvalidValue {
        message: "it is out of range".to_owned(),
        allowed: "0% to 90% of the threshold".to_owned(),
    })
}

fn micros(node: &Node) -> Result<u64, InvalidValue> {
    let time = quantity::period(node)?;
    Ok(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

fn loss_ppb(node: &Node) -> Result<u64, InvalidValue> {
    quantity::probability(node).map(|share| share.ppb().into())
}
