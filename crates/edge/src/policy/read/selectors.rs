//! Selectors: `[selector.NAME]` with its clauses.

use std::sync::Arc;
use std::time::Duration;

use fairwater_document::diagnostic::{Diagnostic, Sink};
use fairwater_document::fields::{Fields, InvalidValue, refuse};
use fairwater_document::quantity;
use fairwater_document::tree::{Node, Value};
use fairwater_net::Probability;

use crate::select::{Clause, Condition, Measure, SelectorConfig};

/// Most clauses of a selector.
const MAX_CLAUSES: usize = 16;
/// Greatest margin, per cent.
const MAX_MARGIN: Probability = Probability::percent(90);
/// Longest window, and longest hold time.
const MAX_TIME: Duration = Duration::from_secs(3600);

/// Where what is wrong goes, and what says so of an algorithm's name: it gets the key, its value and the name.
pub(super) struct Reading<'a> {
    pub(super) sink: &'a Sink,
    pub(super) check_algorithm: &'a dyn Fn(&str, &Node, &str),
}

/// Reads a selector: the table `[selector.NAME]` of a policy of an edge, for other documents that have one.
/// `check_algorithm` gets key, value and name of each algorithm, and tells `sink` if there is none of that name. `None`
/// if something is wrong; `sink` has it then.
#[must_use]
pub fn read_selector(
    name: &str,
    node: &Node,
    sink: &Sink,
    check_algorithm: &dyn Fn(&str, &Node, &str),
) -> Option<SelectorConfig> {
    let reading = Reading {
        sink,
        check_algorithm,
    };
    selector(&Arc::from(name), node, &reading)
}

/// Reads a selector.
pub(super) fn selector(
    name: &Arc<str>,
    node: &Node,
    reading: &Reading<'_>,
) -> Option<SelectorConfig> {
    let mut fields = Fields::of("a selector", node, reading.sink)?;
    let said = reading.sink.said();
    let hold = fields.optional("hold", time).unwrap_or_default();
    let window = fields.optional("window", time).unwrap_or_default();
    let margin = fields.optional("margin", margin).unwrap_or_default();
    let least_packets = fields.optional("least_packets", quantity::integer);
    let first = algorithm(&mut fields, "first", reading);
    let clauses = clauses(&mut fields, reading);
    fields.finish();
    if reading.sink.said() != said {
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
    reading: &Reading<'_>,
) -> Option<Arc<str>> {
    let node = fields.node(key)?;
    let name = fields.optional(key, quantity::text)?;
    (reading.check_algorithm)(key, node, &name);
    Some(Arc::from(name))
}

fn clauses(fields: &mut Fields<'_>, reading: &Reading<'_>) -> Vec<Clause> {
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
        reading
            .sink
            .push(Diagnostic::new(node.span.clone(), message));
    };
    if items.is_empty() || items.len() > MAX_CLAUSES {
        say(node, format!("a selector has 1 to {MAX_CLAUSES} clauses"));
    }
    let mut clauses = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let Some(clause) = clause(item, reading) else {
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

fn clause(node: &Node, reading: &Reading<'_>) -> Option<Clause> {
    let mut fields = Fields::of("a clause", node, reading.sink)?;
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
            reading
                .sink
                .push(Diagnostic::new(node.span.clone(), message));
        }
        conditions.extend(below.map(|value| Condition::Below(measure, value)));
        conditions.extend(above.map(|value| Condition::Above(measure, value)));
    }
    if fields.node("algorithm").is_none() {
        fields.missing("algorithm");
    }
    let algorithm = algorithm(&mut fields, "algorithm", reading);
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
