//! What to simulate.

use std::sync::Arc;
use std::time::Duration;

use fairwater_net::{LinkConfig, Time};
use fairwater_plane::{HostedAlgorithm, Plane};

/// A host or a router: an index, from 0 to [`Config::nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// One direction of a link: an index into [`Config::edges`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EdgeId(pub u32);

/// A network, its traffic, and what to measure. Everything random follows from `seed`.
#[derive(Debug, Clone)]
pub struct Config {
    /// The seed of everything random: requests, links (each edge's own seed is mixed with it).
    pub seed: u64,
    /// Virtual time simulated.
    pub duration: Duration,
    /// How many nodes there are.
    pub nodes: u32,
    /// The links, each direction by itself.
    pub edges: Vec<Edge>,
    /// Who sends.
    pub flows: Vec<FlowConfig>,
    /// The plane that hosts the algorithms of [`Governor::Plane`], and the way to it.
    pub plane: PlaneConfig,
    /// What to write down.
    pub measure: Measure,
}

/// One direction of a link.
#[derive(Debug, Clone)]
pub struct Edge {
    /// What it is called in results.
    pub name: String,
    /// Packets enter here.
    pub from: NodeId,
    /// Packets leave here.
    pub to: NodeId,
    /// Queue, rate, delay, loss.
    pub link: LinkConfig,
}

/// The ways that a flow's packets take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Path {
    /// The fewest hops, the lower edge first among equals.
    Shortest,
    /// These edges, one alternative or several; the acknowledgements' way is the reverse.
    Along {
        /// Towards the receiver; at least one, each from the sender's node to the receiver's.
        forward: Vec<Vec<EdgeId>>,
        /// Back to the sender.
        reverse: Vec<Vec<EdgeId>>,
        /// Which alternative a packet takes.
        balancing: Balancing,
    },
}

/// How packets are spread over parallel paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Balancing {
    /// All packets of a flow take the same, chosen by a hash of the flow and the seed.
    #[default]
    PerFlow,
    /// Packets take the paths in turn.
    PerPacket,
}

/// One TCP connection, or (for requests on fresh connections) a series of them.
#[derive(Debug, Clone)]
pub struct FlowConfig {
    /// What it is called in results.
    pub name: String,
    /// The sender's host.
    pub from: NodeId,
    /// The receiver's host.
    pub to: NodeId,
    /// Its packets' ways.
    pub path: Path,
    /// Who decides its cwnd and rate.
    pub governor: Governor,
    /// What it sends.
    pub traffic: Traffic,
    /// It begins.
    pub start: Time,
    /// And up to so much later, drawn evenly from the seed (CCP §7.3).
    pub start_jitter: Duration,
    /// It sends nothing new from then on; `None` is the end of the simulation.
    pub stop: Option<Time>,
    /// The class of its packets in queues with priorities; 0 is served first.
    pub priority: u8,
    /// What its connections are told apart by at the plane (`FlowInfo::tag`); 0 is none.
    pub tag: u32,
    /// How its TCP behaves.
    pub tcp: TcpConfig,
}

impl FlowConfig {
    /// The kind of ECN that its connections agree upon: that of [`TcpConfig::ecn`], but for
    /// algorithms of the plane that cannot do without, as in Linux (RFC 8257 §3).
    #[must_use]
    pub fn negotiated_ecn(&self, plane: &Plane) -> Ecn {
        let requires = |name: &str| {
            let named = |a: &&HostedAlgorithm| a.name() == name;
            let hosted = plane.algorithms().iter().find(named);
            hosted.is_some_and(|a| a.ecn() == fairwater_plane::Ecn::Required)
        };
        match (&self.governor, self.tcp.ecn) {
            (Governor::Plane(name), Ecn::Off) if requires(name) => Ecn::Dctcp,
            (_, configured) => configured,
        }
    }
}

/// Who decides cwnd and rate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Governor {
    /// An algorithm of the plane, by the name that the plane gave it.
    Plane(String),
    /// One inside the sender, decided at each ACK.
    Native(Native),
}

/// The congestion controls inside the simulated sender: baselines to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Native {
    /// NewReno: RFC 5681, RFC 6582, with PRR (RFC 6937) where [`TcpConfig::prr`] says so.
    Reno,
    /// CUBIC: RFC 9438.
    Cubic,
    /// A window of so many bytes, whatever happens.
    Constant(u64),
}

