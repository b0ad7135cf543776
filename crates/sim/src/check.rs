//! What is wrong with a configuration: all of it at once.

use std::time::Duration;

use fairwater_net::Time;
use thiserror::Error;

use crate::routes::{Finder, takes_time};
use crate::{
    Config, EdgeId, FlowConfig, Governor, Native, NodeId, Path, SizeCdf, TcpConfig, Traffic,
};

/// Why a simulation was not begun: everything that is wrong, in the order of the configuration.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{}", .problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ConfigError {
    /// What is wrong; never empty.
    pub problems: Vec<ConfigProblem>,
}

/// One thing that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ConfigProblem {
    /// It concerns no edge and no flow.
    #[error("{0}")]
    General(GeneralProblem),
    /// It concerns an edge.
    #[error("edge `{name}`: {problem}")]
    Edge {
        /// Its index in [`Config::edges`].
        edge: EdgeId,
        /// Its name.
        name: String,
        /// What is wrong.
        problem: EdgeProblem,
    },
    /// It concerns a flow.
    #[error("flow `{name}`: {problem}")]
    Flow {
        /// Its index in [`Config::flows`].
        flow: usize,
        /// Its name.
        name: String,
        /// What is wrong.
        problem: FlowProblem,
    },
}

/// Wrong with the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum GeneralProblem {
    /// There is nothing to simulate.
    #[error("the duration is 0")]
    NoDuration,
    /// Time is kept in 64 bits of nanoseconds.
    #[error("the duration is longer than 292 years")]
    EndlessDuration,
    /// Too many to number.
    #[error("there are {0} flows: {max} is the most", max = MAX_FLOWS)]
    TooManyFlows(usize),
    /// Too many to find ways between.
    #[error("there are {0} nodes: {max} is the most", max = MAX_NODES)]
    TooManyNodes(u32),
    /// Nothing would be counted.
    #[error("measuring begins at {0:?}, when the simulation has ended")]
    MeasuresNothing(Duration),
    /// Samples without end.
    #[error("the interval of samples is 0")]
    NoInterval,
    /// More than memory holds.
    #[error("there would be {0} samples of flows and edges: {max} is the most", max = MAX_SAMPLES)]
    TooManySamples(u128),
    /// There is no such node.
    #[error("the capture is at node {}, which does not exist", .0.0)]
    CaptureNowhere(NodeId),
    /// There is no such edge.
    #[error("edge {} is watched, which does not exist", .0.0)]
    WatchesNothing(EdgeId),
    /// Flows would be under the fallback always.
    #[error("a plane is taken to be gone after a silence of less than 10 µs")]
    NoSilence,
    /// Outages are to rise.
    #[error("outage {0} of the plane is empty, or begins before the one before it ends")]
    Outage(usize),
}

/// Wrong with an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum EdgeProblem {
    /// There is no such node.
    #[error("there is no node {}", .0.0)]
    UnknownNode(NodeId),
    /// It begins where it ends.
    #[error("it leads from node {} to itself", .0.0)]
    Loop(NodeId),
}

/// Wrong with a flow.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum FlowProblem {
    /// There is no such node.
    #[error("there is no node {}", .0.0)]
    UnknownNode(NodeId),
    /// It sends to its own host.
    #[error("it sends from node {} to itself", .0.0)]
    ToItself(NodeId),
    /// No edges lead there.
    #[error("no way leads from node {} to node {}", .from.0, .to.0)]
    NoWay {
        /// From here.
        from: NodeId,
        /// To here.
        to: NodeId,
    },
    /// A way given edge by edge has an edge that does not exist.
    #[error("{way}: there is no edge {}", .edge.0)]
    UnknownEdge {
        /// Which way.
        way: Way,
        /// The edge.
        edge: EdgeId,
    },
    /// A way given edge by edge has a gap, or ends elsewhere.
    #[error("{way}: edge {index} begins at node {}, not at node {}", .found.0, .expected.0)]
    Gap {
        /// Which way.
        way: Way,
        /// Which edge of it, from 0.
        index: usize,
        /// Where it should begin.
        expected: NodeId,
        /// Where it begins.
        found: NodeId,
    },
    /// A way given edge by edge ends elsewhere.
    #[error("{way} ends at node {}, not at node {}", .found.0, .expected.0)]
    WrongEnd {
        /// Which way.
        way: Way,
        /// Where it should end.
        expected: NodeId,
        /// Where it ends.
        found: NodeId,
    },
    /// Virtual time would stand still while packets go round.
    #[error(
        "a packet and its acknowledgement take no time: no edge has a delay, or a rate that holds \
         them up"
    )]
    NoTime,
    /// It ends before it starts.
    #[error("it stops at {stop:?} and starts at {start:?}")]
    StopsFirst {
        /// When it starts.
        start: Duration,
        /// When it stops.
        stop: Duration,
    },
    /// The plane has no such algorithm.
    #[error("the plane has no algorithm `{0}`")]
    UnknownAlgorithm(String),
    /// A value is out of its range.
    #[error("{what} is {value}: {expected}")]
    Value {
        /// Which value.
        what: &'static str,
        /// What it is.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// The sizes of requests are no distribution.
    #[error("{0}")]
    Sizes(SizeProblem),
}

