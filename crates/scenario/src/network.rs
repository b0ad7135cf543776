//! Hosts and links: who is there, and what lies between them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use fairwater_experiment::{EdgeId, NodeId};
use fairwater_net::{Buffer, Capacity, QueueSpec};
use fairwater_plane::nearest;

use crate::Context;
use crate::capacity;
use crate::diagnostic::Diagnostic;
use crate::disturbance::{self, Disturbance};
use crate::fields::Fields;
use crate::quantity;
use crate::queue;
use crate::tree::{Node, Value};

/// The most hosts of a scenario.
const MAX_HOSTS: u64 = 100_000;

/// Hosts and the directed edges between them.
#[derive(Debug, Default)]
pub(crate) struct Network {
    groups: Vec<(String, Range<u32>)>,
    pub(crate) names: Vec<String>,
    pub(crate) edges: Vec<EdgeSpec>,
    /// By link name: the edges of its two directions; `None` for a link that is many.
    pub(crate) links: BTreeMap<String, Option<(EdgeId, EdgeId)>>,
}

/// One direction of a link, before its buffer is known.
#[derive(Debug, Clone)]
pub(crate) struct EdgeSpec {
    pub(crate) name: String,
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) direction: Direction,
    /// Where the link stands.
    pub(crate) span: Range<usize>,
}

/// What one direction of a link is made of.
#[derive(Debug, Clone)]
pub(crate) struct Direction {
    pub(crate) capacity: Capacity,
    /// The file's name, of a capacity that is a trace.
    pub(crate) trace: Option<String>,
    pub(crate) delay: Duration,
    pub(crate) disturbance: Disturbance,
    /// The discipline, and where the file has it.
    pub(crate) queue: (QueueSpec, Range<usize>),
    pub(crate) buffer: Option<(Buffer, Range<usize>)>,
}

impl Network {
    /// The hosts that a name stands for: all of `sender`, or the one that is `sender.3`.
    pub(crate) fn hosts(&self, name: &str) -> Option<Vec<NodeId>> {
        if let Some((_, range)) = self.groups.iter().find(|(group, _)| group == name) {
            return Some(range.clone().map(NodeId).collect());
        }
        let at = self.names.iter().position(|host| host == name)?;
        Some(vec![NodeId(u32::try_from(at).ok()?)])
    }

    /// The hosts that a node names, or a diagnostic.
    pub(crate) fn resolve(&self, node: &Node, context: &Context<'_>) -> Option<Vec<NodeId>> {
        let Value::Text(name) = &node.value else {
            if !node.is_unknown() {
                let message = format!("a host's name is a text, and this is {}", node.kind());
                context
                    .sink
                    .push(Diagnostic::new(node.span.clone(), message));
            }
            return None;
        };
        let found = self.hosts(name);
        if found.is_none() && !self.groups.is_empty() {
            let message = format!("there is no host `{name}`");
            let mut diagnostic = Diagnostic::new(node.span.clone(), message);
            let known = self.groups.iter().map(|(group, _)| group.as_str());
            if let Some(near) = nearest(name, known) {
                diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
            }
            context.sink.push(diagnostic);
        }
        found
    }

    /// Whether the hosts are those of a `[dumbbell]`.
    pub(crate) fn is_dumbbell(&self) -> bool {
        self.names == ["sender", "receiver"]
    }

    fn add_hosts(&mut self, name: &str, count: u32) {
        let first = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.groups.push((name.to_owned(), first..first + count));
        match count {
            1 => self.names.push(name.to_owned()),
            _ => self
                .names
                .extend((1..=count).map(|n| format!("{name}.{n}"))),
        }
    }

    fn add_edge(
        &mut self,
        name: String,
        ends: (NodeId, NodeId),
        what: (Direction, Range<usize>),
    ) -> EdgeId {
        let id = EdgeId(u32::try_from(self.edges.len()).unwrap_or(u32::MAX));
        self.edges.push(EdgeSpec {
            name,
            from: ends.0,
            to: ends.1,
            direction: what.0,
            span: what.1,
        });
        id
    }

