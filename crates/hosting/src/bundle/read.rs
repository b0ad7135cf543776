//! The configuration of a box as a file: read with every mistake under its line.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use fairwater_bundle::{ChannelConfig, Prefix, ReceiveBundleConfig, SendBundleConfig};
use fairwater_bundle_linux::{MESSAGE_PORT, random};
use fairwater_document::diagnostic::{Diagnostic, Diagnostics, Sink};
use fairwater_document::fields::{Fields, InvalidValue, refuse};
use fairwater_document::tree::{self, Node, Value};
use fairwater_document::{network, quantity, queue};
use fairwater_net::{Buffer, Discipline, QueueConfig, QueueContext, QueueSpec, Rate};

use super::{BoxConfig, BundleNames, ReceiveboxConfig, SendboxConfig, SendboxPlane, read_key};
use crate::{is_python_spec, resolve};

/// Bounds on how long a sendbox may be silent.
const SILENCE: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(5)..=Duration::from_secs(10);
/// How long it may be, unless the file says.
const USUAL_SILENCE: Duration = Duration::from_millis(50);
/// Bytes in all queues, unless the file says.
const USUAL_MEMORY: u64 = 256_000_000;
/// A network that disciplines are configured for: their own limits follow from it. What is in the queue is limited by the
/// sendbox.
const NOMINAL_RTT: Duration = Duration::from_millis(100);
const MOST_BITS_PER_S: u64 = 10_000_000_000;

impl BoxConfig {
    /// Reads a configuration. Keys and Python files that it names are relative to `folder`.
    ///
    /// # Errors
    /// Everything that is wrong, each mistake under its line.
    pub fn parse(file_name: &str, source: &str, folder: &Path) -> Result<Self, Diagnostics> {
        let sink = Sink::default();
        let root = tree::parse(source, &sink);
        let config =
            Fields::of("the configuration", &root, &sink).and_then(|fields| read(fields, folder));
        if config.is_none() && sink.said() == 0 {
            sink.push(Diagnostic::new(0..0, "the configuration is not complete"));
        }
        sink.finish(file_name, source)?;
        Ok(config.unwrap_or_else(nothing))
    }

    /// Whether a text is meant to be the configuration of one box, and not of a host.
    #[must_use]
    pub fn is_meant(source: &str) -> bool {
        let root = tree::parse(source, &Sink::default());
        let has = |names: &[&str]| names.iter().any(|name| has_key(&root, name));
        has(&["sendbox", "receivebox"])
            && !has(&["algorithms", "linux", "edge", "links", "control", "metrics"])
    }
}

/// What was read of a file with mistakes.
const fn nothing() -> BoxConfig {
    BoxConfig::Receive(ReceiveboxConfig {
        ports: Vec::new(),
        listen: anywhere(MESSAGE_PORT),
        bundles: Vec::new(),
    })
}

fn has_key(table: &Node, name: &str) -> bool {
    match &table.value {
        Value::Table(entries) => entries.iter().any(|(key, _)| key.name == name),
        _ => false,
    }
}

fn read(mut root: Fields<'_>, folder: &Path) -> Option<BoxConfig> {
    let sink = root.sink;
    let send = root.node("sendbox");
    let receive = root.node("receivebox");
    let bundles = match root.node("bundle") {
        Some(node) => Some(tables(node, sink)),
        None if send.or(receive).is_some_and(|it| has_key(it, "bundle")) => None,
        None => {
            if send.or(receive).is_some() {
                root.missing("bundle");
            }
            Some(&[][..])
        }
    };
    let config = match (send, receive) {
        (Some(node), None) => {
            let algorithm = |node: &Node| algorithm(node, folder, sink);
            read_sendbox(node, bundles, folder, &algorithm, sink).map(BoxConfig::Send)
        }
        (None, Some(node)) => read_receivebox(node, bundles, folder, sink).map(BoxConfig::Receive),
        (Some(_), Some(node)) => {
            let message = "a file configures one box: `[sendbox]` or `[receivebox]`";
            let help = "write two files, and run `fairwater bundle send` and `fairwater bundle receive`; or put both \
                        boxes into the configuration of `fairwater up`";
            sink.push(Diagnostic::new(node.span.clone(), message).help(help));
            None
        }
        (None, None) => {
            let message = "the file has neither `[sendbox]` nor `[receivebox]`";
            sink.push(Diagnostic::new(root.span.clone(), message));
            None
        }
    };
    root.finish();
    config
}