/// One of a flow's ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Way {
    /// To the receiver.
    #[error("way {0} to the receiver")]
    Forward(usize),
    /// Of the acknowledgements.
    #[error("way {0} of the acknowledgements")]
    Reverse(usize),
}

/// Wrong with a distribution of sizes. Points count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum SizeProblem {
    /// There are no points.
    #[error("the distribution of sizes has no points")]
    Empty,
    /// A size is not a number from 0 to 2⁵³.
    #[error("point {point} of the sizes has {bytes} bytes: expected 0 to 2^53")]
    Bytes {
        /// Which.
        point: usize,
        /// Its size.
        bytes: f64,
    },
    /// A probability is not between 0 and 1.
    #[error("point {point} of the sizes has probability {probability}: expected 0 to 1")]
    Probability {
        /// Which.
        point: usize,
        /// Its probability.
        probability: f64,
    },
    /// A point does not lie above the one before.
    #[error("point {point} of the sizes is not above the one before it")]
    DoesNotRise {
        /// Which.
        point: usize,
    },
    /// The last probability is not 1.
    #[error("the probabilities of the sizes end at {0}, not at 1")]
    NotWhole(f64),
}

/// The most flows of a configuration.
pub const MAX_FLOWS: usize = 1 << 20;

/// The most nodes of a configuration.
pub const MAX_NODES: u32 = 1 << 20;

/// The most samples of all flows and edges together; they take some gigabytes.
pub const MAX_SAMPLES: u128 = 100_000_000;

/// The greatest receive window, bytes: RFC 7323 §2.3 shifts 16 bits by 14 at most.
pub const MAX_RECEIVE_WINDOW: u64 = 65_535 << 14;

/// The most payload of an IPv4 packet beside headers.
const MAX_MSS: u32 = 65_535 - crate::tcp::HEADERS;

impl Config {
    /// Finds everything that is wrong, but for the names of algorithms, which a plane knows.
    ///
    /// # Errors
    /// [`ConfigError`] with every problem.
    pub fn check(&self) -> Result<(), ConfigError> {
        finish(self.problems())
    }

    /// Finds everything that is wrong, the names of algorithms included.
    pub(crate) fn check_with(
        &self,
        has_algorithm: impl Fn(&str) -> bool,
    ) -> Result<(), ConfigError> {
        let mut problems = self.problems();
        for (index, flow) in self.flows.iter().enumerate() {
            if let Governor::Plane(name) = &flow.governor
                && !has_algorithm(name)
            {
                problems.push(ConfigProblem::Flow {
                    flow: index,
                    name: flow.name.clone(),
                    problem: FlowProblem::UnknownAlgorithm(name.clone()),
                });
            }
        }
        finish(problems)
    }

    fn problems(&self) -> Vec<ConfigProblem> {
        let general = self.general_problems().into_iter();
        let mut problems: Vec<_> = general.map(ConfigProblem::General).collect();
        for (edge, index) in self.edges.iter().zip(0..) {
            let mut add = |problem| {
                problems.push(ConfigProblem::Edge {
                    edge: EdgeId(index),
                    name: edge.name.clone(),
                    problem,
                });
            };
            for node in [edge.from, edge.to] {
                if node.0 >= self.nodes {
                    add(EdgeProblem::UnknownNode(node));
                }
            }
            if edge.from == edge.to {
                add(EdgeProblem::Loop(edge.from));
            }
        }
        if self.nodes > MAX_NODES {
            return problems;
        }
        let mut finder = Finder::new(self);
        for (index, flow) in self.flows.iter().enumerate() {
            let mut found = Vec::new();
            self.check_way(flow, &mut finder, &mut found);
            check_flow(flow, &mut found);
            problems.extend(found.into_iter().map(|problem| ConfigProblem::Flow {
                flow: index,
                name: flow.name.clone(),
                problem,
            }));
        }
        problems
    }

