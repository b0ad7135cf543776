//! Boxes around bundles of flows: `[[bundle]]`.

use std::ops::Range;
use std::time::Duration;

use fairwater_experiment::{BundleConfig, EdgeId, Experiment};
use fairwater_net::{Buffer, Discipline, Limit, QueueConfig, QueueContext, QueueSpec, Rate};
use fairwater_plane::nearest;

use crate::Context;
use crate::diagnostic::Diagnostic;
use crate::fields::Fields;
use crate::host_edge;
use crate::network::Network;
use crate::paths::Paths;
use crate::quantity;
use crate::queue;
use crate::tree::{Node, Value};

/// Longest time in a sendbox's queue, unless a scenario says another.
const QUEUE_TIME: Duration = Duration::from_millis(250);

/// Buffer of a sendbox, unless a scenario says another: four bandwidth-delay products.
const BUFFER: Buffer = Buffer::MilliBdp(4_000);

/// One `[[bundle]]`, before its queue's size is known.
#[derive(Debug)]
pub(crate) struct BundleTable {
    name: String,
    at: EdgeId,
    algorithm: String,
    queue: QueueSpec,
    buffer: Buffer,
    queue_time: Duration,
    observe: bool,
    detect: bool,
    span: Range<usize>,
}

/// Reads all `[[bundle]]`.
pub(crate) fn read(
    root: &mut Fields<'_>,
    network: &Network,
    context: &Context<'_>,
) -> Vec<BundleTable> {
    let mut tables: Vec<BundleTable> = Vec::new();
    let Some(node) = root.node("bundle") else {
        return tables;
    };
    let Value::Array(bundles) = &node.value else {
        if !node.is_unknown() {
            let message = "bundles are a list of tables: write `[[bundle]]`";
            context
                .sink
                .push(Diagnostic::new(node.span.clone(), message));
        }
        return tables;
    };
    for node in bundles {
        if let Some(table) = read_one(node, network, context) {
            if tables.iter().any(|other| other.name == table.name) {
                let message = format!("two bundles are called `{}`", table.name);
                context
                    .sink
                    .push(Diagnostic::new(table.span.clone(), message));
            }
            tables.push(table);
        }
    }
    tables
}

/// `None` of a bundle without boxes, and of what could not be read.
fn read_one(node: &Node, network: &Network, context: &Context<'_>) -> Option<BundleTable> {
    let mut fields = Fields::of("a bundle", node, context.sink)?;
    let name = fields.required("name", quantity::text);
    let at = match fields.node("at") {
        Some(node) => edge(node, network, context),
        None => {
            fields.missing("at");
            None
        }
    };
    let mut is_off = false;
    let algorithm = match fields.node("algorithm") {
        Some(node) => {
            is_off = matches!(node.value, Value::Boolean(false));
            let there = Some(node).filter(|_| !is_off);
            there.and_then(|node| host_edge::algorithm(node, "a sendbox", context))
        }
        None => {
            fields.missing("algorithm");
            None
        }
    };
    let queue = match fields.node("queue") {
        Some(node) => queue::read(node, context.sink),
        None => Discipline::named("sfq").map(QueueSpec::new),
    };
    let buffer = fields.optional("buffer", quantity::buffer);
    let queue_time = fields.optional("queue_time", quantity::period);
    let observe = fields.optional("observe", quantity::boolean);
    let detect = fields.optional("detect", quantity::boolean);
    let span = fields.span.clone();
    fields.finish();
    if is_off {
        return None;
    }
    Some(BundleTable {
        name: name?,
        at: at?,
        algorithm: algorithm?,
        queue: queue?,
        buffer: buffer.unwrap_or(BUFFER),
        queue_time: queue_time.unwrap_or(QUEUE_TIME),
        observe: observe.unwrap_or(false),
        detect: detect.unwrap_or(true),
        span,
    })
}

/// The direction of a link that has this name, as results have it.
fn edge(node: &Node, network: &Network, context: &Context<'_>) -> Option<EdgeId> {
    let Value::Text(name) = &node.value else {
        if !node.is_unknown() {
            let message = format!("`at`: a link's name is a text, and this is {}", node.kind());
            context
                .sink
                .push(Diagnostic::new(node.span.clone(), message));
        }
        return None;
    };
    let named = |(index, _): (usize, _)| u32::try_from(index).ok().map(EdgeId);
    let mut edges = network.edges.iter().enumerate();
    let found = edges.find(|(_, edge)| edge.name == *name).and_then(named);
    // Links that are wrong have been named.
    if found.is_none() && !network.edges.is_empty() {
        let message = format!("`at`: there is no link `{name}`");
        let mut diagnostic = Diagnostic::new(node.span.clone(), message);
        let known = network.edges.iter().map(|edge| edge.name.as_str());
        if let Some(near) = nearest(name, known) {
            diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
        }
        context.sink.push(diagnostic);
    }
    found
}

/// Adds the boxes to an experiment that has its flows. `rtts` are the longest round trips of each edge's flows.
pub(crate) fn put_together(
    experiment: &mut Experiment,
    (tables, network): (&[BundleTable], &Network),
    (paths, rtts): (&mut Paths<'_>, &[Duration]),
    context: &Context<'_>,
) {
    for table in tables {
        let say = |message: String| {
            let diagnostic = Diagnostic::new(table.span.clone(), message);
            context.sink.push(diagnostic);
        };
        let of_bundle = |name: &Option<String>| name.as_ref() == Some(&table.name);
        let mut rate: Option<Rate> = None;
        let mut is_used = false;
        for flow in experiment.flows.iter().filter(|f| of_bundle(&f.bundle)) {
            is_used = true;
            if !paths.all_cross(flow, table.at) {
                let link = &network.edges[table.at.0 as usize].name;
                say(format!(
                    "packets of `{}` do not pass the sendbox in front of `{link}`",
                    flow.name
                ));
                break;
            }
            let path = paths.of(flow);
            rate = rate.or(path.and_then(|path| paths.least_rate(&path)));
        }
        if !is_used {
            say(format!("no flow has `bundle = \"{}\"`", table.name));
            continue;
        }
        let rtt = rtts.get(table.at.0 as usize).copied().unwrap_or_default();
        let queue = match rate {
            Some(rate) => table.queue.config(&QueueContext {
                rate,
                rtt,
                buffer: Some(table.buffer),
            }),
            // Nothing limits the flows: no queue forms.
            None => Ok(QueueConfig::DropTail(Limit::Unlimited)),
        };
        match queue {
            Ok(queue) => experiment.bundles.push(BundleConfig {
                name: table.name.clone(),
                at: table.at,
                algorithm: table.algorithm.clone(),
                queue,
                queue_time: table.queue_time,
                observe: table.observe,
                detect: table.detect,
            }),
            Err(error) => say(format!("`queue`: {error}")),
        }
    }
}
