//! What a link carries: a rate, a token bucket, a rate that changes, or a delivery trace.

use std::sync::Arc;

use fairwater_net::{Capacity, RateSchedule, Time};

use super::Reading;
use super::diagnostic::Diagnostic;
use super::fields::{Fields, refuse};
use super::files::problem;
use super::quantity;
use super::tree::{Node, Value};

/// Reads `rate`, `burst` and `trace`: whether there was any, and what could be read, with the
/// name of a trace.
pub(super) fn read(
    fields: &mut Fields<'_>,
    reading: &Reading<'_>,
) -> (bool, Option<(Capacity, Option<String>)>) {
    let rate = fields.node("rate");
    let burst = fields.node("burst");
    let trace = fields.node("trace");
    let attempted = rate.or(trace).is_some();
    if let (Some(_), Some(trace)) = (rate, trace) {
        reading.sink.push(Diagnostic::new(
            trace.span.clone(),
            "a link has a `rate` or a `trace`, and this one has both",
        ));
    }
    let constant = rate.is_none_or(|rate| !matches!(rate.value, Value::Array(_)));
    if let Some(burst) = burst
        && (rate.is_none() || !constant)
    {
        let message = "a `burst` is that of a constant `rate`";
        reading
            .sink
            .push(Diagnostic::new(burst.span.clone(), message));
    }
    if let Some(node) = trace {
        return (attempted, read_trace(node, reading));
    }
    let Some(node) = rate else {
        return (attempted, None);
    };
    let capacity = if constant {
        let burst = fields.optional("burst", quantity::some_bytes);
        match quantity::rate(node) {
            Ok(rate) => Some(match burst {
                Some(burst_bytes) => Capacity::TokenBucket { rate, burst_bytes },
                None => Capacity::Rate(rate),
            }),
            Err(wrong) => {
                refuse("rate", node, wrong, reading.sink);
                None
            }
        }
    } else {
        read_schedule(node, reading)
    };
    (attempted, capacity.map(|capacity| (capacity, None)))
}

fn read_trace(node: &Node, reading: &Reading<'_>) -> Option<(Capacity, Option<String>)> {
    let name = match quantity::text(node) {
        Ok(name) => name,
        Err(wrong) => {
            refuse("trace", node, wrong, reading.sink);
            return None;
        }
    };
    match reading.files.trace(&name, reading.surroundings) {
        Ok(trace) => Some((Capacity::Trace(trace), Some(name))),
        Err(problems) => {
            let diagnostic = problem("trace", node, &name, &problems);
            reading.sink.push(diagnostic);
            None
        }
    }
}

/// `[["0s", "10mbit"], ["5s", "2mbit"]]`: a rate from each time on.
fn read_schedule(node: &Node, reading: &Reading<'_>) -> Option<Capacity> {
    let Value::Array(items) = &node.value else {
        return None;
    };
    let before = reading.sink.said();
    let mut steps = Vec::new();
    for item in items {
        match &item.value {
            Value::Array(pair) if pair.len() == 2 => {
                let at = quantity::duration(&pair[0])
                    .map_err(|wrong| refuse("rate", &pair[0], wrong, reading.sink));
                let rate = quantity::rate(&pair[1])
                    .map_err(|wrong| refuse("rate", &pair[1], wrong, reading.sink));
                steps.extend(at.ok().map(|at| Time::ZERO + at).zip(rate.ok()));
            }
            _ if item.is_unknown() => return None,
            _ => reading.sink.push(
                Diagnostic::new(item.span.clone(), "`rate`: this is no step")
                    .label("a time and the rate from then on: `[\"5s\", \"2mbit\"]`"),
            ),
        }
    }
    if reading.sink.said() > before {
        return None;
    }
    match RateSchedule::new(steps) {
        Ok(schedule) => Some(Capacity::Schedule(Arc::new(schedule))),
        Err(error) => {
            for problem in error.problems {
                let message = format!("`rate`: {problem}");
                reading
                    .sink
                    .push(Diagnostic::new(node.span.clone(), message));
            }
            None
        }
    }
}