    fn name(&self, node: NodeId) -> &str {
        self.names.get(node.0 as usize).map_or("?", String::as_str)
    }
}

/// Reads `[hosts]`, `[[link]]` and `[dumbbell]`.
pub(crate) fn read(root: &mut Fields<'_>, context: &Context<'_>) -> Network {
    let mut network = Network::default();
    let dumbbell = root.node("dumbbell");
    let hosts = root.node("hosts");
    let links = root.node("link");
    if let Some(node) = dumbbell {
        if let Some(other) = hosts.or(links) {
            context.sink.push(
                Diagnostic::new(
                    other.span.clone(),
                    "a dumbbell has its hosts and its link already",
                )
                .help("write either `[dumbbell]`, or `[hosts]` and `[[link]]`"),
            );
        }
        read_dumbbell(node, &mut network, context);
        return network;
    }
    match hosts {
        Some(node) => read_hosts(node, &mut network, context),
        None => context
            .sink
            .push(Diagnostic::new(0..0, "the scenario has no network").help(
                "add a `[dumbbell]` with a `rate` and an `rtt`, or `[hosts]` and `[[link]]`",
            )),
    }
    match links.map(|node| (&node.value, node)) {
        Some((Value::Array(links), _)) => {
            for link in links {
                read_link(link, &mut network, context);
            }
        }
        Some((_, node)) if !node.is_unknown() => context.sink.push(Diagnostic::new(
            node.span.clone(),
            "links are a list of tables: write `[[link]]`",
        )),
        Some(_) => {}
        None if hosts.is_some() => root.missing("link"),
        None => {}
    }
    network
}

fn read_hosts(node: &Node, network: &mut Network, context: &Context<'_>) {
    let Value::Table(entries) = &node.value else {
        if !node.is_unknown() {
            context.sink.push(
                Diagnostic::new(
                    node.span.clone(),
                    "`[hosts]` is a table of names and counts",
                )
                .help("for instance `sender = 50`"),
            );
        }
        return;
    };
    let mut entries: Vec<_> = entries.iter().collect();
    entries.sort_by_key(|(key, _)| key.span.start);
    let mut total = 0;
    for (key, node) in entries {
        let well_named = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
        if key.name.is_empty() || !key.name.chars().all(well_named) {
            let message = format!("`{}` is not a valid host name", key.name);
            context.sink.push(
                Diagnostic::new(key.span.clone(), message).label("letters, digits, `-` and `_`"),
            );
        }
        let count = match quantity::count(node) {
            Ok(count) => count,
            Err(wrong) => {
                crate::fields::refuse(&key.name, node, wrong, context.sink);
                1
            }
        };
        total += count.min(MAX_HOSTS + 1);
        if total > MAX_HOSTS {
            let message = format!("a scenario has at most {MAX_HOSTS} hosts");
            context
                .sink
                .push(Diagnostic::new(node.span.clone(), message));
            return;
        }
        network.add_hosts(&key.name, u32::try_from(count).unwrap_or(1));
    }
}

fn read_link(node: &Node, network: &mut Network, context: &Context<'_>) {
    let Some(mut fields) = Fields::of("a link", node, context.sink) else {
        return;
    };
    let name = fields.optional("name", quantity::text);
    let between = fields.node("between");
    let forward = DirectionSpec::read(&mut fields, context);
    let back = fields.node("back").and_then(|node| {
        let mut fields = Fields::of("the other direction of a link", node, context.sink)?;
        let back = DirectionSpec::read(&mut fields, context);
        fields.finish();
        Some(back)
    });
    let ends = match between {
        Some(node) => read_ends(node, network, context),
        None => {
            fields.missing("between");
            None
        }
    };
    let span = fields.span.clone();
    fields.finish();
    let Some(pairs) = ends else { return };
    let place = between.map_or(span.clone(), |node| node.span.clone());
    let forward_direction = forward.clone().finish(context);
    let link = LinkTable {
        name,
        pairs,
        reverse: match back {
            Some(back) => forward.overlaid(back).finish(context),
            None => forward_direction.clone(),
        },
        forward: forward_direction,
        span,
        place,
    };
    link.add(network, context);
}

