//! The configuration of a host as a file: read with every mistake under its line.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fairwater_document::diagnostic::{Diagnostic, Diagnostics, Sink};
use fairwater_document::fields::{Fields, InvalidValue, refuse};
use fairwater_document::tree::{self, Node, Value};
use fairwater_document::{network, quantity};
use fairwater_edge::policy::PortPattern;
use fairwater_edge_tc::EdgeOptions;
use fairwater_linux::Options;
use fairwater_plane::{CarefulResumeConfig, nearest};
use fairwater_service::{Policy, Rule};

use super::config::{
    ControlConfig, HostConfig, LinksConfig, LinuxConfig, MetricsAddress, runtime_directory,
};
use super::edge::EdgeConfig;
use crate::bundle::{read_receivebox, read_sendbox};
use crate::{NamedAlgorithm, resolve};

/// Bounds on how long a plane may be silent.
const SILENCE: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3600);
/// Bounds on the flows of Linux TCP.
const FLOWS: RangeInclusive<u64> = 1..=1 << 20;
/// Bounds on how long an observation of a path may be used, and on what a window is raised to, bytes.
const LIFETIME: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(7 * 24 * 3600);
const MAX_JUMP: u64 = 1_000_000_000;
/// Bounds on the datapaths in other processes.
const PEERS: RangeInclusive<u64> = 1..=65_536;

impl HostConfig {
    /// Reads a configuration. Python files that it names are relative to `folder`.
    ///
    /// # Errors
    /// Everything that is wrong, each mistake under its line.
    pub fn parse(file_name: &str, source: &str, folder: &Path) -> Result<Self, Diagnostics> {
        let sink = Sink::default();
        let root = tree::parse(source, &sink);
        let config = Fields::of("the configuration", &root, &sink)
            .map(|fields| read(fields, folder, &sink))
            .unwrap_or_default();
        sink.finish(file_name, source)?;
        Ok(config)
    }
}

fn read<'a>(mut root: Fields<'a>, folder: &Path, sink: &'a Sink) -> HostConfig {
    let mut config = HostConfig::default();
    match root.node("algorithms") {
        Some(node) => config.algorithms = algorithms(node, folder, sink),
        None => root.missing("algorithms"),
    }
    if let Some(most) = root.optional("max_instructions", quantity::count) {
        config.max_instructions = usize::try_from(most).unwrap_or(usize::MAX);
    }
    let names: Vec<_> = config
        .algorithms
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let names = Names {
        names: &names,
        complete: sink.said() == 0,
    };
    config.linux = table(&mut root, "linux", sink, |fields| linux(fields, &names));
    config.edge = table(&mut root, "edge", sink, |fields| edge(fields, folder)).flatten();
    config.sendbox = root.node("sendbox").and_then(|node| {
        let algorithm = |node: &Node| bundle_algorithm(node, &names, &config.algorithms, sink);
        read_sendbox(node, None, folder, &algorithm, sink)
    });
    config.receivebox = root
        .node("receivebox")
        .and_then(|node| read_receivebox(node, None, folder, sink));
    config.links = table(&mut root, "links", sink, links).flatten();
    let control = table(&mut root, "control", sink, control);
    config.control = control.unwrap_or_else(usual_control);
    config.metrics = table(&mut root, "metrics", sink, metrics).flatten();
    config.careful_resume = table(&mut root, "careful_resume", sink, careful_resume);
    if config.metrics.is_some() && config.control.is_none() {
        let message = "`[metrics]` needs the control socket, which has no default path here";
        let help = "set `socket` in `[control]`";
        sink.push(Diagnostic::new(root.span.clone(), message).help(help));
    }
    let apart = |name: &str| {
        let of_name = |(known, each): &&NamedAlgorithm| known == name && each.is_python;
        config.linux.is_some() && config.algorithms.iter().any(|each| of_name(&each))
    };
    let rules = root
        .node("policy")
        .map(|node| policy(node, &names, &apart, sink));
    config.policy = rules.unwrap_or_default();
    let has_any = config.linux.is_some()
        || config.edge.is_some()
        || config.links.is_some()
        || config.sendbox.is_some()
        || config.receivebox.is_some();
    if !has_any && sink.said() == 0 {
        let message = "the configuration has no `[linux]`, `[edge]`, `[sendbox]`, `[receivebox]` or `[links]`: there is nothing to run";
        let help = "add `[linux]` for this machine's TCP, `[edge]` for the ports of guests, `[sendbox]` and \
                    `[receivebox]` for bundles, `[links]` for datapaths in other processes";
        sink.push(Diagnostic::new(root.span.clone(), message).help(help));
    }
    root.finish();
    config
}

