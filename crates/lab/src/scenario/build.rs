//! From a scenario's tree, with the variables of one point in it, to what is simulated.

use std::ops::Range;
use std::time::Duration;

use fairwater_net::{Limit, LinkConfig, QueueConfig, Time};
use fairwater_sim::{Config, Edge, Measure, NodeId, PlaneConfig, Traffic};

use super::diagnostic::Diagnostic;
use super::emulated;
use super::fields::Fields;
use super::flow::{self, Flows};
use super::network::{self, EdgeSpec, Network};
use super::quantity::{self, Buffer};
use super::queue::Before;
use super::sweep::Sweep;
use super::tree::{Node, Value};
use super::ways::Ways;
use super::{Point, Reading, Sender, World};
use crate::simulated::counterpart;

/// The smallest buffer that a bandwidth-delay product comes to: one packet of the usual size.
const MIN_BUFFER_BYTES: u64 = 1500;

/// Reads one point; what is wrong goes to the sink, and what could be read is returned.
pub(super) fn point(
    root: &Node,
    sweep: &Sweep,
    index: usize,
    used: &mut [bool],
    reading: &Reading<'_>,
) -> Point {
    let (variables, seed) = sweep.at(index);
    let before = reading.sink.said();
    let root = substituted(root, &variables, used, reading);
    let mut config = Config {
        seed,
        duration: Duration::ZERO,
        nodes: 0,
        edges: Vec::new(),
        flows: Vec::new(),
        plane: PlaneConfig::default(),
        measure: Measure::default(),
    };
    let mut network = Network::default();
    let mut flows = Flows::default();
    if let Some(mut fields) = Fields::of("a scenario", &root, reading.sink) {
        for read_before in ["sweep", "seed", "seeds", "report"] {
            fields.node(read_before);
        }
        fields.optional("title", quantity::text);
        let duration_node = fields.node("duration");
        let duration = fields.required("duration", quantity::period);
        config.duration = duration.unwrap_or(Duration::from_secs(1));
        if let Some(node) = duration_node
            && config.duration > Duration::from_secs(366 * 86_400)
        {
            let message = "`duration`: at most a year can be simulated";
            reading
                .sink
                .push(Diagnostic::new(node.span.clone(), message));
        }
        network = network::read(&mut fields, reading);
        flows = flow::read(&mut fields, &network, duration, reading);
        if let Some(node) = fields.node("plane") {
            config.plane = plane(node, reading);
        }
        if let Some(node) = fields.node("measure") {
            config.measure = measure(node, config.duration, reading);
        }
        fields.span = 0..0;
        fields.finish();
    }
    config.nodes = u32::try_from(network.names.len()).unwrap_or(u32::MAX);
    config.flows = std::mem::take(&mut flows.configs);
    // Of a network that is wrong, ways say nothing more.
    if reading.sink.said() == before {
        put_together(&mut config, &network, &flows, reading);
    }
    let point = Point {
        index,
        variables: variables
            .iter()
            .map(|variable| (variable.name.to_owned(), variable.value.label()))
            .collect(),
        config,
        groups: flows.groups,
        traces: network
            .edges
            .iter()
            .map(|edge| edge.direction.trace.clone())
            .collect(),
        hosts: network.names,
    };
    if reading.sink.said() == before {
        let spans = Spans {
            edges: network.edges.iter().map(|edge| edge.span.clone()).collect(),
            groups: flows.sent.iter().map(|(_, span)| span.clone()).collect(),
            duration: place(&root, "duration"),
            plane: place(&root, "plane"),
            measure: place(&root, "measure"),
        };
        match reading.world {
            World::Sim => refuse_kernels(&point, &spans, reading),
            World::Linux => emulated::refuse(&point, &spans, reading.sink),
        }
    }
    point
}

/// Where the parts of a point stand in the file.
pub(super) struct Spans {
    pub(super) edges: Vec<Range<usize>>,
    pub(super) groups: Vec<Range<usize>>,
    pub(super) duration: Range<usize>,
    pub(super) plane: Range<usize>,
    pub(super) measure: Range<usize>,
}

