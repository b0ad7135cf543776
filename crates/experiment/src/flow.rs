//! Flows: who sends what to whom, and under which congestion control.

use std::sync::Arc;
use std::time::Duration;

use fairwater_net::Time;

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
    /// Settings of its TCP.
    pub tcp: TcpConfig,
    /// What a box at the edge of the sender's host does with its connections; `None` leaves them alone. The
    /// sender is then a guest that knows nothing of the box, and the receiver understands ECN whether the guest
    /// does or not, as Linux does unless told otherwise.
    pub edge: Option<EdgeTreatment>,
}

/// What a box at the edge of the sender's host does with connections (vCC, Mystique).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgeTreatment {
    /// Algorithm of the plane that limits the sender, by the name that the plane gave it.
    pub algorithm: String,
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
