//! The discipline of a queue: `queue = "fq_codel"`, or a table with its parameters.

use std::time::Duration;

use fairwater_net::{
    CoDelConfig, DrrConfig, FqCoDelConfig, Limit, PieConfig, Probability, QueueConfig, Rate,
    RedConfig, SfqConfig, StepConfig,
};
use fairwater_plane::nearest;

use super::diagnostic::{Diagnostic, Sink};
use super::fields::{Fields, refuse};
use super::quantity::{self, Buffer};
use super::tree::{Node, Value};

/// A queue discipline with its parameters; how much it holds is the link's buffer.
#[derive(Debug, Clone, Default)]
pub(super) enum Queue {
    #[default]
    DropTail,
    Step {
        threshold: Buffer,
    },
    Red(Red),
    CoDel(CoDelConfig),
    FqCoDel(FqCoDelConfig),
    Sfq(SfqConfig),
    Drr(DrrConfig),
    Pie(PieConfig),
    Priority(Vec<Queue>),
}

/// RED before its link's rate and buffer are known.
#[derive(Debug, Clone, Default)]
pub(super) struct Red {
    preset: Option<Preset>,
    min: Option<u64>,
    max: Option<u64>,
    avpkt: Option<u64>,
    burst: Option<u64>,
    probability: Option<Probability>,
    ecn: Option<bool>,
    harddrop: Option<bool>,
    nodrop: Option<bool>,
}

/// A named set of RED's parameters, for a link of some rate.
type Preset = fn(Rate) -> RedConfig;

/// The names of disciplines.
const KNOWN: [&str; 9] = [
    "droptail", "step", "red", "codel", "fq_codel", "sfq", "drr", "pie", "priority",
];

/// The most classes of a strict priority queue.
const MAX_CLASSES: usize = 256;

/// The link that a queue stands before, as far as its parameters follow from it.
pub(super) struct Before<'a> {
    pub(super) rate: Rate,
    /// Bytes of thousandths of the bandwidth-delay product.
    pub(super) bdp: &'a dyn Fn(u64) -> u64,
}

impl Before<'_> {
    pub(super) fn limit(&self, buffer: Buffer) -> Limit {
        match buffer {
            Buffer::Packets(packets) => Limit::Packets(packets),
            Buffer::Bytes(bytes) => Limit::Bytes(bytes),
            Buffer::MilliBdp(milli) => Limit::Bytes((self.bdp)(milli)),
        }
    }
}

impl Queue {
    /// The queue itself, which holds `buffer`, or as much as is usual for its discipline.
    pub(super) fn config(&self, buffer: Option<Buffer>, link: &Before<'_>) -> QueueConfig {
        let given = buffer.map(|buffer| link.limit(buffer));
        let or_bdp = || given.unwrap_or_else(|| Limit::Bytes((link.bdp)(1000)));
        let or = |usual: Limit| given.unwrap_or(usual);
        match self {
            Queue::DropTail => QueueConfig::DropTail(or_bdp()),
            Queue::Step { threshold } => QueueConfig::Step(StepConfig {
                limit: or_bdp(),
                threshold: link.limit(*threshold),
            }),
            Queue::Red(red) => QueueConfig::Red(red.config(given, link)),
            Queue::CoDel(config) => QueueConfig::CoDel(CoDelConfig {
                limit: or(config.limit),
                ..*config
            }),
            Queue::FqCoDel(config) => QueueConfig::FqCoDel(FqCoDelConfig {
                limit: or(config.limit),
                ..*config
            }),
            Queue::Sfq(config) => QueueConfig::Sfq(SfqConfig {
                limit: or(config.limit),
                ..*config
            }),
            Queue::Drr(config) => QueueConfig::Drr(DrrConfig {
                limit: or(config.limit),
                ..*config
            }),
            Queue::Pie(config) => QueueConfig::Pie(PieConfig {
                limit: or(config.limit),
                ..*config
            }),
            Queue::Priority(classes) => QueueConfig::Priority(
                classes
                    .iter()
                    .map(|class| class.config(buffer, link))
                    .collect(),
            ),
        }
    }
}

/// RED's limit is in bytes: packets count as the largest of the usual size.
const PACKET_BYTES: u64 = 1500;