    fn general_problems(&self) -> Vec<GeneralProblem> {
        let end = Time::ZERO + self.duration;
        let measure = &self.measure;
        let outages = &self.plane.outages;
        let samples = self.samples();
        let wrong = |index: &usize| {
            let (start, end) = outages[*index];
            let before = index.checked_sub(1).map_or(Time::ZERO, |i| outages[i].1);
            start >= end || start < before
        };
        [
            (self.duration.is_zero(), GeneralProblem::NoDuration),
            (
                self.duration.as_nanos() > u128::from(u64::MAX / 2),
                GeneralProblem::EndlessDuration,
            ),
            (
                self.flows.len() > MAX_FLOWS,
                GeneralProblem::TooManyFlows(self.flows.len()),
            ),
            (
                self.nodes > MAX_NODES,
                GeneralProblem::TooManyNodes(self.nodes),
            ),
            (
                !self.duration.is_zero() && measure.from >= end,
                GeneralProblem::MeasuresNothing(measure.from.since(Time::ZERO)),
            ),
            (
                measure.interval.is_some_and(|i| i.is_zero()),
                GeneralProblem::NoInterval,
            ),
            (
                samples > MAX_SAMPLES,
                GeneralProblem::TooManySamples(samples),
            ),
            (
                self.plane.silence < Duration::from_micros(10),
                GeneralProblem::NoSilence,
            ),
        ]
        .into_iter()
        .filter_map(|(is_wrong, problem)| is_wrong.then_some(problem))
        .chain(
            measure
                .capture
                .filter(|node| node.0 >= self.nodes)
                .map(GeneralProblem::CaptureNowhere),
        )
        .chain(
            measure
                .watch
                .filter(|edge| edge.0 as usize >= self.edges.len())
                .map(GeneralProblem::WatchesNothing),
        )
        .chain((0..outages.len()).filter(wrong).map(GeneralProblem::Outage))
        .collect()
    }

    /// How many samples there will be of all flows and edges.
    fn samples(&self) -> u128 {
        let interval_ns = self.measure.interval.map_or(0, |i| i.as_nanos());
        let of_each = self.duration.as_nanos().checked_div(interval_ns);
        let sampled = self.flows.len() + self.edges.len();
        of_each.unwrap_or(0).saturating_mul(sampled as u128)
    }

    fn check_way(&self, flow: &FlowConfig, finder: &mut Finder<'_>, found: &mut Vec<FlowProblem>) {
        let before = found.len();
        for node in [flow.from, flow.to] {
            if node.0 >= self.nodes {
                found.push(FlowProblem::UnknownNode(node));
            }
        }
        if flow.from == flow.to {
            found.push(FlowProblem::ToItself(flow.from));
        }
        if found.len() > before {
            return;
        }
        let is_slow = |way: &Vec<EdgeId>| takes_time(self, way);
        let (there, back) = match &flow.path {
            Path::Shortest => {
                let mut find = |from, to| match finder.shortest(from, to) {
                    Some(way) => is_slow(&way),
                    None => {
                        found.push(FlowProblem::NoWay { from, to });
                        true
                    }
                };
                (find(flow.from, flow.to), find(flow.to, flow.from))
            }
            Path::Along {
                forward, reverse, ..
            } => {
                for (ways, from, to, name) in [
                    (
                        forward,
                        flow.from,
                        flow.to,
                        Way::Forward as fn(usize) -> Way,
                    ),
                    (reverse, flow.to, flow.from, Way::Reverse),
                ] {
                    if ways.is_empty() {
                        found.push(FlowProblem::NoWay { from, to });
                    }
                    for (index, way) in ways.iter().enumerate() {
                        self.check_along(way, (from, to), name(index), found);
                    }
                }
                (forward.iter().all(is_slow), reverse.iter().all(is_slow))
            }
        };
        if !there && !back {
            found.push(FlowProblem::NoTime);
        }
    }

    fn check_along(
        &self,
        edges: &[EdgeId],
        (from, to): (NodeId, NodeId),
        way: Way,
        found: &mut Vec<FlowProblem>,
    ) {
        let mut at = from;
        for (index, id) in edges.iter().enumerate() {
            let Some(edge) = self.edges.get(id.0 as usize) else {
                found.push(FlowProblem::UnknownEdge { way, edge: *id });
                return;
            };
            if edge.from != at {
                found.push(FlowProblem::Gap {
                    way,
                    index,
                    expected: at,
                    found: edge.from,
                });
            }
            at = edge.to;
        }
        if at != to {
            found.push(FlowProblem::WrongEnd {
                way,
                expected: to,
                found: at,
            });
        }
    }
}