/// Reads `[sendbox]`. Its bundles are these tables, or those in it. `algorithm` reads the name of a bundle's algorithm.
pub(crate) fn read_sendbox(
    node: &Node,
    outside: Option<&[Node]>,
    folder: &Path,
    algorithm: &dyn Fn(&Node) -> Option<String>,
    sink: &Sink,
) -> Option<SendboxConfig> {
    let mut fields = Fields::of("`[sendbox]`", node, sink)?;
    let tables = bundles_of(&mut fields, outside);
    let config = sendbox(fields);
    let plane = plane_of(node);
    let bundles = tables
        .iter()
        .filter_map(|node| send_bundle(node, plane, folder, algorithm, sink));
    let bundles: Vec<_> = bundles.collect();
    refuse_equal(
        bundles.iter().map(|(names, bundle, node)| {
            let number = bundle.channel.bundle;
            (&*names.name, number, &*bundle.destinations, *node)
        }),
        sink,
    );
    let bundles = bundles
        .into_iter()
        .map(|(names, bundle, _)| (names, bundle));
    let bundles = bundles.collect();
    config.map(|config| SendboxConfig { bundles, ..config })
}

/// Reads `[receivebox]`. Its bundles are these tables, or those in it.
pub(crate) fn read_receivebox(
    node: &Node,
    outside: Option<&[Node]>,
    folder: &Path,
    sink: &Sink,
) -> Option<ReceiveboxConfig> {
    let mut fields = Fields::of("`[receivebox]`", node, sink)?;
    let tables = bundles_of(&mut fields, outside);
    let config = receivebox(fields);
    let bundles = tables
        .iter()
        .filter_map(|node| receive_bundle(node, folder, sink));
    let bundles: Vec<_> = bundles.collect();
    refuse_equal(
        bundles
            .iter()
            .map(|(name, bundle, node)| (&**name, bundle.channel.bundle, &*bundle.sources, *node)),
        sink,
    );
    let bundles = bundles.into_iter().map(|(name, bundle, _)| (name, bundle));
    let bundles = bundles.collect();
    config.map(|config| ReceiveboxConfig { bundles, ..config })
}

/// The tables of a box's bundles, where they are not outside.
fn bundles_of<'a>(fields: &mut Fields<'a>, outside: Option<&'a [Node]>) -> &'a [Node] {
    match (outside, fields.node("bundle")) {
        (None, Some(node)) => tables(node, fields.sink),
        (None, None) => {
            fields.missing("bundle");
            &[]
        }
        (Some(outside), None) => outside,
        (Some(outside), Some(node)) => {
            let message = "bundles are in the table of their box, or outside of it, not both";
            fields
                .sink
                .push(Diagnostic::new(node.span.clone(), message));
            outside
        }
    }
}

/// The tables of `[[bundle]]`.
fn tables<'a>(node: &'a Node, sink: &Sink) -> &'a [Node] {
    match &node.value {
        Value::Array(items) => items,
        _ => {
            if !node.is_unknown() {
                let message = "bundles are a list of tables: write `[[bundle]]`";
                sink.push(Diagnostic::new(node.span.clone(), message));
            }
            &[]
        }
    }
}

/// Where packets are scheduled.
fn plane(node: &Node) -> Result<SendboxPlane, InvalidValue> {
    match &*quantity::text(node)? {
        "tap" => Ok(SendboxPlane::Tap),
        "kernel" => Ok(SendboxPlane::Kernel),
        other => Err(InvalidValue {
            message: format!("there is no data plane `{other}`"),
            allowed: "`tap` or `kernel`".to_owned(),
        }),
    }
}

/// Where the packets of a sendbox are scheduled, whatever else is wrong in its table.
fn plane_of(sendbox: &Node) -> SendboxPlane {
    let Value::Table(entries) = &sendbox.value else {
        return SendboxPlane::default();
    };
    let node = entries.iter().find(|(key, _)| key.name == "plane");
    node.and_then(|(_, node)| plane(node).ok())
        .unwrap_or_default()
}

