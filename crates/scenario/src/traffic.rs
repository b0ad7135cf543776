//! What a flow sends: `traffic = "bulk"`, `traffic = { bytes = "1MB" }` and the like.

use std::sync::Arc;
use std::time::Duration;

use fairwater_experiment::{SizeCdf, Traffic};

use crate::Context;
use crate::diagnostic::Diagnostic;
use crate::fields::{Fields, InvalidValue, refuse};
use crate::files::{self, problem};
use crate::quantity::{self, Size};
use crate::tree::{Node, Value};

const KINDS: &str = "`\"bulk\"`, or a table with one of `bytes`, `on` and `off`, `rate`, \
                     `requests`, `ping_pong`, `udp`, `udp_ping_pong`";

/// Traffic as it is described; what depends on the path or on the segments is still to come.
#[derive(Debug, Clone)]
pub(crate) enum TrafficSpec {
    Bulk,
    Bytes(Size),
    OnOff {
        on: Duration,
        off: Duration,
    },
    Limited {
        bytes_per_s: u64,
    },
    Requests {
        sizes: Arc<SizeCdf>,
        load: Load,
        /// Connections of a pool; `None` is a connection for each request.
        connections: Option<u32>,
    },
    Udp {
        bytes_per_s: u64,
        packet_bytes: u32,
    },
    UdpPingPong {
        packet_bytes: u32,
        think: Duration,
        count: Option<u64>,
    },
    PingPong {
        size: Size,
        think: Duration,
        count: Option<u64>,
    },
}

/// How much is asked for, by all flows of a table together.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Load {
    /// Times the least rate on the way.
    OfPath(f64),
    /// Bytes/s.
    Rate(f64),
}

pub(crate) fn read(node: &Node, context: &Context<'_>) -> Option<TrafficSpec> {
    match &node.value {
        Value::Text(text) if text == "bulk" => return Some(TrafficSpec::Bulk),
        Value::Table(_) => {}
        _ => {
            if !node.is_unknown() {
                let message = "`traffic`: unknown kind of traffic";
                context.sink.push(
                    Diagnostic::new(node.span.clone(), message).help(format!("it is {KINDS}")),
                );
            }
            return None;
        }
    }
    let mut fields = Fields::of("`traffic`", node, context.sink)?;
    let bytes = fields.node("bytes");
    let on = fields.node("on");
    let off = fields.node("off");
    let rate = fields.node("rate");
    let requests = fields.node("requests");
    let ping_pong = fields.node("ping_pong");
    let udp = fields.node("udp");
    let udp_ping_pong = fields.node("udp_ping_pong");
    fields.finish();
    let tcp = [bytes, on.or(off), rate, requests, ping_pong];
    let given = tcp.into_iter().chain([udp, udp_ping_pong]);
    if given.flatten().count() != 1 {
        let message = "`traffic` must be of one kind";
        context
            .sink
            .push(Diagnostic::new(node.span.clone(), message).help(format!("it is {KINDS}")));
        return None;
    }
    if let Some(bytes) = bytes {
        return value("bytes", bytes, quantity::size, context).map(TrafficSpec::Bytes);
    }
    if let Some(rate) = rate {
        let rate = value("rate", rate, quantity::rate, context)?;
        let bytes_per_s = (rate.bps() / 8).max(1);
        return Some(TrafficSpec::Limited { bytes_per_s });
    }
    if let Some(requests) = requests {
        return read_requests(requests, context);
    }
    if let Some(ping_pong) = ping_pong {
        return read_ping_pong(ping_pong, context);
    }
    if let Some(udp) = udp {
        return read_udp(udp, context);
    }
    if let Some(ping_pong) = udp_ping_pong {
        return read_udp_ping_pong(ping_pong, context);
    }
    let (Some(on), Some(off)) = (on, off) else {
        let message = "`traffic` has `on` or `off` without the other";
        context
            .sink
            .push(Diagnostic::new(node.span.clone(), message));
        return None;
    };
    let on = value("on", on, quantity::period, context);
    let off = value("off", off, quantity::duration, context);
    Some(TrafficSpec::OnOff { on: on?, off: off? })
}