fn finish(problems: Vec<ConfigProblem>) -> Result<(), ConfigError> {
    if problems.is_empty() {
        Ok(())
    } else {
        Err(ConfigError { problems })
    }
}

fn check_flow(flow: &FlowConfig, found: &mut Vec<FlowProblem>) {
    if let Some(stop) = flow.stop
        && stop <= flow.start
    {
        found.push(FlowProblem::StopsFirst {
            start: flow.start.since(Time::ZERO),
            stop: stop.since(Time::ZERO),
        });
    }
    let mut require = |is_right: bool, what, value: String, expected| {
        if !is_right {
            found.push(FlowProblem::Value {
                what,
                value,
                expected,
            });
        }
    };
    match &flow.traffic {
        Traffic::Bulk => {}
        Traffic::Bytes(bytes) | Traffic::PingPong { bytes, .. } => require(
            *bytes > 0,
            "the size of a request",
            bytes.to_string(),
            "expected at least 1 byte",
        ),
        Traffic::OnOff { on, .. } => require(
            !on.is_zero(),
            "the time it sends",
            format!("{on:?}"),
            "expected more than 0",
        ),
        Traffic::Limited { rate } => require(
            *rate > 0,
            "the application's rate",
            rate.to_string(),
            "expected at least 1 byte/s",
        ),
        Traffic::Requests { load, .. } => require(
            load.is_finite() && *load > 0.0,
            "the load",
            load.to_string(),
            "expected bytes/s above 0",
        ),
    }
    if let Governor::Native(Native::Constant(cwnd)) = flow.governor {
        require(
            cwnd > 0,
            "the constant window",
            cwnd.to_string(),
            "expected at least 1 byte",
        );
    }
    check_tcp(&flow.tcp, &mut require);
    if let Traffic::Requests { sizes, load } = &flow.traffic {
        let problems = sizes.problems();
        let gap_s = sizes.mean() / load;
        // Virtual time would stand still, or have no next arrival.
        if problems.is_empty() && *load > 0.0 && !(1e-9..f64::INFINITY).contains(&gap_s) {
            found.push(FlowProblem::Value {
                what: "the mean time between requests, the sizes' mean by the load,",
                value: format!("{gap_s} s"),
                expected: "expected at least 1 ns, and finite",
            });
        }
        found.extend(problems.into_iter().map(FlowProblem::Sizes));
    }
}

fn check_tcp(tcp: &TcpConfig, require: &mut impl FnMut(bool, &'static str, String, &'static str)) {
    require(
        (1..=MAX_MSS).contains(&tcp.mss),
        "the maximum segment size",
        tcp.mss.to_string(),
        "expected 1 to 65483 bytes, so that the packet is one of IPv4",
    );
    require(
        tcp.initial_window > 0,
        "the initial window",
        tcp.initial_window.to_string(),
        "expected at least 1 segment",
    );
    require(
        (u64::from(tcp.mss)..=MAX_RECEIVE_WINDOW).contains(&tcp.receive_window),
        "the receive window",
        tcp.receive_window.to_string(),
        "expected one segment's bytes at least, and at most 1073725440 (RFC 7323 §2.3)",
    );
    require(
        !tcp.min_rto.is_zero(),
        "the least retransmission timeout",
        format!("{:?}", tcp.min_rto),
        "expected more than 0",
    );
}

impl SizeCdf {
    /// Everything that is wrong with it.
    #[must_use]
    pub fn problems(&self) -> Vec<SizeProblem> {
        const MAX_BYTES: f64 = 9_007_199_254_740_992.0;
        let mut found = Vec::new();
        let mut before: Option<(f64, f64)> = None;
        for (point, &(bytes, probability)) in self.points.iter().enumerate() {
            if !(0.0..=MAX_BYTES).contains(&bytes) {
                found.push(SizeProblem::Bytes { point, bytes });
            }
            if !(0.0..=1.0).contains(&probability) {
                found.push(SizeProblem::Probability { point, probability });
            }
            let now = (bytes, probability);
            let rises =
                before.is_none_or(|was| bytes >= was.0 && probability >= was.1 && now != was);
            if !rises {
                found.push(SizeProblem::DoesNotRise { point });
            }
            before = Some(now);
        }
        match self.points.last() {
            None => found.push(SizeProblem::Empty),
            Some(&(_, 1.0)) => {}
            Some(&(_, last)) => found.push(SizeProblem::NotWhole(last)),
        }
        found
    }
}