/// Where a key of the file stands.
fn place(root: &Node, name: &str) -> Range<usize> {
    match &root.value {
        Value::Table(entries) => entries.iter().find(|(key, _)| key.name == name),
        _ => None,
    }
    .map_or(0..0, |(key, _)| key.span.clone())
}

/// Everything but the sweep itself, and the report on it, with its variables' values.
fn substituted(
    root: &Node,
    variables: &[super::tree::Variable<'_>],
    used: &mut [bool],
    reading: &Reading<'_>,
) -> Node {
    let Value::Table(entries) = &root.value else {
        return root.clone();
    };
    let entries = entries
        .iter()
        .filter(|(key, _)| !matches!(key.name.as_str(), "sweep" | "report"))
        .map(|(key, node)| (key.clone(), node.with(variables, used, reading.sink)))
        .collect();
    Node {
        span: root.span.clone(),
        value: Value::Table(entries),
    }
}

/// Finds each flow's way, and with the ways what depends on them: loads and buffers.
fn put_together(config: &mut Config, network: &Network, flows: &Flows, reading: &Reading<'_>) {
    let mut ways = Ways::new(network.names.len(), &network.edges);
    // By edge: the longest round trip, without queues, of the flows that cross it.
    let mut rtts = vec![Duration::ZERO; network.edges.len()];
    for (group, (sent, span)) in flows.groups.iter().zip(&flows.sent) {
        let say = |message: String| Diagnostic::new(span.clone(), message);
        for flow in &mut config.flows[group.flows.clone()] {
            let name = |node: NodeId| &network.names[node.0 as usize];
            let (from, to) = (name(flow.from), name(flow.to));
            let Some(way) = ways.of(flow) else {
                reading.sink.push(say(format!(
                    "no links lead from `{from}` to `{to}` and back"
                )));
                break;
            };
            if !ways.has_queue(&way) {
                reading.sink.push(
                    say(format!(
                        "the way from `{from}` to `{to}` and back is a cycle without a queue"
                    ))
                    .help(
                        "nothing limits what is sent: give one of its links a `rate` or a `trace`",
                    ),
                );
                break;
            }
            let rtt = ways.rtt(&way);
            for edge in way.there.iter().chain(&way.back) {
                let slot = &mut rtts[edge.0 as usize];
                *slot = rtt.max(*slot);
            }
            let least = ways.least_rate(&way).map(|rate| rate.bps() as f64 / 8.0);
            match sent.traffic(flow.tcp.mss, group.flows.len(), least) {
                Some(traffic) => flow.traffic = traffic,
                None => {
                    reading.sink.push(
                        say(format!(
                            "a `load` from `{from}` to `{to}`, and no link there has a rate"
                        ))
                        .help("say how much is asked for by `rate`"),
                    );
                    flow.traffic = Traffic::Bulk;
                    break;
                }
            }
        }
    }
    for (index, (spec, rtt)) in network.edges.iter().zip(rtts).enumerate() {
        let direction = &spec.direction;
        let queue = queue(spec, rtt, reading);
        config.edges.push(Edge {
            name: spec.name.clone(),
            from: spec.from,
            to: spec.to,
            link: LinkConfig {
                jitter: direction.disturbance.jitter,
                reordering: direction.disturbance.reordering,
                loss: direction.disturbance.loss.unwrap_or_default(),
                seed: index as u64,
                ..LinkConfig::new(direction.capacity.clone(), queue, direction.delay)
            },
        });
    }
}

/// The queue of an edge; the longest round trip of flows that cross it is `rtt`.
fn queue(spec: &EdgeSpec, rtt: Duration, reading: &Reading<'_>) -> QueueConfig {
    let direction = &spec.direction;
    let Some(rate) = direction.capacity.nominal_rate() else {
        return QueueConfig::DropTail(Limit::Unlimited);
    };
    let rtt = if rtt.is_zero() {
        direction.delay * 2
    } else {
        rtt
    };
    let bytes = |milli: u64| {
        let bdp = u128::from(rate.bytes_in(rtt)) * u128::from(milli) / 1000;
        u64::try_from(bdp).unwrap_or(u64::MAX)
    };
    if let Some((Buffer::MilliBdp(milli), span)) = &direction.buffer
        && bytes(*milli) < MIN_BUFFER_BYTES
        && !rtt.is_zero()
    {
        let found = bytes(*milli);
        let message =
            format!("`buffer`: {found} bytes, less than one packet, at {rate} and {rtt:?}");
        reading.sink.push(Diagnostic::new(span.clone(), message));
    }
    let link = Before {
        rate,
        bdp: &|milli| bytes(milli).max(MIN_BUFFER_BYTES),
    };
    let buffer = direction.buffer.as_ref().map(|(buffer, _)| *buffer);
    direction.queue.config(buffer, &link)
}

fn plane(node: &Node, reading: &Reading<'_>) -> PlaneConfig {
    let mut plane = PlaneConfig::default();
    let Some(mut fields) = Fields::of("`[plane]`", node, reading.sink) else {
        return plane;
    };
    let set = |value: Option<Duration>, slot: &mut Duration| *slot = value.unwrap_or(*slot);
    set(
        fields.optional("delay", quantity::duration),
        &mut plane.delay,
    );
    set(
        fields.optional("period", quantity::duration),
        &mut plane.period,
    );
    set(
        fields.optional("silence", quantity::period),
        &mut plane.silence,
    );
    if let Some(outages) = fields.node("outages") {
        plane.outages = read_outages(outages, reading);
    }
    fields.finish();
    plane
}

/// `[["1s", "1.5s"], …]`: from when to when the plane is stopped.
fn read_outages(node: &Node, reading: &Reading<'_>) -> Vec<(Time, Time)> {
    let wrong = |node: &Node, message: &str| {
        if !node.is_unknown() {
            reading.sink.push(
                Diagnostic::new(node.span.clone(), format!("`outages`: {message}"))
                    .label("for instance `[[\"1s\", \"1.5s\"]]`"),
            );
        }
    };
    let Value::Array(items) = &node.value else {
        wrong(node, "a list of times when the plane is gone");
        return Vec::new();
    };
    let mut outages: Vec<(Time, Time)> = Vec::new();
    for item in items {
        let times: Option<Vec<Time>> = match &item.value {
            Value::Array(pair) if pair.len() == 2 => pair
                .iter()
                .map(|node| quantity::duration(node).ok().map(|at| Time::ZERO + at))
                .collect(),
            _ => None,
        };
        match times.as_deref() {
            Some(&[from, to]) if from < to && outages.last().is_none_or(|o| o.1 <= from) => {
                outages.push((from, to));
            }
            Some(_) => wrong(
                item,
                "it ends before it begins, or begins before the last ends",
            ),
            None => wrong(item, "not a beginning and an end"),
        }
    }
    outages
}

fn measure(node: &Node, duration: Duration, reading: &Reading<'_>) -> Measure {
    let mut measure = Measure::default();
    let Some(mut fields) = Fields::of("`[measure]`", node, reading.sink) else {
        return measure;
    };
    let from_node = fields.node("from");
    if let Some(from) = fields.optional("from", quantity::duration) {
        measure.from = Time::ZERO + from;
        if let Some(node) = from_node
            && from >= duration
        {
            let message = "`from`: measuring begins when the run has ended";
            reading
                .sink
                .push(Diagnostic::new(node.span.clone(), message));
        }
    }
    measure.interval = fields.optional("interval", quantity::period);
    if let (Some(interval), Some(node)) = (measure.interval, fields.node("interval"))
        && duration.as_nanos() / interval.as_nanos().max(1) > 1_000_000
    {
        let message = "`interval`: more than a million samples of each flow";
        reading
            .sink
            .push(Diagnostic::new(node.span.clone(), message));
    }
    fields.finish();
    measure
}

/// Names the kernel's congestion controls that the simulator has no counterpart of.
fn refuse_kernels(point: &Point, spans: &Spans, reading: &Reading<'_>) {
    for (group, span) in point.groups.iter().zip(&spans.groups) {
        if let Sender::Kernel(text) = &group.sender
            && let Some(name) = text.strip_prefix("kernel:")
            && counterpart(name).is_none()
        {
            reading.sink.push(
                Diagnostic::new(span.clone(), format!("the simulator has no `{text}`"))
                    .help("it has `kernel:reno` and `kernel:cubic`; `--on linux` has all"),
            );
        }
    }
}
