//! Flows: who sends what to whom, and under which congestion control.

use std::sync::Arc;
use std::time::Duration;

use fairwater_net::Time;

use fairwater_select::SelectorConfig;

use crate::{NodeId, Path, SizeCdf, TcpConfig};

/// One TCP connection, or (for requests on fresh connections) a series of them.
#[derive(Debug, Clone)]
pub struct FlowConfig {
    /// Name in results.
    pub name: String,
    /// The sender's host.
    pub from: NodeId,
    /// The receiver's host.
    pub to: NodeId,
    /// Its packets' paths.
    pub path: Path,
    /// What decides its cwnd and rate.
    pub controller: Controller,
    /// Traffic of its application.
    pub traffic: Traffic,
    /// Start of its traffic.
    pub start: Time,
    /// Random delay of the start, drawn evenly from 0 to this (CCP §7.3).
    pub start_jitter: Duration,
    /// End of its traffic; `None` is the end of the experiment.
    pub stop: Option<Time>,
    /// The class of its packets in queues with priorities; 0 is served first.
    pub priority: u8,
    /// Tag of its connections at the plane (`FlowInfo::tag`); 0 is none.
    pub tag: u32,
    /// The bundle that its packets belong to, by name; `None` is none. Edges are measured by bundle,
    /// and boxes that shape the traffic between two sites take a bundle for one flow (Bundler §4).
    pub bundle: Option<String>,
    /// Settings of its TCP.
    pub tcp: TcpConfig,
    /// What a box at the edge of the sender's host does with its connections; `None` leaves them alone. The
    /// sender is then a guest that knows nothing of the box, and the receiver understands ECN whether the guest
    /// does or not, as Linux does unless told otherwise.
    pub edge: Option<EdgeTreatment>,
}

/// What a box at the edge of the sender's host does with connections (vCC, Mystique).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EdgeTreatment {
    /// Algorithm of the plane that controls the sender, by the name that the plane gave it; with a `selector`, the
    /// one to begin with.
    pub algorithm: String,
    /// How the box holds the sender to the algorithm.
    pub mode: EdgeMode,
    /// What changes the algorithm as the path changes (Mystique §3.4); `None` keeps it.
    pub selector: Option<Arc<SelectorConfig>>,
    /// Whether the box speaks ECN for a sender that does not (vCC figure 3).
    pub ecn: bool,
    /// Whether data beyond the window that the sender was told is dropped.
    pub police: bool,
    /// Greatest shift of the receive window that the sender is told of; `None` leaves the receiver's.
    pub max_scale: Option<u8>,
    /// Weight, from 1, by which the box divides the sum of the windows among the sender's host's flows that have one
    /// (vCC §4); `None` leaves the flow its own window.
    pub weight: Option<u16>,
}

impl EdgeTreatment {
    /// The algorithms that may control the sender, each once; the first is that which it begins with.
    #[must_use]
    pub fn algorithms(&self) -> Vec<String> {
        match &self.selector {
            None => vec![self.algorithm.clone()],
            Some(selector) => {
                let all = selector.algorithms();
                all.iter().map(ToString::to_string).collect()
            }
        }
    }
}

/// How a box holds a sender to its algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum EdgeMode {
    /// By the receive window alone (vCC §2, "Throttle the receive window").
    #[default]
    Window,
    /// The box holds the sender's data, paces and repairs it (vCC §2, "Buffer packets"; Mystique §3.3).
    Buffer,
}

/// What decides cwnd and rate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Controller {
    /// An algorithm of the plane, by the name that the plane gave it.
    Plane(String),
    /// A controller inside the sender, which decides at each ACK.
    Native(Native),
}

/// Congestion controls inside the sender: baselines to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Native {
    /// NewReno: RFC 5681, RFC 6582, with PRR (RFC 6937) where [`TcpConfig::prr`] says so.
    Reno,
    /// CUBIC: RFC 9438.
    Cubic,
    /// A constant window, bytes.
    Constant(u64),
}

/// What a flow sends.
#[derive(Debug, Clone)]
pub enum Traffic {
    /// Data without end.
    Bulk,
    /// One request of this many bytes, then the connection closes.
    Bytes(u64),
    /// Sends for `on`, is silent for `off`, and repeats.
    OnOff {
        /// Sending.
        on: Duration,
        /// Silent.
        off: Duration,
    },
    /// Sends at no more than this rate, bytes/s: limited by the application.
    Limited {
        /// Bytes/s.
        rate: u64,
    },
    /// Requests that arrive as a Poisson process, each on a connection of its own, of sizes drawn
    /// from a distribution.
    Requests {
        /// The sizes.
        sizes: Arc<SizeCdf>,
        /// Mean bytes/s that are asked for: a load times a capacity.
        load: f64,
    },
    /// Requests that arrive as a Poisson process, each on one of these connections, drawn evenly, and
    /// behind what that connection has still to send: clients that ask servers (Bundler §7.1). The
    /// completion time contains the way of the request to the sender, which meets no queue.
    Pool {
        /// The sizes.
        sizes: Arc<SizeCdf>,
        /// Mean bytes/s that are asked for: a load times a capacity.
        load: f64,
        /// Connections, all opened when the flow starts.
        connections: u32,
    },
    /// UDP packets of one size at a constant rate.
    ConstantRate {
        /// Bytes/s of IP packets.
        rate: u64,
        /// Bytes of each IP packet, its headers included.
        packet_bytes: u32,
    },
    /// A UDP packet, an answer of the same size, and the next packet when the answer is there and
    /// `think` has passed. A packet without an answer is given up after 1 s.
    Echo {
        /// Bytes of each IP packet, its headers included.
        packet_bytes: u32,
        /// Pause between an answer and the next packet.
        think: Duration,
        /// Number of packets; `None` is without end.
        count: Option<u64>,
    },
    /// A request of this size, and the next when it is done and `think` has passed, on the same
    /// connection.
    PingPong {
        /// Bytes of each request.
        bytes: u64,
        /// Pause between an answer and the next request.
        think: Duration,
        /// Number of requests; `None` is without end.
        count: Option<u64>,
    },
}

impl Traffic {
    /// Whether it is sent in UDP packets: without congestion control.
    #[must_use]
    pub fn is_datagrams(&self) -> bool {
        matches!(self, Traffic::ConstantRate { .. } | Traffic::Echo { .. })
    }
}