fn value<T>(
    key: &str,
    node: &Node,
    read: crate::fields::Read<T>,
    context: &Context<'_>,
) -> Option<T> {
    read(node)
        .map_err(|wrong| refuse(key, node, wrong, context.sink))
        .ok()
}

fn read_requests(node: &Node, context: &Context<'_>) -> Option<TrafficSpec> {
    let mut fields = Fields::of("`requests`", node, context.sink)?;
    let cdf = fields.node("cdf");
    let load = fields.node("load");
    let rate = fields.node("rate");
    let connections = fields.optional("connections", connections);
    if cdf.is_none() {
        fields.missing("cdf");
    }
    fields.finish();
    let load = match (load, rate) {
        (Some(load), None) => value("load", load, quantity::positive, context).map(Load::OfPath),
        (None, Some(rate)) => value("rate", rate, quantity::rate, context)
            .map(|rate| Load::Rate(rate.bps() as f64 / 8.0)),
        _ => {
            let message = "`requests` have either a `load` or a `rate`";
            let help = "`load = 0.8` is a share of the least rate on the way";
            context
                .sink
                .push(Diagnostic::new(node.span.clone(), message).help(help));
            None
        }
    };
    let sizes = read_sizes(cdf?, context);
    Some(TrafficSpec::Requests {
        sizes: sizes?,
        load: load?,
        connections,
    })
}

/// The number of connections of a pool.
fn connections(node: &Node) -> Result<u32, InvalidValue> {
    let number = quantity::integer(node).ok();
    let number = number.and_then(|number| u32::try_from(number).ok());
    number
        .filter(|number| (1..=100_000).contains(number))
        .ok_or_else(|| InvalidValue {
            message: "the number of connections is out of range".to_owned(),
            allowed: "from 1 to 100000".to_owned(),
        })
}

/// The size of a UDP packet, its headers included.
fn packet_bytes(node: &Node) -> Result<u32, InvalidValue> {
    let bytes = quantity::bytes(node)?;
    let bytes = u32::try_from(bytes).ok();
    bytes
        .filter(|bytes| (28..=65_535).contains(bytes))
        .ok_or_else(|| InvalidValue {
            message: "the size of a packet is out of range".to_owned(),
            allowed: "from 28B, the headers of IPv4 and UDP, to 65535B".to_owned(),
        })
}

fn read_udp(node: &Node, context: &Context<'_>) -> Option<TrafficSpec> {
    let mut fields = Fields::of("`udp`", node, context.sink)?;
    let rate = fields.required("rate", quantity::rate);
    let packet_bytes = fields.optional("packet", packet_bytes);
    fields.finish();
    Some(TrafficSpec::Udp {
        bytes_per_s: (rate?.bps() / 8).max(1),
        packet_bytes: packet_bytes.unwrap_or(1500),
    })
}

fn read_udp_ping_pong(node: &Node, context: &Context<'_>) -> Option<TrafficSpec> {
    let mut fields = Fields::of("`udp_ping_pong`", node, context.sink)?;
    let packet_bytes = fields.optional("packet", packet_bytes);
    let think = fields.optional("think", quantity::duration);
    let count = fields.optional("count", quantity::count);
    fields.finish();
    Some(TrafficSpec::UdpPingPong {
        packet_bytes: packet_bytes.unwrap_or(40),
        think: think.unwrap_or(Duration::ZERO),
        count,
    })
}

