//! From a scenario's tree, with the variables of one point in it, to an experiment.

use std::ops::Range;
use std::time::Duration;

use fairwater_experiment::{Edge, Experiment, Measure, Native, NodeId, PlaneConfig, Traffic};
use fairwater_net::{Limit, LinkConfig, QueueConfig, QueueContext, Time};

use crate::bundle::{self, BundleTable};
use crate::diagnostic::Diagnostic;
use crate::fields::Fields;
use crate::flow::{self, Flows};
use crate::linux;
use crate::network::{self, EdgeSpec, Network};
use crate::paths::Paths;
use crate::quantity;
use crate::sweep::Sweep;
use crate::tree::{Node, Value};
use crate::{Backend, Context, Point, Sender};

/// Reads one point; what is wrong goes to the sink, and what could be read is returned.
pub(crate) fn point(
    root: &Node,
    sweep: &Sweep,
    index: usize,
    used: &mut [bool],
    context: &Context<'_>,
) -> Point {
    let (variables, seed) = sweep.at(index);
    let before = context.sink.said();
    let root = substituted(root, &variables, used, context);
    let parts = Parts::read(&root, context);
    let spans = Spans::of(&parts, &root);
    let Parts {
        duration,
        network,
        mut flows,
        bundles,
        plane,
        measure,
    } = parts;
    let mut experiment = Experiment {
        seed,
        duration,
        nodes: u32::try_from(network.names.len()).unwrap_or(u32::MAX),
        edges: Vec::new(),
        flows: std::mem::take(&mut flows.configs),
        bundles: Vec::new(),
        plane,
        measure,
    };
    // Of a network that is wrong, paths say nothing more.
    if context.sink.said() == before {
        put_together(&mut experiment, &network, (&flows, &bundles), context);
    }
    let point = Point {
        index,
        variables: variables
            .iter()
            .map(|variable| (variable.name.to_owned(), variable.value.label()))
            .collect(),
        experiment,
        groups: flows.groups,
        traces: network
            .edges
            .iter()
            .map(|edge| edge.direction.trace.clone())
            .collect(),
        hosts: network.names,
    };
    if context.sink.said() == before {
        match context.backend {
            Backend::Sim => refuse_kernels(&point, &spans, context),
            Backend::Linux => linux::refuse(&point, &spans, context.sink),
        }
    }
    point
}

/// The top level of a scenario, before flows have paths and queues have sizes.
struct Parts {
    duration: Duration,
    network: Network,
    flows: Flows,
    bundles: Vec<BundleTable>,
    plane: PlaneConfig,
    measure: Measure,
}

/// Longest run of a scenario: a year.
const MAX_DURATION: Duration = Duration::from_secs(366 * 86_400);

impl Parts {
    fn read(root: &Node, context: &Context<'_>) -> Self {
        let mut parts = Self {
            duration: Duration::ZERO,
            network: Network::default(),
            flows: Flows::default(),
            bundles: Vec::new(),
            plane: PlaneConfig::default(),
            measure: Measure::default(),
        };
        let Some(mut fields) = Fields::of("a scenario", root, context.sink) else {
            return parts;
        };
        for read_before in ["sweep", "seed", "seeds", "report"] {
            fields.node(read_before);
        }
        fields.optional("title", quantity::text);
        let duration_node = fields.node("duration");
        let duration = fields.required("duration", quantity::period);
        parts.duration = duration.unwrap_or(Duration::from_secs(1));
        if let Some(node) = duration_node
            && parts.duration > MAX_DURATION
        {
            let message = "`duration` is out of range (at most a year)";
            context
                .sink
                .push(Diagnostic::new(node.span.clone(), message));
        }
        parts.network = network::read(&mut fields, context);
        parts.flows = flow::read(&mut fields, &parts.network, duration, context);
        parts.bundles = bundle::read(&mut fields, &parts.network, context);
        if let Some(node) = fields.node("plane") {
            parts.plane = plane(node, context);
        }
        if let Some(node) = fields.node("measure") {
            parts.measure = measure(node, parts.duration, context);
        }
        fields.span = 0..0;
        fields.finish();
        parts
    }
}