/// Reads a table, if it is there.
fn table<'a, T>(
    root: &mut Fields<'a>,
    key: &'static str,
    sink: &'a Sink,
    read: impl FnOnce(Fields<'a>) -> T,
) -> Option<T> {
    let node = root.node(key)?;
    let fields = Fields::of(titled(key), node, sink)?;
    Some(read(fields))
}

fn titled(key: &str) -> &'static str {
    match key {
        "linux" => "`[linux]`",
        "edge" => "`[edge]`",
        "links" => "`[links]`",
        "control" => "`[control]`",
        "careful_resume" => "`[careful_resume]`",
        _ => "`[metrics]`",
    }
}

/// The names of the algorithms.
struct Names<'a> {
    names: &'a [&'a str],
    /// Whether each algorithm was understood, so that these are all names.
    complete: bool,
}

impl Names<'_> {
    /// The name of an algorithm at a key.
    fn read(&self, fields: &mut Fields<'_>, key: &'static str) -> Option<String> {
        let node = fields.node(key)?;
        self.at(node, key, fields.sink)
    }

    /// The name of an algorithm at the value of a key.
    fn at(&self, node: &Node, key: &str, sink: &Sink) -> Option<String> {
        let name = match quantity::text(node) {
            Ok(name) => name,
            Err(invalid) => {
                refuse(key, node, invalid, sink);
                return None;
            }
        };
        if !self.complete || self.names.contains(&name.as_str()) {
            return Some(name);
        }
        let message = format!("`{key}`: no algorithm of `algorithms` is called `{name}`");
        let mut diagnostic = Diagnostic::new(node.span.clone(), message);
        if let Some(near) = nearest(&name, self.names.iter().copied()) {
            diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
        }
        sink.push(diagnostic);
        None
    }
}

/// The algorithm of a bundle, which this process runs.
fn bundle_algorithm(
    node: &Node,
    names: &Names<'_>,
    algorithms: &[NamedAlgorithm],
    sink: &Sink,
) -> Option<String> {
    let name = names.at(node, "algorithm", sink)?;
    if algorithms
        .iter()
        .any(|(known, each)| *known == name && each.is_python)
    {
        let message = "`algorithm`: a sendbox runs no algorithms in Python";
        sink.push(Diagnostic::new(node.span.clone(), message));
        return None;
    }
    Some(name)
}