/// A distribution: the name of a file, or points `["10kB", 0.5]`.
fn read_sizes(node: &Node, context: &Context<'_>) -> Option<Arc<SizeCdf>> {
    let points = match &node.value {
        Value::Text(name) => {
            let sizes = context.files.sizes(name, context.resolver);
            return sizes
                .map_err(|problems| {
                    let diagnostic = problem("distribution", node, name, &problems);
                    context.sink.push(diagnostic);
                })
                .ok();
        }
        Value::Array(points) => points,
        _ => {
            if !node.is_unknown() {
                let message = "`cdf` is the name of a file, or a list of points";
                context.sink.push(
                    Diagnostic::new(node.span.clone(), message)
                        .label("for instance `[[\"10kB\", 0.5], [\"1MB\", 1.0]]`"),
                );
            }
            return None;
        }
    };
    let before = context.sink.said();
    let mut read = Vec::new();
    for point in points {
        match &point.value {
            Value::Array(pair) if pair.len() == 2 => {
                let bytes = value("cdf", &pair[0], quantity::bytes, context);
                let probability = match pair[1].value {
                    Value::Integer(number) => Some(number as f64),
                    Value::Float(number) => Some(number),
                    _ => None,
                };
                if probability.is_none() {
                    let message = "`cdf`: not a probability";
                    context.sink.push(
                        Diagnostic::new(pair[1].span.clone(), message).label("from 0.0 to 1.0"),
                    );
                }
                read.extend(bytes.map(|bytes| bytes as f64).zip(probability));
            }
            _ => context.sink.push(
                Diagnostic::new(point.span.clone(), "`cdf`: not a point")
                    .label("a size and the probability of at most that size: `[\"10kB\", 0.5]`"),
            ),
        }
    }
    if context.sink.said() > before {
        return None;
    }
    match files::checked_sizes(read) {
        Ok(sizes) => Some(Arc::new(sizes)),
        Err(problems) => {
            let message = "`cdf`: not a distribution of sizes";
            context
                .sink
                .push(Diagnostic::new(node.span.clone(), message).help(problems.join("\n")));
            None
        }
    }
}

fn read_ping_pong(node: &Node, context: &Context<'_>) -> Option<TrafficSpec> {
    let mut fields = Fields::of("`ping_pong`", node, context.sink)?;
    let size = fields.required("bytes", quantity::size);
    let think = fields.optional("think", quantity::duration);
    let count = fields.optional("count", quantity::count);
    fields.finish();
    Some(TrafficSpec::PingPong {
        size: size?,
        think: think.unwrap_or(Duration::ZERO),
        count,
    })
}

impl TrafficSpec {
    /// Whether it is sent in UDP packets, without congestion control.
    pub(crate) fn is_datagrams(&self) -> bool {
        matches!(
            self,
            TrafficSpec::Udp { .. } | TrafficSpec::UdpPingPong { .. }
        )
    }

    /// What one of `flows` sends, each over a way whose least rate is that, bytes/s.
    pub(crate) fn traffic(
        &self,
        mss: u32,
        flows: usize,
        least_rate: Option<f64>,
    ) -> Option<Traffic> {
        Some(match self {
            TrafficSpec::Bulk => Traffic::Bulk,
            TrafficSpec::Bytes(size) => Traffic::Bytes(size.bytes(mss)),
            TrafficSpec::OnOff { on, off } => Traffic::OnOff { on: *on, off: *off },
            TrafficSpec::Limited { bytes_per_s } => Traffic::Limited { rate: *bytes_per_s },
            TrafficSpec::Requests {
                sizes,
                load,
                connections,
            } => {
                let load = match load {
                    Load::OfPath(share) => share * least_rate?,
                    Load::Rate(bytes_per_s) => *bytes_per_s,
                } / flows.max(1) as f64;
                let sizes = sizes.clone();
                match *connections {
                    None => Traffic::Requests { sizes, load },
                    Some(connections) => Traffic::Pool {
                        sizes,
                        load,
                        connections,
                    },
                }
            }
            TrafficSpec::Udp {
                bytes_per_s,
                packet_bytes,
            } => Traffic::ConstantRate {
                rate: *bytes_per_s,
                packet_bytes: *packet_bytes,
            },
            TrafficSpec::UdpPingPong {
                packet_bytes,
                think,
                count,
            } => Traffic::Echo {
                packet_bytes: *packet_bytes,
                think: *think,
                count: *count,
            },
            TrafficSpec::PingPong { size, think, count } => Traffic::PingPong {
                bytes: size.bytes(mss),
                think: *think,
                count: *count,
            },
        })
    }
}