/// The interface by which packets leave.
fn one_port(node: &Node) -> Result<Vec<String>, InvalidValue> {
    let ports = ports(node)?;
    if ports.len() == 1 {
        return Ok(ports);
    }
    Err(InvalidValue {
        message: "with `plane = \"kernel\"` packets leave by one interface".to_owned(),
        allowed: "a list such as `[\"wan0\"]`".to_owned(),
    })
}

/// Refuses a key that a sendbox in the kernel has no use for.
fn refuse_in_kernel(key: &str, node: Option<&Node>, sink: &Sink) {
    if let Some(node) = node {
        let message = format!("`{key}` has no effect with `plane = \"kernel\"`");
        sink.push(Diagnostic::new(node.span.clone(), message).help("leave it out"));
    }
}

fn sendbox(mut fields: Fields<'_>) -> Option<SendboxConfig> {
    let plane = fields.optional("plane", plane).unwrap_or_default();
    let ports = match plane {
        SendboxPlane::Tap => fields.required("ports", ports),
        SendboxPlane::Kernel => fields.required("ports", one_port),
    };
    if plane == SendboxPlane::Kernel {
        let memory = fields.node("memory");
        refuse_in_kernel("memory", memory, fields.sink);
    }
    let message_port = fields.optional("message_port", message_port);
    let config = SendboxConfig {
        plane,
        listen: fields.optional("listen", listen).unwrap_or(anywhere(0)),
        message_port: message_port.unwrap_or(MESSAGE_PORT),
        memory_bytes: fields
            .optional("memory", quantity::some_bytes)
            .unwrap_or(USUAL_MEMORY),
        silent_after: fields
            .optional("silent_after", silence)
            .unwrap_or(USUAL_SILENCE),
        ports: Vec::new(),
        bundles: Vec::new(),
    };
    fields.finish();
    Some(SendboxConfig {
        ports: ports?,
        ..config
    })
}

fn receivebox(mut fields: Fields<'_>) -> Option<ReceiveboxConfig> {
    let ports = fields.required("ports", ports);
    let listen = fields.optional("listen", listen);
    fields.finish();
    Some(ReceiveboxConfig {
        ports: ports?,
        listen: listen.unwrap_or(anywhere(MESSAGE_PORT)),
        bundles: Vec::new(),
    })
}

fn send_bundle<'a>(
    node: &'a Node,
    plane: SendboxPlane,
    folder: &Path,
    algorithm: &dyn Fn(&Node) -> Option<String>,
    sink: &Sink,
) -> Option<(BundleNames, SendBundleConfig, &'a Node)> {
    let mut fields = Fields::of("a bundle", node, sink)?;
    let name = fields.required("name", quantity::text);
    let channel = channel(&mut fields, folder);
    let receivebox = fields.required("receivebox", receivebox_address);
    let to = fields.required("to", prefixes);
    let algorithm = match fields.node("algorithm") {
        Some(node) => algorithm(node),
        None => {
            fields.missing("algorithm");
            None
        }
    };
    let (scheduler, queue) = match (plane, fields.node("queue")) {
        (SendboxPlane::Tap, Some(node)) => scheduler(node, sink),
        (SendboxPlane::Tap, None) => usual_scheduler(),
        (SendboxPlane::Kernel, node) => {
            refuse_in_kernel("queue", node, sink);
            usual_scheduler().map(|(_, queue)| ("htb", queue))
        }
    }
    .unzip();
    let queue_bytes = fields.optional("queue_limit", quantity::some_bytes);
    let queue_time = fields.optional("queue_time", quantity::period);
    let min_rate = fields.optional("min_rate", quantity::rate);
    let assured_rate = fields.optional("assured_rate", quantity::rate);
    let observe = fields.optional("observe", quantity::boolean);
    fields.finish();
    let algorithm = algorithm?;
    let usual = SendBundleConfig::new(channel?, receivebox?, to?);
    let bytes_per_s = |rate: Option<Rate>| rate.map(|rate| rate.bps() / 8);
    let bundle = SendBundleConfig {
        algorithm: algorithm.clone(),
        queue: queue?,
        queue_bytes: queue_bytes.unwrap_or(usual.queue_bytes),
        queue_time: queue_time.unwrap_or(usual.queue_time),
        min_rate: bytes_per_s(min_rate).unwrap_or(usual.min_rate),
        assured_rate: bytes_per_s(assured_rate).unwrap_or(usual.assured_rate),
        observe: observe.unwrap_or(false),
        seed: drawn(),
        ..usual
    };
    let names = BundleNames {
        name: name?,
        algorithm,
        scheduler: scheduler?,
    };
    Some((names, bundle, node))
}