/// `["cubic", "bbr:…"]`, each under its own name, or `{ slow = "cubic:report=100ms" }`.
fn algorithms(node: &Node, folder: &Path, sink: &Sink) -> Vec<NamedAlgorithm> {
    let mut found: Vec<NamedAlgorithm> = Vec::new();
    let mut take = |name: Option<&str>, node: &Node| {
        let spec = match quantity::text(node) {
            Ok(spec) => spec,
            Err(invalid) => return refuse("algorithms", node, invalid, sink),
        };
        let resolved = match resolve(&spec, folder) {
            Ok(resolved) => resolved,
            Err(error) => {
                for message in error.messages {
                    sink.push(Diagnostic::new(node.span.clone(), message));
                }
                return;
            }
        };
        let name = name.unwrap_or(resolved.choice.name()).to_owned();
        if found.iter().any(|(known, _)| *known == name) {
            let message = format!("two algorithms are called `{name}`");
            let help = "name them yourself: algorithms = { fast = \"cubic\", slow = \"cubic:report=100ms\" }";
            return sink.push(Diagnostic::new(node.span.clone(), message).help(help));
        }
        found.push((name, resolved));
    };
    match &node.value {
        Value::Array(items) => items.iter().for_each(|item| take(None, item)),
        Value::Table(entries) => {
            // In the order of the file, not of the names.
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_by_key(|(key, _)| key.span.start);
            for (key, item) in entries {
                take(Some(&key.name), item);
            }
        }
        _ => {
            let invalid = InvalidValue::kind(node, "a list such as `[\"cubic\", \"bbr\"]`");
            refuse("algorithms", node, invalid, sink);
        }
    }
    if found.is_empty() && sink.said() == 0 {
        sink.push(Diagnostic::new(node.span.clone(), "no algorithm is listed"));
    }
    found
}

fn linux(mut fields: Fields<'_>, names: &Names<'_>) -> LinuxConfig {
    let mut config = LinuxConfig {
        default: names.read(&mut fields, "default"),
        ..LinuxConfig::default()
    };
    let boolean = |fields: &mut Fields<'_>, key| fields.optional(key, quantity::boolean);
    config.move_existing = boolean(&mut fields, "move_existing").unwrap_or(false);
    config.optional = boolean(&mut fields, "optional").unwrap_or(false);
    let defaults = Options::default();
    config.options = Options {
        silent_after: fields
            .optional("silent_after", silence)
            .unwrap_or(defaults.silent_after),
        max_flows: fields
            .optional("max_flows", |node| within(node, FLOWS))
            .unwrap_or(defaults.max_flows),
        ..defaults
    };
    fields.finish();
    config
}

/// The policy is read by its own reader, so that its mistakes stand under its own lines.
fn edge(mut fields: Fields<'_>, folder: &Path) -> Option<EdgeConfig> {
    let on = fields.required("on", patterns);
    let policy = fields.required("policy", quantity::text);
    let defaults = EdgeOptions::default();
    let options = EdgeOptions {
        silent_after: fields
            .optional("silent_after", silence)
            .unwrap_or(defaults.silent_after),
        max_flows: fields
            .optional("max_flows", |node| within(node, FLOWS))
            .unwrap_or(defaults.max_flows),
        ..defaults
    };
    fields.finish();
    Some(EdgeConfig {
        on: on?,
        policy_file: folder.join(policy?),
        policy: Arc::default(),
        options,
    })
}

/// Names of ports, as patterns.
fn patterns(node: &Node) -> Result<Vec<PortPattern>, InvalidValue> {
    let pattern = |node: &Node| {
        let text = quantity::text(node)?;
        PortPattern::new(&text).map_err(|why| InvalidValue {
            message: format!("`{text}` is not a pattern: {why}"),
            allowed: "the name of an interface, with `*` for any text".to_owned(),
        })
    };
    match &node.value {
        Value::Array(items) => items.iter().map(pattern).collect(),
        Value::Text(_) => Ok(vec![pattern(node)?]),
        _ => Err(InvalidValue::kind(node, "a list such as `[\"vnet*\"]`")),
    }
}

fn silence(node: &Node) -> Result<Duration, InvalidValue> {
    let silence = quantity::duration(node)?;
    if SILENCE.contains(&silence) {
        return Ok(silence);
    }
    Err(InvalidValue {
        message: "it is out of range".to_owned(),
        allowed: "10ms to 60min".to_owned(),
    })
}

