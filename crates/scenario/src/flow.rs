//! Flows: `[[flow]]`.

use std::ops::Range;
use std::time::Duration;

use fairwater_experiment::{
    Balancing, Controller, EdgeId, EdgeTreatment, FlowConfig, Native, NodeId, Path, TcpConfig,
};
use fairwater_net::Time;
use fairwater_plane::nearest;

use crate::diagnostic::Diagnostic;
use crate::fields::{Fields, InvalidValue, refuse};
use crate::host_edge::{self, Selectors};
use crate::network::{Network, pairs};
use crate::quantity;
use crate::tcp;
use crate::traffic::{self, TrafficSpec};
use crate::tree::{Node, Value};
use crate::{Context, Group, Sender};

/// The most flows of a scenario.
const MAX_FLOWS: u64 = 1_000_000;

/// The flows of all tables, and which table each came from.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    pub(crate) configs: Vec<FlowConfig>,
    pub(crate) groups: Vec<Group>,
    /// By group: what it sends, and where it stands.
    pub(crate) sent: Vec<(TrafficSpec, Range<usize>)>,
}

/// What flows refer to.
struct Usual {
    tcp: TcpConfig,
    selectors: Selectors,
}

/// Reads `[[flow]]`, `[tcp]` and `[selector.NAME]`; `duration` is that of the run, if it is known.
pub(crate) fn read(
    root: &mut Fields<'_>,
    network: &Network,
    duration: Option<Duration>,
    context: &Context<'_>,
) -> Flows {
    let usual = Usual {
        tcp: match root.node("tcp") {
            Some(node) => tcp::read(node, &TcpConfig::default(), context.sink),
            None => TcpConfig::default(),
        },
        selectors: host_edge::selectors(root.node("selector"), context),
    };
    let mut flows = Flows::default();
    match root.node("flow").map(|node| (&node.value, node)) {
        Some((Value::Array(tables), _)) => {
            for table in tables {
                read_group(table, &usual, network, duration, &mut flows, context);
            }
        }
        Some((_, node)) if !node.is_unknown() => context.sink.push(Diagnostic::new(
            node.span.clone(),
            "flows are a list of tables: write `[[flow]]`",
        )),
        Some(_) => {}
        None => context.sink.push(
            Diagnostic::new(0..0, "the scenario has no flows")
                .help("add `[[flow]]` with an `algorithm`"),
        ),
    }
    flows
}