fn receive_bundle<'a>(
    node: &'a Node,
    folder: &Path,
    sink: &Sink,
) -> Option<(String, ReceiveBundleConfig, &'a Node)> {
    let mut fields = Fields::of("a bundle", node, sink)?;
    let name = fields.required("name", quantity::text);
    let channel = channel(&mut fields, folder);
    let sources = fields.required("from", prefixes);
    let destinations = fields.optional("to", prefixes);
    fields.finish();
    let bundle = ReceiveBundleConfig {
        channel: channel?,
        sources: sources?,
        destinations: destinations.unwrap_or_default(),
    };
    Some((name?, bundle, node))
}

/// Number and key of a bundle.
fn channel(fields: &mut Fields<'_>, folder: &Path) -> Option<ChannelConfig> {
    let number = fields.required("number", |node| {
        let number = quantity::count(node)?;
        u32::try_from(number).map_err(|_| InvalidValue {
            message: format!("{number} is out of range"),
            allowed: "a number of 32 bits, the same at both boxes".to_owned(),
        })
    });
    let Some(node) = fields.node("key") else {
        fields.missing("key");
        return None;
    };
    let file = match quantity::text(node) {
        Ok(file) => folder.join(file),
        Err(invalid) => {
            refuse("key", node, invalid, fields.sink);
            return None;
        }
    };
    match read_key(&file) {
        Ok(secret) => Some(ChannelConfig {
            bundle: number?,
            secret,
            instance: drawn() | 1,
        }),
        Err(error) => {
            let message = format!("`key`: {}: {error}", file.display());
            let diagnostic = Diagnostic::new(node.span.clone(), message);
            fields.sink.push(diagnostic);
            None
        }
    }
}

fn algorithm(node: &Node, folder: &Path, sink: &Sink) -> Option<String> {
    let spec = match quantity::text(node) {
        Ok(spec) => spec,
        Err(invalid) => {
            refuse("algorithm", node, invalid, sink);
            return None;
        }
    };
    if is_python_spec(&spec) {
        let message = "`algorithm`: a sendbox runs no algorithms in Python";
        sink.push(Diagnostic::new(node.span.clone(), message));
        return None;
    }
    match resolve(&spec, folder) {
        Ok(_) => Some(spec),
        Err(error) => {
            for message in error.messages {
                let message = format!("`algorithm`: {message}");
                sink.push(Diagnostic::new(node.span.clone(), message));
            }
            None
        }
    }
}

fn scheduler(node: &Node, sink: &Sink) -> Option<(&'static str, QueueConfig)> {
    let spec = match &node.value {
        // As operators of tc know it.
        Value::Text(name) if name == "fifo" => Discipline::named("droptail").map(QueueSpec::new),
        _ => queue::read(node, sink),
    }?;
    match configured(&spec) {
        Ok(config) => Some((spec.discipline().name(), config)),
        Err(message) => {
            sink.push(Diagnostic::new(node.span.clone(), message));
            None
        }
    }
}

fn usual_scheduler() -> Option<(&'static str, QueueConfig)> {
    let spec = Discipline::named("sfq").map(QueueSpec::new)?;
    Some((spec.discipline().name(), configured(&spec).ok()?))
}

fn configured(spec: &QueueSpec) -> Result<QueueConfig, String> {
    let context = QueueContext {
        rate: Rate::from_bps(MOST_BITS_PER_S).ok_or("no rate")?,
        rtt: NOMINAL_RTT,
        // The sendbox limits what is queued, in bytes and time.
        buffer: Some(Buffer::Bytes(1 << 40)),
    };
    let config = spec
        .config(&context)
        .map_err(|error| format!("`queue`: {error}"))?;
    config
        .check()
        .map_err(|error| format!("`queue`: {error}"))?;
    Ok(config)
}