impl Red {
    fn config(&self, limit: Option<Limit>, link: &Before<'_>) -> RedConfig {
        let limit = match limit {
            Some(Limit::Bytes(bytes)) => Some(bytes),
            Some(Limit::Packets(packets)) => Some(packets.saturating_mul(PACKET_BYTES)),
            Some(Limit::Unlimited) | None => None,
        };
        let mut config = match self.preset {
            Some(preset) => preset(link.rate),
            None => {
                let limit = limit.unwrap_or_else(|| (link.bdp)(1000));
                RedConfig::with_limit(limit, link.rate)
            }
        };
        let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        config.limit_bytes = limit.unwrap_or(config.limit_bytes);
        config.min_bytes = self.min.unwrap_or(config.min_bytes);
        config.max_bytes = self.max.unwrap_or(config.max_bytes);
        config.avpkt_bytes = self.avpkt.map_or(config.avpkt_bytes, narrow);
        config.burst_packets = self.burst.map_or(config.burst_packets, narrow);
        config.probability = self.probability.unwrap_or(config.probability);
        config.ecn = self.ecn.unwrap_or(config.ecn);
        config.harddrop = self.harddrop.unwrap_or(config.harddrop);
        config.nodrop = self.nodrop.unwrap_or(config.nodrop);
        config
    }
}

pub(super) fn read(node: &Node, sink: &Sink) -> Option<Queue> {
    let empty = Node {
        span: node.span.clone(),
        value: Value::Table(Vec::new()),
    };
    match &node.value {
        Value::Text(name) => discipline(name, node, Fields::of("`queue`", &empty, sink)?),
        Value::Table(_) => {
            let mut fields = Fields::of("`queue`", node, sink)?;
            let Some(kind) = fields.node("type") else {
                fields.missing("type");
                return None;
            };
            match &kind.value {
                Value::Text(name) => discipline(name, kind, fields),
                _ => {
                    let message = format!("`type`: expected a discipline, found {}", kind.kind());
                    if !kind.is_unknown() {
                        sink.push(Diagnostic::new(kind.span.clone(), message));
                    }
                    None
                }
            }
        }
        _ => {
            let message = format!("`queue`: expected a discipline, found {}", node.kind());
            if !node.is_unknown() {
                sink.push(Diagnostic::new(node.span.clone(), message));
            }
            None
        }
    }
}

fn discipline(name: &str, place: &Node, mut fields: Fields<'_>) -> Option<Queue> {
    let queue = match name {
        "droptail" => Some(Queue::DropTail),
        "step" => step(&mut fields),
        "red" => Some(Queue::Red(red(&mut fields))),
        "codel" => Some(Queue::CoDel(codel(&mut fields, CoDelConfig::default()))),
        "fq_codel" => Some(Queue::FqCoDel(fq_codel(&mut fields))),
        "sfq" => Some(Queue::Sfq(sfq(&mut fields))),
        "drr" => Some(Queue::Drr(drr(&mut fields))),
        "pie" => Some(Queue::Pie(pie(&mut fields))),
        "priority" => priority(&mut fields),
        other => {
            let message = format!("no queue discipline is called `{other}`");
            let help = match nearest(other, KNOWN) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", KNOWN.join(", ")),
            };
            fields
                .sink
                .push(Diagnostic::new(place.span.clone(), message).help(help));
            return None;
        }
    };
    fields.finish();
    queue
}

fn step(fields: &mut Fields<'_>) -> Option<Queue> {
    let threshold = fields.required("threshold", quantity::buffer)?;
    Some(Queue::Step { threshold })
}

fn red(fields: &mut Fields<'_>) -> Red {
    let preset = fields.node("preset").and_then(|node| {
        let preset: Option<Preset> = match &node.value {
            Value::Text(name) => match name.as_str() {
                "vcc-red1" => Some(RedConfig::vcc_red1),
                "vcc-red2" => Some(RedConfig::vcc_red2),
                "vcc-red3" => Some(RedConfig::vcc_red3),
                _ => None,
            },
            _ => None,
        };
        if preset.is_none() && !node.is_unknown() {
            let message = "`preset`: there is no such set of RED's parameters";
            let label = "`vcc-red1`, `vcc-red2` or `vcc-red3`";
            fields
                .sink
                .push(Diagnostic::new(node.span.clone(), message).label(label));
        }
        preset
    });
    let max = fields.node("max");
    let red = Red {
        preset,
        min: fields.optional("min", quantity::bytes),
        max: fields.optional("max", quantity::bytes),
        avpkt: fields.optional("avpkt", quantity::some_bytes),
        burst: fields.optional("burst", quantity::packets),
        probability: fields.optional("probability", quantity::probability),
        ecn: fields.optional("ecn", quantity::boolean),
        harddrop: fields.optional("harddrop", quantity::boolean),
        nodrop: fields.optional("nodrop", quantity::boolean),
    };
    if let (Some(min), Some(most), Some(node)) = (red.min, red.max, max)
        && min >= most
    {
        let message = format!("`max`: {most} bytes are not above `min`, {min} bytes");
        fields
            .sink
            .push(Diagnostic::new(node.span.clone(), message));
    }
    red
}