fn within(node: &Node, range: RangeInclusive<u64>) -> Result<u32, InvalidValue> {
    let number = quantity::count(node)?;
    let fits = range.contains(&number).then(|| u32::try_from(number).ok());
    fits.flatten().ok_or_else(|| InvalidValue {
        message: format!("{number} is out of range"),
        allowed: format!("{} to {}", range.start(), range.end()),
    })
}

fn links(mut fields: Fields<'_>) -> Option<LinksConfig> {
    let listen = fields.optional("listen", path);
    let usual = || Some(runtime_directory()?.join("plane"));
    let Some(listen) = listen.or_else(usual) else {
        fields.missing("listen");
        return None;
    };
    let mut config = LinksConfig::at(listen);
    config.ccp = fields.optional("ccp", path);
    if let Some(most) = fields.optional("max_peers", |node| within(node, PEERS)) {
        config.max_peers = most;
    }
    if let Some(spin) = fields.optional("spin", quantity::duration) {
        config.spin = spin;
    }
    fields.finish();
    Some(config)
}

fn careful_resume(mut fields: Fields<'_>) -> CarefulResumeConfig {
    let defaults = CarefulResumeConfig::default();
    let config = CarefulResumeConfig {
        lifetime: fields
            .optional("lifetime", lifetime)
            .unwrap_or(defaults.lifetime),
        max_jump: fields
            .optional("max_jump", max_jump)
            .unwrap_or(defaults.max_jump),
        ipv4_prefix: fields
            .optional("ipv4_prefix", |node| prefix(node, 32))
            .unwrap_or(defaults.ipv4_prefix),
        ipv6_prefix: fields
            .optional("ipv6_prefix", |node| prefix(node, 128))
            .unwrap_or(defaults.ipv6_prefix),
        max_paths: fields
            .optional("max_paths", |node| within(node, FLOWS))
            .map_or(defaults.max_paths, |paths| paths as usize),
    };
    fields.finish();
    config
}

fn lifetime(node: &Node) -> Result<Duration, InvalidValue> {
    let lifetime = quantity::duration(node)?;
    if LIFETIME.contains(&lifetime) {
        return Ok(lifetime);
    }
    Err(InvalidValue {
        message: "it is out of range".to_owned(),
        allowed: "1s to 10080min".to_owned(),
    })
}

fn max_jump(node: &Node) -> Result<u64, InvalidValue> {
    let bytes = quantity::some_bytes(node)?;
    if bytes <= MAX_JUMP {
        return Ok(bytes);
    }
    Err(InvalidValue {
        message: "it is out of range".to_owned(),
        allowed: "1B to 1GB".to_owned(),
    })
}

fn prefix(node: &Node, bits: u64) -> Result<u8, InvalidValue> {
    // At most 128.
    Ok(within(node, 1..=bits)? as u8)
}

fn usual_control() -> Option<ControlConfig> {
    Some(ControlConfig {
        socket: runtime_directory()?.join("control"),
        groups: Vec::new(),
    })
}

fn control(mut fields: Fields<'_>) -> Option<ControlConfig> {
    let socket = fields.optional("socket", path);
    let socket = socket.or_else(|| usual_control().map(|usual| usual.socket));
    let groups = fields.optional("groups", groups).unwrap_or_default();
    if socket.is_none() {
        fields.missing("socket");
    }
    fields.finish();
    Some(ControlConfig {
        socket: socket?,
        groups,
    })
}

/// Groups by name or number.
fn groups(node: &Node) -> Result<Vec<u32>, InvalidValue> {
    let Value::Array(items) = &node.value else {
        return Err(InvalidValue::kind(node, "a list such as `[\"netops\"]`"));
    };
    let file = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let group = |item: &Node| match &item.value {
        Value::Integer(number) => u32::try_from(*number).map_err(|_| unknown_group(item)),
        Value::Text(name) => group_number(&file, name).ok_or_else(|| unknown_group(item)),
        _ => Err(InvalidValue::kind(item, "the name or number of a group")),
    };
    items.iter().map(group).collect()
}