/// Refuses two bundles with one name, number or prefix.
fn refuse_equal<'a>(
    bundles: impl Iterator<Item = (&'a str, u32, &'a [Prefix], &'a Node)>,
    sink: &Sink,
) {
    let bundles: Vec<_> = bundles.collect();
    for (index, (name, number, prefixes, node)) in bundles.iter().enumerate() {
        let before = &bundles[..index];
        let say = |message: String| sink.push(Diagnostic::new(node.span.clone(), message));
        if before.iter().any(|other| other.0 == *name) {
            say(format!("two bundles are called `{name}`"));
        }
        if before.iter().any(|other| other.1 == *number) {
            say(format!("two bundles have the number {number}"));
        }
        for prefix in *prefixes {
            if before.iter().any(|other| other.2.contains(prefix)) {
                say(format!("the prefix `{prefix}` belongs to two bundles"));
            }
        }
    }
}

fn drawn() -> u64 {
    // Without random numbers no socket or key would work either.
    random().map_or(1, u64::from_ne_bytes)
}

const fn anywhere(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)
}

fn ports(node: &Node) -> Result<Vec<String>, InvalidValue> {
    let allowed = "a list such as `[\"lan0\"]`";
    let ports = match &node.value {
        Value::Array(items) => items.iter().map(quantity::text).collect(),
        Value::Text(_) => Ok(vec![quantity::text(node)?]),
        _ => Err(InvalidValue::kind(node, allowed)),
    }?;
    if ports.is_empty() {
        return Err(InvalidValue {
            message: "no interface is listed".to_owned(),
            allowed: allowed.to_owned(),
        });
    }
    Ok(ports)
}

fn prefixes(node: &Node) -> Result<Vec<Prefix>, InvalidValue> {
    let prefix = |node: &Node| {
        let net = network::prefix(node)?;
        Prefix::new(net.network(), net.prefix_len())
            .ok_or_else(|| InvalidValue::kind(node, "a prefix"))
    };
    match &node.value {
        Value::Array(items) if items.is_empty() => Err(InvalidValue {
            message: "no prefix is listed".to_owned(),
            allowed: "a list such as `[\"10.2.0.0/16\"]`".to_owned(),
        }),
        Value::Array(items) => items.iter().map(prefix).collect(),
        Value::Text(_) => Ok(vec![prefix(node)?]),
        _ => Err(InvalidValue::kind(
            node,
            "a list such as `[\"10.2.0.0/16\"]`",
        )),
    }
}

fn listen(node: &Node) -> Result<SocketAddr, InvalidValue> {
    let text = quantity::text(node)?;
    text.parse().map_err(|_| InvalidValue {
        message: format!("`{text}` is not an address with a port"),
        allowed: "an address such as `[::]:6790`".to_owned(),
    })
}

fn receivebox_address(node: &Node) -> Result<SocketAddr, InvalidValue> {
    let text = quantity::text(node)?;
    let address = text.parse::<IpAddr>();
    let with_port = address.map(|address| SocketAddr::new(address, MESSAGE_PORT));
    with_port
        .or_else(|_| text.parse())
        .map_err(|_| InvalidValue {
            message: format!("`{text}` is not an address"),
            allowed: format!("an address such as `192.0.2.1` or `192.0.2.1:{MESSAGE_PORT}`"),
        })
}

fn message_port(node: &Node) -> Result<u16, InvalidValue> {
    let number = quantity::count(node)?;
    u16::try_from(number).map_err(|_| InvalidValue {
        message: format!("{number} is out of range"),
        allowed: "a port".to_owned(),
    })
}

fn silence(node: &Node) -> Result<Duration, InvalidValue> {
    let silence = quantity::duration(node)?;
    if SILENCE.contains(&silence) {
        return Ok(silence);
    }
    Err(InvalidValue {
        message: "it is out of range".to_owned(),
        allowed: "5ms to 10s".to_owned(),
    })
}