/// Where the parts of a point stand in the file.
pub(crate) struct Spans {
    pub(crate) edges: Vec<Range<usize>>,
    pub(crate) groups: Vec<Range<usize>>,
    pub(crate) duration: Range<usize>,
    pub(crate) plane: Range<usize>,
    pub(crate) bundle: Range<usize>,
}

impl Spans {
    fn of(parts: &Parts, root: &Node) -> Self {
        let edges = parts.network.edges.iter();
        let groups = parts.flows.sent.iter();
        Self {
            edges: edges.map(|edge| edge.span.clone()).collect(),
            groups: groups.map(|(_, span)| span.clone()).collect(),
            duration: place(root, "duration"),
            plane: place(root, "plane"),
            bundle: place(root, "bundle"),
        }
    }
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
    variables: &[crate::tree::Variable<'_>],
    used: &mut [bool],
    context: &Context<'_>,
) -> Node {
    let Value::Table(entries) = &root.value else {
        return root.clone();
    };
    let entries = entries
        .iter()
        .filter(|(key, _)| !matches!(key.name.as_str(), "sweep" | "report"))
        .map(|(key, node)| (key.clone(), node.with(variables, used, context.sink)))
        .collect();
    Node {
        span: root.span.clone(),
        value: Value::Table(entries),
    }
}

/// Finds each flow's path, and with the paths what depends on them: loads and buffers.
fn put_together(
    experiment: &mut Experiment,
    network: &Network,
    (flows, bundles): (&Flows, &[BundleTable]),
    context: &Context<'_>,
) {
    let mut paths = Paths::new(network.names.len(), &network.edges);
    // By edge: the longest round trip, without queues, of the flows that cross it.
    let mut rtts = vec![Duration::ZERO; network.edges.len()];
    for (group, (sent, span)) in flows.groups.iter().zip(&flows.sent) {
        let say = |message: String| Diagnostic::new(span.clone(), message);
        for flow in &mut experiment.flows[group.flows.clone()] {
            let name = |node: NodeId| &network.names[node.0 as usize];
            let (from, to) = (name(flow.from), name(flow.to));
            let Some(path) = paths.of(flow) else {
                context.sink.push(say(format!(
                    "no links lead from `{from}` to `{to}` and back"
                )));
                break;
            };
            if !paths.has_queue(&path) {
                context.sink.push(
                    say(format!(
                        "the path from `{from}` to `{to}` and back is a cycle without a queue"
                    ))
                    .help(
                        "nothing limits what is sent: give one of its links a `rate` or a `trace`",
                    ),
                );
                break;
            }
            let rtt = paths.rtt(&path);
            for edge in path.edges() {
                let slot = &mut rtts[edge.0 as usize];
                *slot = rtt.max(*slot);
            }
            let least = paths.least_rate(&path).map(|rate| rate.bps() as f64 / 8.0);
            match sent.traffic(flow.tcp.mss, group.flows.len(), least) {
                Some(traffic) => flow.traffic = traffic,
                None => {
                    context.sink.push(
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
    bundle::put_together(experiment, (bundles, network), (&mut paths, &rtts), context);
    for (index, (spec, rtt)) in network.edges.iter().zip(rtts).enumerate() {
        let direction = &spec.direction;
        let queue = queue(spec, rtt, context);
        experiment.edges.push(Edge {
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
fn queue(spec: &EdgeSpec, rtt: Duration, context: &Context<'_>) -> QueueConfig {
    let direction = &spec.direction;
    let Some(rate) = direction.capacity.nominal_rate() else {
        return QueueConfig::DropTail(Limit::Unlimited);
    };
    let rtt = if rtt.is_zero() {
        direction.delay * 2
    } else {
        rtt
    };
    let buffer = direction.buffer.as_ref().map(|(buffer, _)| *buffer);
    if let Some((buffer, span)) = &direction.buffer
        && let Some(found) = buffer.less_than_a_packet(rate, rtt)
        && !rtt.is_zero()
    {
        let message =
            format!("`buffer`: {found} bytes, less than one packet, at {rate} and {rtt:?}");
        context.sink.push(Diagnostic::new(span.clone(), message));
    }
    let (queue, span) = &direction.queue;
    queue
        .config(&QueueContext { rate, rtt, buffer })
        .unwrap_or_else(|error| {
            let message = format!("`queue`: {error}");
            context.sink.push(Diagnostic::new(span.clone(), message));
            QueueConfig::DropTail(Limit::Unlimited)
        })
}

fn plane(node: &Node, context: &Context<'_>) -> PlaneConfig {
    let mut plane = PlaneConfig::default();
    let Some(mut fields) = Fields::of("`[plane]`", node, context.sink) else {
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
        plane.outages = read_outages(outages, context);
    }
    fields.finish();
    plane
}

/// `[["1s", "1.5s"], …]`: from when to when the plane is stopped.
fn read_outages(node: &Node, context: &Context<'_>) -> Vec<(Time, Time)> {
    let wrong = |node: &Node, message: &str| {
        if !node.is_unknown() {
            context.sink.push(
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

fn measure(node: &Node, duration: Duration, context: &Context<'_>) -> Measure {
    let mut measure = Measure::default();
    let Some(mut fields) = Fields::of("`[measure]`", node, context.sink) else {
        return measure;
    };
    let from_node = fields.node("from");
    if let Some(from) = fields.optional("from", quantity::duration) {
        measure.from = Time::ZERO + from;
        if let Some(node) = from_node
            && from >= duration
        {
            let message = "`from` is not before the end of the run";
            context
                .sink
                .push(Diagnostic::new(node.span.clone(), message));
        }
    }
    measure.interval = fields.optional("interval", quantity::period);
    if let (Some(interval), Some(node)) = (measure.interval, fields.node("interval"))
        && duration.as_nanos() / interval.as_nanos().max(1) > 1_000_000
    {
        let message = "`interval` gives more than a million samples of each flow";
        context
            .sink
            .push(Diagnostic::new(node.span.clone(), message));
    }
    measure.requests = fields
        .optional("requests", quantity::boolean)
        .unwrap_or(false);
    if let Some(node) = fields.node("size_classes")
        && let Some(classes) = size_classes(node, context)
    {
        measure.size_classes = classes;
    }
    fields.finish();
    measure
}

/// The most size classes.
const MAX_SIZE_CLASSES: usize = 100;

/// `["10kB", "1MB"]`: the upper ends of classes.
fn size_classes(node: &Node, context: &Context<'_>) -> Option<Vec<u64>> {
    let refuse = |node: &Node, message: &str| {
        if !node.is_unknown() {
            context.sink.push(
                Diagnostic::new(node.span.clone(), format!("`size_classes`: {message}"))
                    .label("for instance `[\"10kB\", \"1MB\"]`"),
            );
        }
    };
    let Value::Array(items) = &node.value else {
        refuse(node, "expected a list of sizes");
        return None;
    };
    if !(1..=MAX_SIZE_CLASSES).contains(&items.len()) {
        refuse(node, "expected 1 to 100 sizes");
        return None;
    }
    let mut ends: Vec<u64> = Vec::new();
    for item in items {
        match quantity::some_bytes(item) {
            Ok(end) if ends.last().is_none_or(|before| *before < end) => ends.push(end),
            Ok(_) => refuse(item, "sizes must rise"),
            Err(invalid) => crate::fields::refuse("size_classes", item, invalid, context.sink),
        }
    }
    Some(ends)
}

/// Names the kernel's congestion controls that the simulator has no counterpart of.
fn refuse_kernels(point: &Point, spans: &Spans, context: &Context<'_>) {
    for (group, span) in point.groups.iter().zip(&spans.groups) {
        if let Sender::Kernel(text) = &group.sender
            && let Some(name) = text.strip_prefix("kernel:")
            && Native::in_place_of_kernel(name).is_none()
        {
            context.sink.push(
                Diagnostic::new(span.clone(), format!("the simulator has no `{text}`"))
                    .help("it has `kernel:reno` and `kernel:cubic`; `--on linux` has all"),
            );
        }
    }
}