/// `between = ["sender", "receiver"]`: the pairs of hosts that links join.
fn read_ends(
    node: &Node,
    network: &Network,
    context: &Context<'_>,
) -> Option<Vec<(NodeId, NodeId)>> {
    let say = |message: String| Diagnostic::new(node.span.clone(), message);
    let ends = match &node.value {
        Value::Array(ends) if ends.len() == 2 => ends,
        _ => {
            if !node.is_unknown() {
                let diagnostic = say("a link lies between two hosts".to_owned());
                let diagnostic = diagnostic.label("for instance `[\"sender\", \"receiver\"]`");
                context.sink.push(diagnostic);
            }
            return None;
        }
    };
    let a = network.resolve(&ends[0], context);
    let (a, b) = a.zip(network.resolve(&ends[1], context))?;
    let pairs = pairs(&a, &b);
    if pairs.is_none() {
        let message = format!(
            "a link between {} and {} hosts: they do not pair up",
            a.len(),
            b.len()
        );
        let help = "one of the two is a single host, or there are as many of each";
        context.sink.push(say(message).help(help));
    }
    pairs
}

/// One `[[link]]`: a link between the hosts of each pair.
struct LinkTable {
    name: Option<String>,
    pairs: Vec<(NodeId, NodeId)>,
    forward: Direction,
    reverse: Direction,
    /// Where the table stands.
    span: Range<usize>,
    /// Where the table names the hosts.
    place: Range<usize>,
}

impl LinkTable {
    fn add(self, network: &mut Network, context: &Context<'_>) {
        let single = self.pairs.len() == 1;
        let say = |message: String| {
            let diagnostic = Diagnostic::new(self.place.clone(), message);
            context.sink.push(diagnostic);
        };
        for &(from, to) in &self.pairs {
            if from == to {
                say(format!("a link from `{}` to itself", network.name(from)));
                continue;
            }
            let (there, back) = match &self.name {
                Some(name) if single => (name.clone(), format!("{name}.back")),
                _ => (
                    format!("{}>{}", network.name(from), network.name(to)),
                    format!("{}>{}", network.name(to), network.name(from)),
                ),
            };
            let mut edge = |name, ends, direction: &Direction| {
                network.add_edge(name, ends, (direction.clone(), self.span.clone()))
            };
            let ends = there.clone();
            let there = edge(there, (from, to), &self.forward);
            let back = edge(back, (to, from), &self.reverse);
            if self.name.is_none() || !single {
                // Several links between two hosts have one name.
                let links = network.links.entry(ends);
                links
                    .and_modify(|edges| *edges = None)
                    .or_insert(Some((there, back)));
            }
            if let Some(name) = &self.name {
                let edges = single.then_some((there, back));
                let known = network.links.insert(name.clone(), edges);
                if known.is_some() && single {
                    say(format!("two links are called `{name}`"));
                }
            }
        }
    }
}

/// Who belongs to whom: one to all, or as many to as many.
pub(crate) fn pairs(a: &[NodeId], b: &[NodeId]) -> Option<Vec<(NodeId, NodeId)>> {
    match (a, b) {
        ([one], all) => Some(all.iter().map(|other| (*one, *other)).collect()),
        (all, [one]) => Some(all.iter().map(|other| (*other, *one)).collect()),
        _ if a.len() == b.len() => Some(a.iter().copied().zip(b.iter().copied()).collect()),
        _ => None,
    }
}