fn unknown_group(node: &Node) -> InvalidValue {
    InvalidValue {
        message: format!(
            "this machine has no group `{}`",
            node.plain().unwrap_or_default()
        ),
        allowed: "the name or number of a group".to_owned(),
    }
}

/// `name:password:number:members` (group(5)).
fn group_number(file: &str, name: &str) -> Option<u32> {
    let mut lines = file.lines().map(|line| line.split(':'));
    lines.find_map(|mut columns| {
        (columns.next() == Some(name)).then(|| columns.nth(1)?.parse().ok())?
    })
}

fn metrics(mut fields: Fields<'_>) -> Option<MetricsAddress> {
    let address = fields.required("listen", |node| {
        let text = quantity::text(node)?;
        if text.starts_with('/') {
            return Ok(MetricsAddress::Unix(PathBuf::from(text)));
        }
        let address: Result<SocketAddr, _> = text.parse();
        address.map(MetricsAddress::Tcp).map_err(|_| InvalidValue {
            message: format!("`{text}` is not an address with a port"),
            allowed: "`127.0.0.1:9464`, or the path of a Unix socket".to_owned(),
        })
    });
    fields.finish();
    address
}

fn path(node: &Node) -> Result<PathBuf, InvalidValue> {
    let path = PathBuf::from(quantity::text(node)?);
    if path.is_absolute() {
        return Ok(path);
    }
    Err(InvalidValue {
        message: "it is not an absolute path".to_owned(),
        allowed: "a path such as `/run/fairwater/plane`".to_owned(),
    })
}

fn policy(
    node: &Node,
    names: &Names<'_>,
    has_own_process: &dyn Fn(&str) -> bool,
    sink: &Sink,
) -> Policy {
    let Value::Array(items) = &node.value else {
        let message = "policies are tables: `[[policy]]`";
        sink.push(Diagnostic::new(node.span.clone(), message));
        return Policy::default();
    };
    let rules = items.iter().filter_map(|item| {
        let fields = Fields::of("a policy", item, sink)?;
        rule(fields, names, has_own_process)
    });
    Policy {
        rules: rules.collect(),
    }
}

fn rule(
    mut fields: Fields<'_>,
    names: &Names<'_>,
    has_own_process: &dyn Fn(&str) -> bool,
) -> Option<Rule> {
    let mark = |node: &Node| {
        let number = quantity::integer(node)?;
        u32::try_from(number).map_err(|_| InvalidValue {
            message: format!("{number} is out of range"),
            allowed: "a mark of 32 bits".to_owned(),
        })
    };
    let rule = Rule {
        datapath: fields.optional("datapath", quantity::text),
        cgroup: fields.optional("cgroup", cgroup),
        local_port: fields.optional("local_port", network::ports),
        remote_port: fields.optional("remote_port", network::ports),
        prefix: fields.optional("prefix", network::prefix),
        mark: fields.optional("mark", mark),
        algorithm: String::new(),
    };
    if fields.node("algorithm").is_none() {
        fields.missing("algorithm");
    }
    let algorithm = names.read(&mut fields, "algorithm");
    if let Some(name) = algorithm.as_deref().filter(|name| has_own_process(name)) {
        let message =
            format!("`{name}` has a process of its own, and flows cannot go from one to another");
        let help = "let sockets choose it, or make it the default";
        fields
            .sink
            .push(Diagnostic::new(fields.span.clone(), message).help(help));
    }
    fields.finish();
    Some(Rule {
        algorithm: algorithm?,
        ..rule
    })
}

fn cgroup(node: &Node) -> Result<String, InvalidValue> {
    let path = quantity::text(node)?;
    if path.starts_with('/') {
        return Ok(path);
    }
    Err(InvalidValue {
        message: "it is not the path of a cgroup".to_owned(),
        allowed: "a path from the root of cgroups, such as `/system.slice/backup.service`"
            .to_owned(),
    })
}