fn codel(fields: &mut Fields<'_>, usual: CoDelConfig) -> CoDelConfig {
    let time = |found: Option<Duration>, usual| found.unwrap_or(usual);
    CoDelConfig {
        target: time(fields.optional("target", quantity::period), usual.target),
        interval: time(
            fields.optional("interval", quantity::period),
            usual.interval,
        ),
        ecn: fields
            .optional("ecn", quantity::boolean)
            .unwrap_or(usual.ecn),
        ..usual
    }
}

fn fq_codel(fields: &mut Fields<'_>) -> FqCoDelConfig {
    let usual = FqCoDelConfig::default();
    FqCoDelConfig {
        codel: codel(fields, usual.codel),
        flows: flows(fields, usual.flows),
        quantum_bytes: quantum(fields, usual.quantum_bytes),
        ..usual
    }
}

fn sfq(fields: &mut Fields<'_>) -> SfqConfig {
    let usual = SfqConfig::default();
    SfqConfig {
        flows: flows(fields, usual.flows),
        quantum_bytes: quantum(fields, usual.quantum_bytes),
        perturb: fields.optional("perturb", quantity::period),
        ..usual
    }
}

fn drr(fields: &mut Fields<'_>) -> DrrConfig {
    let usual = DrrConfig::default();
    DrrConfig {
        flows: flows(fields, usual.flows),
        quantum_bytes: quantum(fields, usual.quantum_bytes),
        ..usual
    }
}

fn pie(fields: &mut Fields<'_>) -> PieConfig {
    let usual = PieConfig::default();
    let time = |found: Option<Duration>, usual| found.unwrap_or(usual);
    PieConfig {
        target: time(fields.optional("target", quantity::period), usual.target),
        update: time(fields.optional("update", quantity::period), usual.update)
            .max(Duration::from_micros(1)),
        max_burst: time(
            fields.optional("max_burst", quantity::duration),
            usual.max_burst,
        ),
        alpha: fields
            .optional("alpha", quantity::positive)
            .unwrap_or(usual.alpha),
        beta: fields
            .optional("beta", quantity::positive)
            .unwrap_or(usual.beta),
        ecn: fields
            .optional("ecn", quantity::boolean)
            .unwrap_or(usual.ecn),
        ecn_limit: fields
            .optional("ecn_limit", quantity::probability)
            .unwrap_or(usual.ecn_limit),
        ..usual
    }
}

/// `classes = ["fq_codel", "droptail"]`: the first is served first.
fn priority(fields: &mut Fields<'_>) -> Option<Queue> {
    let Some(node) = fields.node("classes") else {
        fields.missing("classes");
        return None;
    };
    match &node.value {
        Value::Array(classes) if (1..=MAX_CLASSES).contains(&classes.len()) => classes
            .iter()
            .map(|class| read(class, fields.sink))
            .collect::<Option<_>>()
            .map(Queue::Priority),
        _ => {
            if !node.is_unknown() {
                let message = "`classes` is a list of disciplines, the first served first";
                fields.sink.push(
                    Diagnostic::new(node.span.clone(), message)
                        .label("for instance `[\"droptail\", \"fq_codel\"]`"),
                );
            }
            None
        }
    }
}

fn flows(fields: &mut Fields<'_>, usual: u32) -> u32 {
    let Some(node) = fields.node("flows") else {
        return usual;
    };
    match quantity::count(node).map(u32::try_from) {
        Ok(Ok(flows @ 1..=1_048_576)) => flows,
        Ok(_) => {
            let message = "`flows`: more queues than can be had";
            fields
                .sink
                .push(Diagnostic::new(node.span.clone(), message).label("at most 1048576"));
            usual
        }
        Err(wrong) => {
            refuse("flows", node, wrong, fields.sink);
            usual
        }
    }
}

fn quantum(fields: &mut Fields<'_>, usual: u32) -> u32 {
    let bytes = fields.optional("quantum", quantity::bytes);
    bytes.map_or(usual, |bytes| {
        u32::try_from(bytes.max(1)).unwrap_or(u32::MAX)
    })
}