/// One `[[flow]]`, as the file has it.
struct FlowTable<'n> {
    name: Option<String>,
    /// The host or hosts at either end, `None` if they are unknown.
    from: Option<(&'n Node, Option<Vec<NodeId>>)>,
    to: Option<(&'n Node, Option<Vec<NodeId>>)>,
    algorithm: Option<(Sender, Controller)>,
    sent: Option<TrafficSpec>,
    count: u64,
    start: Option<(&'n Node, Duration)>,
    stagger: Duration,
    jitter: Duration,
    stop: Option<(&'n Node, Duration)>,
    priority: u8,
    tag: u32,
    bundle: Option<String>,
    tcp: TcpConfig,
    /// The box at the edge, `None` in it if it is unknown.
    edge: Option<(&'n Node, Option<EdgeTreatment>)>,
    via: Option<&'n Node>,
    balancing: Balancing,
    span: Range<usize>,
}

fn read_group(
    node: &Node,
    usual: &Usual,
    network: &Network,
    duration: Option<Duration>,
    flows: &mut Flows,
    context: &Context<'_>,
) -> Option<()> {
    let table = FlowTable::read(node, usual, network, context)?;
    let pairs = table.pairs(network, context)?;
    let total = table.count.saturating_mul(pairs.len() as u64);
    if total.saturating_add(flows.configs.len() as u64) > MAX_FLOWS {
        let message = format!("a scenario has at most {MAX_FLOWS} flows");
        context.sink.push(Diagnostic::new(table.span, message));
        return None;
    }
    table.check_times(duration, context);
    table.add(total, &pairs, network, flows, context)
}

impl<'n> FlowTable<'n> {
    fn read(
        node: &'n Node,
        usual: &Usual,
        network: &Network,
        context: &Context<'n>,
    ) -> Option<Self> {
        let mut fields = Fields::of("a flow", node, context.sink)?;
        let resolve = |node: &'n Node| (node, network.resolve(node, context));
        let name = fields.optional("name", quantity::text);
        let from = fields.node("from").map(resolve);
        let to = fields.node("to").map(resolve);
        let algorithm = fields.node("algorithm");
        let sent = match fields.node("traffic") {
            Some(node) => traffic::read(node, context),
            None => Some(TrafficSpec::Bulk),
        };
        let is_datagrams = sent.as_ref().is_some_and(TrafficSpec::is_datagrams);
        let algorithm = match algorithm {
            Some(node) if is_datagrams => {
                let message = "a flow of UDP packets has no `algorithm`";
                let help = "no congestion control decides when it sends";
                let diagnostic = Diagnostic::new(node.span.clone(), message);
                context.sink.push(diagnostic.help(help));
                None
            }
            Some(node) => read_algorithm(node, context),
            None if is_datagrams => Some((
                Sender::Native("udp".to_owned()),
                Controller::Native(Native::Reno),
            )),
            // Traffic that is refused may be of UDP packets.
            None if sent.is_none() => None,
            None => {
                fields.missing("algorithm");
                None
            }
        };
        let count = fields.optional("count", quantity::count).unwrap_or(1);
        let mut time = |key| {
            let node = fields.node(key);
            node.zip(fields.optional(key, quantity::duration))
        };
        let (start, stagger) = (time("start"), time("stagger"));
        let (jitter, stop) = (time("jitter"), time("stop"));
        let zero_or = |time: Option<(_, Duration)>| time.map_or(Duration::ZERO, |(_, time)| time);
        let table = Self {
            name,
            from,
            to,
            algorithm,
            sent,
            count,
            start,
            stagger: zero_or(stagger),
            jitter: zero_or(jitter),
            stop,
            priority: fields.optional("priority", priority).unwrap_or(0),
            tag: fields.optional("tag", tag).unwrap_or(0),
            bundle: fields.optional("bundle", quantity::text),
            tcp: match fields.node("tcp") {
                Some(node) => tcp::read(node, &usual.tcp, context.sink),
                None => usual.tcp.clone(),
            },
            edge: fields
                .node("edge")
                .filter(|node| host_edge::is_there(node))
                .map(|node| (node, host_edge::read(node, &usual.selectors, context))),
            via: fields.node("via"),
            balancing: fields.optional("balance", balancing).unwrap_or_default(),
            span: fields.span.clone(),
        };
        for (key, end) in [("from", &table.from), ("to", &table.to)] {
            if end.is_none() && !network.is_dumbbell() && !network.names.is_empty() {
                fields.missing(key);
            }
        }
        fields.finish();
        if let (Some((node, _)), Some((_, controller))) = (&table.edge, &table.algorithm) {
            host_edge::check(node, controller, &table.tcp, context);
            if is_datagrams {
                let message = "an `edge` controls TCP, and this flow sends UDP packets";
                context
                    .sink
                    .push(Diagnostic::new(node.span.clone(), message));
            }
        }
        Some(table)
    }

    /// The hosts of each flow.
    fn pairs(&self, network: &Network, context: &Context<'_>) -> Option<Vec<(NodeId, NodeId)>> {
        let hosts = |end: &Option<(_, Option<Vec<NodeId>>)>, usual| match end {
            Some((_, hosts)) => hosts.clone(),
            None => network.is_dumbbell().then(|| vec![NodeId(usual)]),
        };
        let (from, to) = (hosts(&self.from, 0)?, hosts(&self.to, 1)?);
        let span = match &self.from {
            Some((node, _)) => node.span.clone(),
            None => self.span.clone(),
        };
        let Some(pairs) = pairs(&from, &to) else {
            let message = format!(
                "flows from {} hosts to {} hosts do not pair up",
                from.len(),
                to.len()
            );
            let help = "one of the two is a single host, or there are as many of each";
            context.sink.push(Diagnostic::new(span, message).help(help));
            return None;
        };
        if let Some((node, _)) = pairs.iter().find(|(from, to)| from == to) {
            let name = &network.names[node.0 as usize];
            let message = format!("a flow from `{name}` to itself");
            context.sink.push(Diagnostic::new(span, message));
            return None;
        }
        Some(pairs)
    }

    /// Refuses times that no flow can have. Flows that `stagger` puts beyond the end do not run, so
    /// that a run can be cut short.
    fn check_times(&self, duration: Option<Duration>, context: &Context<'_>) {
        let refuse = |node: &Node, message| {
            context
                .sink
                .push(Diagnostic::new(node.span.clone(), message));
        };
        if let (Some((node, start)), Some(end)) = (self.start, duration)
            && start >= end
        {
            refuse(node, "the flow starts when the run has ended");
        }
        let start = self.start.map_or(Duration::ZERO, |(_, start)| start);
        if let Some((node, stop)) = self.stop
            && stop <= start
        {
            refuse(node, "the flow stops before it starts");
        }
    }

    /// Adds the table's flows, which are `total` between these hosts in turn.
    fn add(
        self,
        total: u64,
        pairs: &[(NodeId, NodeId)],
        network: &Network,
        flows: &mut Flows,
        context: &Context<'_>,
    ) -> Option<()> {
        let (algorithm, controller) = self.algorithm?;
        let edge = match self.edge {
            Some((_, treatment)) => Some(treatment?),
            None => None,
        };
        let label = self.name.unwrap_or_else(|| algorithm.text().to_owned());
        let name = unused(&label, &flows.groups);
        let start = self.start.map_or(Duration::ZERO, |(_, start)| start);
        let first = flows.configs.len();
        for index in 0..total {
            let (from, to) = pairs[(index % pairs.len() as u64) as usize];
            let path = match self.via {
                Some(via) => read_via(via, (from, to), network, self.balancing, context)?,
                None => Path::Shortest,
            };
            let nth = u32::try_from(index).unwrap_or(u32::MAX);
            flows.configs.push(FlowConfig {
                name: match total {
                    1 => name.clone(),
                    _ => format!("{name}.{}", index + 1),
                },
                from,
                to,
                path,
                controller: controller.clone(),
                traffic: fairwater_experiment::Traffic::Bulk,
                start: Time::ZERO + start + self.stagger.saturating_mul(nth),
                start_jitter: self.jitter,
                stop: self.stop.map(|(_, stop)| Time::ZERO + stop),
                priority: self.priority,
                tag: self.tag,
                bundle: self.bundle.clone(),
                tcp: self.tcp.clone(),
                edge: edge.clone(),
            });
        }
        flows.sent.push((self.sent?, self.span));
        flows.groups.push(Group {
            name,
            sender: algorithm,
            edge: edge.map(|edge| edge.algorithms()).unwrap_or_default(),
            flows: first..flows.configs.len(),
        });
        Some(())
    }
}

/// The label, or with a number behind it if it is taken.
fn unused(label: &str, groups: &[Group]) -> String {
    let is_free = |name: &str| groups.iter().all(|group| group.name != name);
    if is_free(label) {
        return label.to_owned();
    }
    let mut number = 2;
    loop {
        let name = format!("{label} ({number})");
        if is_free(&name) {
            return name;
        }
        number += 1;
    }
}

fn read_algorithm(node: &Node, context: &Context<'_>) -> Option<(Sender, Controller)> {
    let text = match quantity::text(node) {
        Ok(text) => text,
        Err(wrong) => {
            refuse("algorithm", node, wrong, context.sink);
            return None;
        }
    };
    if let Some(name) = text.strip_prefix("native:") {
        let native = native(name, context, node)?;
        return Some((Sender::Native(text), Controller::Native(native)));
    }
    if let Some(name) = text.strip_prefix("kernel:") {
        let named = !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic());
        if !named {
            let message = "`algorithm`: a name of the kernel's goes behind `kernel:`";
            context
                .sink
                .push(Diagnostic::new(node.span.clone(), message).label("such as `kernel:cubic`"));
            return None;
        }
        // Those that the simulator does not have are refused when it is to run them.
        let controller = match Native::in_place_of_kernel(name) {
            Some(native) => Controller::Native(native),
            None => Controller::Plane(text.clone()),
        };
        return Some((Sender::Kernel(text), controller));
    }
    match context.resolver.check_algorithm(&text) {
        Ok(()) => Some((Sender::Plane(text.clone()), Controller::Plane(text))),
        Err(faults) => {
            for fault in faults {
                let message = format!("`algorithm`: {fault}");
                context
                    .sink
                    .push(Diagnostic::new(node.span.clone(), message));
            }
            None
        }
    }
}

fn native(name: &str, context: &Context<'_>, node: &Node) -> Option<Native> {
    const KNOWN: [&str; 3] = ["reno", "cubic", "constant"];
    match name.split_once(':') {
        None if name == "reno" => return Some(Native::Reno),
        None if name == "cubic" => return Some(Native::Cubic),
        Some(("constant", window)) => {
            let window = Node {
                span: node.span.clone(),
                value: Value::Text(window.to_owned()),
            };
            return match quantity::bytes(&window) {
                Ok(bytes) if bytes > 0 => Some(Native::Constant(bytes)),
                _ => {
                    let message = format!("`algorithm`: `native:{name}` has no window");
                    context.sink.push(
                        Diagnostic::new(node.span.clone(), message)
                            .label("such as `native:constant:100kB`"),
                    );
                    None
                }
            };
        }
        _ => {}
    }
    let message = format!("`algorithm`: the simulator has no native `{name}`");
    let help = match nearest(name, KNOWN) {
        Some(near) => format!("did you mean `native:{near}`?"),
        None => "it has `native:reno`, `native:cubic` and `native:constant:100kB`".to_owned(),
    };
    context
        .sink
        .push(Diagnostic::new(node.span.clone(), message).help(help));
    None
}

fn priority(node: &Node) -> Result<u8, InvalidValue> {
    let number = quantity::integer(node)
        .ok()
        .and_then(|n| u8::try_from(n).ok());
    number.ok_or_else(|| InvalidValue {
        message: "the class is out of range".to_owned(),
        allowed: "from 0, which is served first, to 255".to_owned(),
    })
}

fn tag(node: &Node) -> Result<u32, InvalidValue> {
    let number = quantity::integer(node)
        .ok()
        .and_then(|n| u32::try_from(n).ok());
    number.ok_or_else(|| InvalidValue {
        message: "the tag is out of range".to_owned(),
        allowed: "from 0, which is none, to 4294967295".to_owned(),
    })
}

fn balancing(node: &Node) -> Result<Balancing, InvalidValue> {
    match &node.value {
        Value::Text(text) if text == "flow" => Ok(Balancing::PerFlow),
        Value::Text(text) if text == "packet" => Ok(Balancing::PerPacket),
        _ => Err(InvalidValue {
            message: "unknown kind of balancing".to_owned(),
            allowed: "`flow` or `packet`".to_owned(),
        }),
    }
}

/// The links that a flow takes: `["a", "b"]`, or several such lists for parallel paths.
fn read_via<'n>(
    node: &'n Node,
    ends: (NodeId, NodeId),
    network: &Network,
    balancing: Balancing,
    context: &Context<'_>,
) -> Option<Path> {
    let refuse = |node: &Node| {
        if !node.is_unknown() {
            let message = "`via` is a list of links' names, or a list of such lists";
            context
                .sink
                .push(Diagnostic::new(node.span.clone(), message));
        }
    };
    let Value::Array(items) = &node.value else {
        refuse(node);
        return None;
    };
    let nested = items
        .iter()
        .any(|item| matches!(item.value, Value::Array(_)));
    let paths: Vec<(&Node, &[Node])> = if nested {
        let links = |item: &'n Node| match item {
            Node {
                value: Value::Array(links),
                ..
            } => Some((item, links.as_slice())),
            other => {
                refuse(other);
                None
            }
        };
        items.iter().map(links).collect::<Option<_>>()?
    } else {
        vec![(node, items.as_slice())]
    };
    let (mut forward, mut reverse) = (Vec::new(), Vec::new());
    for (place, links) in paths {
        let (there, back) = walk(place, links, ends, network, context)?;
        forward.push(there);
        reverse.push(back);
    }
    if forward.is_empty() {
        refuse(node);
        return None;
    }
    Some(Path::Along {
        forward,
        reverse,
        balancing,
    })
}

/// From the sender link by link to the receiver, and back over the same links.
fn walk(
    place: &Node,
    links: &[Node],
    (from, to): (NodeId, NodeId),
    network: &Network,
    context: &Context<'_>,
) -> Option<(Vec<EdgeId>, Vec<EdgeId>)> {
    let (mut there, mut back) = (Vec::new(), Vec::new());
    let mut at = from;
    for node in links {
        let say = |message: String| Diagnostic::new(node.span.clone(), message);
        let Value::Text(name) = &node.value else {
            if !node.is_unknown() {
                context
                    .sink
                    .push(say("`via`: a link's name is a text".to_owned()));
            }
            return None;
        };
        let (a, b) = match network.links.get(name) {
            Some(Some(edges)) => *edges,
            Some(None) => {
                context
                    .sink
                    .push(say(format!("`via`: `{name}` stands for several links")));
                return None;
            }
            None => {
                let mut diagnostic = say(format!("`via`: there is no link `{name}`"));
                if let Some(near) = nearest(name, network.links.keys().map(String::as_str)) {
                    diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
                }
                context.sink.push(diagnostic);
                return None;
            }
        };
        let edge = |id: EdgeId| &network.edges[id.0 as usize];
        let (out, home) = match () {
            () if edge(a).from == at => (a, b),
            () if edge(b).from == at => (b, a),
            () => {
                let host = &network.names[at.0 as usize];
                context.sink.push(say(format!(
                    "`via`: the link `{name}` does not begin at `{host}`"
                )));
                return None;
            }
        };
        there.push(out);
        back.insert(0, home);
        at = edge(out).to;
    }
    if at != to || there.is_empty() {
        let (end, host) = (&network.names[at.0 as usize], &network.names[to.0 as usize]);
        let message = format!("`via` ends at `{end}`, not at `{host}`");
        context
            .sink
            .push(Diagnostic::new(place.span.clone(), message));
        return None;
    }
    Some((there, back))
}