/// The commonest case: a sender, a bottleneck and a receiver, as in the link of `fairwater try`.
fn read_dumbbell(node: &Node, network: &mut Network, context: &Context<'_>) {
    network.add_hosts("sender", 1);
    network.add_hosts("receiver", 1);
    let Some(mut fields) = Fields::of("a dumbbell", node, context.sink) else {
        return;
    };
    let rtt = fields.required("rtt", quantity::duration);
    let mut part = DirectionSpec::read_without_delay(&mut fields, context);
    if part.capacity.is_none() && !part.attempted {
        fields.missing("rate");
    }
    let back = fields.node("back").and_then(|node| {
        let mut fields = Fields::of("the other direction of a dumbbell", node, context.sink)?;
        let back = DirectionSpec::read_without_delay(&mut fields, context);
        fields.finish();
        Some(back)
    });
    let span = fields.span.clone();
    fields.finish();
    let rtt = rtt.unwrap_or(Duration::from_millis(1));
    part.delay = Some(rtt / 2);
    let back = DirectionSpec {
        delay: Some(rtt - rtt / 2),
        ..back.unwrap_or_default()
    };
    let back = back.finish(context);
    let (sender, receiver) = (NodeId(0), NodeId(1));
    let forward = part.finish(context);
    let there = network.add_edge(
        "bottleneck".to_owned(),
        (sender, receiver),
        (forward, span.clone()),
    );
    let back = network.add_edge(
        "bottleneck.back".to_owned(),
        (receiver, sender),
        (back, span),
    );
    network
        .links
        .insert("bottleneck".to_owned(), Some((there, back)));
}

/// What a table says of one direction; what it does not say may come from another.
#[derive(Debug, Clone, Default)]
struct DirectionSpec {
    capacity: Option<(Capacity, Option<String>)>,
    /// A capacity was given, right or wrong.
    attempted: bool,
    delay: Option<Duration>,
    disturbance: Disturbance,
    queue: Option<(QueueSpec, Range<usize>)>,
    buffer: Option<(Buffer, Range<usize>)>,
}

impl DirectionSpec {
    fn read(fields: &mut Fields<'_>, context: &Context<'_>) -> Self {
        let delay = fields.optional("delay", quantity::duration);
        let mut part = Self::read_without_delay(fields, context);
        part.delay = delay;
        part
    }

    fn read_without_delay(fields: &mut Fields<'_>, context: &Context<'_>) -> Self {
        let (attempted, capacity) = capacity::read(fields, context);
        let mut part = DirectionSpec {
            attempted,
            capacity,
            ..DirectionSpec::default()
        };
        part.disturbance = disturbance::read(fields, context.sink);
        part.queue = fields.node("queue").and_then(|node| {
            queue::read(node, context.sink).map(|queue| (queue, node.span.clone()))
        });
        part.buffer = fields
            .node("buffer")
            .and_then(|node| match quantity::buffer(node) {
                Ok(buffer) => Some((buffer, node.span.clone())),
                Err(wrong) => {
                    crate::fields::refuse("buffer", node, wrong, context.sink);
                    None
                }
            });
        part
    }

    /// This direction, with the values of `over` where it has any.
    fn overlaid(self, over: DirectionSpec) -> DirectionSpec {
        DirectionSpec {
            attempted: self.attempted || over.attempted,
            capacity: over.capacity.or(self.capacity),
            delay: over.delay.or(self.delay),
            disturbance: self.disturbance.overlaid(over.disturbance),
            queue: over.queue.or(self.queue),
            buffer: over.buffer.or(self.buffer),
        }
    }

    fn finish(self, context: &Context<'_>) -> Direction {
        if !self.attempted {
            let spans = [
                self.queue.as_ref().map(|(_, span)| ("queue", span)),
                self.buffer.as_ref().map(|(_, span)| ("buffer", span)),
            ];
            for (key, span) in spans.into_iter().flatten() {
                let message = format!("`{key}` without a rate: nothing waits there");
                let help = "give the link a `rate` or a `trace`";
                context
                    .sink
                    .push(Diagnostic::new(span.clone(), message).help(help));
            }
        }
        let (capacity, trace) = self.capacity.unwrap_or((Capacity::Unlimited, None));
        Direction {
            capacity,
            trace,
            delay: self.delay.unwrap_or(Duration::ZERO),
            disturbance: self.disturbance,
            queue: self.queue.unwrap_or_default(),
            buffer: self.buffer,
        }
    }
}
