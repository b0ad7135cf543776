//! What a link carries: a rate, a token bucket, a rate that changes, aggregates, or a delivery
//! trace.

use std::sync::Arc;
use std::time::Duration;

use fairwater_net::{Aggregation, Capacity, RateSchedule, ScheduleStepError, Time};

use crate::Context;
use crate::diagnostic::Diagnostic;
use crate::fields::{Fields, refuse};
use crate::files::problem;
use crate::quantity;
use crate::tree::{Node, Value};

/// Reads `rate`, `burst`, `aggregate` and `trace`: whether there was any, and what could be read, with the
/// name of a trace.
pub(crate) fn read(
    fields: &mut Fields<'_>,
    context: &Context<'_>,
) -> (bool, Option<(Capacity, Option<String>)>) {
    let rate = fields.node("rate");
    let burst = fields.node("burst");
    let aggregate = fields.node("aggregate");
    let trace = fields.node("trace");
    let attempted = rate.or(trace).is_some();
    if let (Some(_), Some(trace)) = (rate, trace) {
        context.sink.push(Diagnostic::new(
            trace.span.clone(),
            "a link has a `rate` or a `trace`, and this one has both",
        ));
    }
    let constant = rate.is_none_or(|rate| !matches!(rate.value, Value::Array(_)));
    if let Some(burst) = burst
        && rate.is_none()
    {
        let message = "`burst` needs a `rate`";
        context
            .sink
            .push(Diagnostic::new(burst.span.clone(), message));
    }
    if let Some(node) = aggregate
        && (rate.is_none() || !constant || burst.is_some())
    {
        let message = "an `aggregate` belongs to a constant `rate` without a `burst`";
        context
            .sink
            .push(Diagnostic::new(node.span.clone(), message));
    }
    if let Some(node) = trace {
        return (attempted, read_trace(node, context));
    }
    let Some(node) = rate else {
        return (attempted, None);
    };
    let burst = fields.optional("burst", quantity::some_bytes);
    let capacity = if constant {
        read_constant(node, burst, aggregate, context)
    } else {
        let fill = read_schedule(node, context).map(Arc::new);
        fill.map(|fill| match burst {
            Some(burst_bytes) => Capacity::TokenBucket { fill, burst_bytes },
            None => Capacity::Schedule(fill),
        })
    };
    (attempted, capacity.map(|capacity| (capacity, None)))
}

/// A constant rate, with what belongs to it.
fn read_constant(
    node: &Node,
    burst: Option<u64>,
    aggregate: Option<&Node>,
    context: &Context<'_>,
) -> Option<Capacity> {
    let rate = quantity::rate(node)
        .map_err(|wrong| refuse("rate", node, wrong, context.sink))
        .ok()?;
    Some(match (burst, aggregate) {
        (Some(burst_bytes), _) => Capacity::token_bucket(rate, burst_bytes),
        (None, Some(node)) => {
            let aggregation = read_aggregation(node, context)?;
            Capacity::Aggregates(Aggregation {
                rate,
                ..aggregation
            })
        }
        (None, None) => Capacity::Rate(rate),
    })
}

/// `{ frames = 32, airtime = "4ms", gap = "100us" }`; the rate is the caller's.
fn read_aggregation(node: &Node, context: &Context<'_>) -> Option<Aggregation> {
    let mut fields = Fields::of("`aggregate`", node, context.sink)?;
    let frames = fields.required("frames", quantity::count);
    let airtime = fields.optional("airtime", quantity::period);
    let gap = fields.required("gap", quantity::duration);
    fields.finish();
    let (airtime, gap) = (airtime.unwrap_or(Aggregation::MAX_AIRTIME), gap?);
    let frames = frames.and_then(|frames| u32::try_from(frames).ok());
    match frames {
        Some(frames @ 1..=256)
            if airtime <= Aggregation::MAX_AIRTIME && gap <= Duration::from_secs(1) =>
        {
            Some(Aggregation {
                rate: fairwater_net::Rate::from_bps(1)?,
                frames,
                airtime,
                gap,
            })
        }
        _ => {
            let message = "`aggregate` is out of range";
            let label = "1 to 256 `frames`, at most 5484us of `airtime`, a `gap` of at most 1s";
            context
                .sink
                .push(Diagnostic::new(node.span.clone(), message).label(label));
            None
        }
    }
}

fn read_trace(node: &Node, context: &Context<'_>) -> Option<(Capacity, Option<String>)> {
    let name = match quantity::text(node) {
        Ok(name) => name,
        Err(wrong) => {
            refuse("trace", node, wrong, context.sink);
            return None;
        }
    };
    match context.files.trace(&name, context.resolver) {
        Ok(trace) => Some((Capacity::Trace(trace), Some(name))),
        Err(problems) => {
            let diagnostic = problem("trace", node, &name, &problems);
            context.sink.push(diagnostic);
            None
        }
    }
}

/// `[["0s", "10mbit"], ["5s", "2mbit"]]`: a rate from each time on.
fn read_schedule(node: &Node, context: &Context<'_>) -> Option<RateSchedule> {
    let Value::Array(items) = &node.value else {
        return None;
    };
    let before = context.sink.said();
    let mut steps = Vec::new();
    for item in items {
        match &item.value {
            Value::Array(pair) if pair.len() == 2 => {
                let at = quantity::duration(&pair[0])
                    .map_err(|wrong| refuse("rate", &pair[0], wrong, context.sink));
                let rate = quantity::rate(&pair[1])
                    .map_err(|wrong| refuse("rate", &pair[1], wrong, context.sink));
                steps.extend(at.ok().map(|at| Time::ZERO + at).zip(rate.ok()));
            }
            _ if item.is_unknown() => return None,
            _ => context.sink.push(
                Diagnostic::new(item.span.clone(), "`rate`: not a step")
                    .label("a time and the rate from then on: `[\"5s\", \"2mbit\"]`"),
            ),
        }
    }
    if context.sink.said() > before {
        return None;
    }
    match RateSchedule::new(steps) {
        Ok(schedule) => Some(schedule),
        Err(error) => {
            for error in error.errors {
                let step = match error {
                    ScheduleStepError::Empty => node,
                    ScheduleStepError::LateStart { .. } => &items[0],
                    ScheduleStepError::NotRising { step, .. } => &items[step - 1],
                };
                let message = format!("`rate`: {error}");
                context
                    .sink
                    .push(Diagnostic::new(step.span.clone(), message));
            }
            None
        }
    }
}