/// What a flow sends.
#[derive(Debug, Clone)]
pub enum Traffic {
    /// Always more.
    Bulk,
    /// So many bytes, then it closes: one request.
    Bytes(u64),
    /// Sends for `on`, is silent for `off`, and again.
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
        /// Bytes of each.
        bytes: u64,
        /// The pause.
        think: Duration,
        /// How many; `None` is no end.
        count: Option<u64>,
    },
}

/// A distribution of sizes, linear between its points.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeCdf {
    /// `(bytes, probability of at most that many)`: neither falls, no two points are the same, and
    /// the last probability is 1. A size drawn is whole, and at least 1 byte.
    pub points: Vec<(f64, f64)>,
}

/// How a simulated TCP behaves; the default is Linux's where the RFCs leave a choice.
#[derive(Debug, Clone, PartialEq)]
pub struct TcpConfig {
    /// Bytes of data a segment, at most.
    pub mss: u32,
    /// Initial window, segments (RFC 6928).
    pub initial_window: u32,
    /// The receive window, bytes.
    pub receive_window: u64,
    /// Selective acknowledgements (RFC 2018, RFC 6675, RFC 8985).
    pub sack: bool,
    /// Proportional rate reduction (RFC 6937) of a native governor.
    pub prr: bool,
    /// RFC 6298 §2.4's least RTO, where the RFC says 1 s. As in Linux, which has 200 ms, it is the
    /// least of 4 × RTTVAR, so that the RTO is never less than this and SRTT.
    pub min_rto: Duration,
    /// How long an ACK is put off at most; zero acknowledges each segment (RFC 1122 §4.2.3.2).
    pub delayed_ack: Duration,
    /// Explicit congestion notification.
    pub ecn: Ecn,
    /// Whether to pace even a governor that sets no rate, as Linux's `fq` does: 2 × cwnd / SRTT in
    /// slow start, 1.2 × after it.
    pub pace: bool,
    /// Whether cwnd falls back after a pause longer than an RTO (RFC 5681 §4.1).
    pub idle_restart: bool,
    /// Whether a connection begins with a handshake, one RTT, rather than with data.
    pub handshake: bool,
}

/// Explicit congestion notification of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ecn {
    /// None.
    #[default]
    Off,
    /// One echo an RTT (RFC 3168).
    Classic,
    /// Each mark is echoed at once (RFC 8257 §3.2).
    Dctcp,
    /// Marks are counted exactly by the receiver (RFC 9768's counters, without its encoding).
    Accurate,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            mss: 1448,
            initial_window: 10,
            receive_window: 16 << 20,
            sack: true,
            prr: true,
            min_rto: Duration::from_millis(200),
            delayed_ack: Duration::from_millis(40),
            ecn: Ecn::Off,
            pace: false,
            idle_restart: true,
            handshake: true,
        }
    }
}

/// The plane, as far as it is simulated: who hosts which algorithm is the caller's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaneConfig {
    /// One way between a datapath and the plane (CCP §7.3's staleness is twice this).
    pub delay: Duration,
    /// The plane takes up what has arrived this often; zero is at once.
    pub period: Duration,
    /// The plane is stopped in these times, rising: it takes up nothing and says nothing, and
    /// goes on afterwards. Flows go on under the datapaths' fallback.
    pub outages: Vec<(Time, Time)>,
    /// A plane that said nothing for so long is taken to be gone; it speaks ten times as often.
    pub silence: Duration,
}

impl Default for PlaneConfig {
    fn default() -> Self {
        Self {
            delay: Duration::from_micros(10),
            period: Duration::ZERO,
            outages: Vec::new(),
            silence: Duration::from_millis(500),
        }
    }
}

/// What is written down besides summaries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measure {
    /// Counts of summaries begin here: the time before is for warming up.
    pub from: Time,
    /// Samples of each flow and edge this often; `None` is none.
    pub interval: Option<Duration>,
    /// Every packet that enters this node or leaves it, for a capture.
    pub capture: Option<NodeId>,
    /// What becomes of every packet on this edge, for whoever measures by packet.
    pub watch: Option<EdgeId>,
}

impl Default for Measure {
    fn default() -> Self {
        Self {
            from: Time::ZERO,
            interval: None,
            capture: None,
            watch: None,
        }
    }
}
