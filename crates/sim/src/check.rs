//! Finds all errors of a configuration at once.

use std::time::Duration;

use fairwater_net::{Aggregation, Capacity, LinkConfig, QueueError, Time};
use thiserror::Error;

use crate::bundles::{self, MAX_BUNDLES};
use crate::estimate::{Estimate, MAX_MEMORY_BYTES, MAX_TURNS, samples};
use crate::routes::{Finder, takes_time};
use crate::{Controller, EdgeId, Experiment, FlowConfig, NodeId, Path, SizeError};

mod bundle;
mod flow;

pub use bundle::BoxError;
use flow::check_flow;

/// All errors of a configuration, in its order.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{}", .errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ConfigErrors {
    /// The errors; never empty.
    pub errors: Vec<ConfigError>,
}

/// One error of a configuration, and where it is.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ConfigError {
    /// An error of the whole configuration.
    #[error("{0}")]
    General(GeneralError),
    /// An error of an edge.
    #[error("edge `{name}`: {error}")]
    Edge {
        /// Index in [`Experiment::edges`].
        edge: EdgeId,
        /// Its name.
        name: String,
        /// What is wrong.
        error: EdgeError,
    },
    /// An error of a flow.
    #[error("flow `{name}`: {error}")]
    Flow {
        /// Index in [`Experiment::flows`].
        flow: usize,
        /// Its name.
        name: String,
        /// What is wrong.
        error: FlowError,
    },
    /// An error of the boxes of a bundle.
    #[error("bundle `{name}`: {error}")]
    Bundle {
        /// Index in [`Experiment::bundles`].
        bundle: usize,
        /// Its name.
        name: String,
        /// What is wrong.
        error: BoxError,
    },
}

/// An error of the whole configuration.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum GeneralError {
    /// The duration is zero.
    #[error("the duration is 0")]
    NoDuration,
    /// The duration does not fit: time is 64 bits of nanoseconds.
    #[error("the duration is longer than 292 years")]
    EndlessDuration,
    /// Too many flows to number.
    #[error("there are {0} flows: {max} is the most", max = MAX_FLOWS)]
    TooManyFlows(usize),
    /// Too many bundles to number.
    #[error("there are {0} bundles: {max} is the most", max = MAX_BUNDLES)]
    TooManyBundles(usize),
    /// Too many nodes to find paths between.
    #[error("there are {0} nodes: {max} is the most", max = MAX_NODES)]
    TooManyNodes(u32),
    /// Measuring begins after the end.
    #[error("measuring begins at {0:?}, when the simulation has ended")]
    MeasuresNothing(Duration),
    /// The interval of samples is zero.
    #[error("the interval of samples is 0")]
    NoInterval,
    /// More samples than memory holds.
    #[error("there would be {0} samples of flows and edges: {max} is the most", max = MAX_SAMPLES)]
    TooManySamples(u128),
    /// Applications that would keep the simulator busy for hours.
    #[error(
        "applications would take about {turns:.0e} turns (phases of on/off traffic, requests, \
         writes): {max:.0e} is the most",
        max = MAX_TURNS
    )]
    TooManyTurns {
        /// Estimated turns.
        turns: f64,
    },
    /// More flows, hosts, requests or samples than memory holds.
    #[error(
        "the simulation would take about {:.1} GB of memory: {:.0} GB is the most; use fewer flows, \
         hosts, requests or samples, or less load than the links carry",
        bytes / 1e9,
        MAX_MEMORY_BYTES / 1e9
    )]
    TooMuchMemory {
        /// Estimated bytes.
        bytes: f64,
    },
    /// The node does not exist.
    #[error("the capture is at node {}, which does not exist", .0.0)]
    CaptureNowhere(NodeId),
    /// The edge does not exist.
    #[error("edge {} is watched, which does not exist", .0.0)]
    WatchesNothing(EdgeId),
    /// Silence so short that flows would always be under the fallback.
    #[error("a plane is taken to be gone after a silence of less than 10 µs")]
    NoSilence,
    /// Outages are not in order.
    #[error("outage {0} of the plane is empty, or begins before the one before it ends")]
    Outage(usize),
}

/// An error of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum EdgeError {
    /// The node does not exist.
    #[error("there is no node {}", .0.0)]
    UnknownNode(NodeId),
    /// The edge begins and ends at the same node.
    #[error("the edge leads from node {} to itself", .0.0)]
    Loop(NodeId),
    /// The queue cannot work with its values.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// A token bucket that never has a token.
    #[error("the token bucket holds 0 bytes")]
    EmptyBucket,
    /// Aggregates without a frame.
    #[error("an aggregate holds no frame: `frames` and `airtime` must be more than zero")]
    EmptyAggregate,
}

/// An error of a flow.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum FlowError {
    /// The node does not exist.
    #[error("there is no node {}", .0.0)]
    UnknownNode(NodeId),
    /// The flow sends to its own host.
    #[error("the flow sends from node {} to itself", .0.0)]
    ToItself(NodeId),
    /// No path leads to the receiver, or back.
    #[error("no path leads from node {} to node {}", .from.0, .to.0)]
    NoWay {
        /// From here.
        from: NodeId,
        /// To here.
        to: NodeId,
    },
    /// A path given edge by edge has an edge that does not exist.
    #[error("{path}: there is no edge {}", .edge.0)]
    UnknownEdge {
        /// Which path.
        path: PathIndex,
        /// The edge.
        edge: EdgeId,
    },
    /// A path given edge by edge has a gap, or ends elsewhere.
    #[error("{path}: edge {index} begins at node {}, not at node {}", .found.0, .expected.0)]
    Gap {
        /// Which path.
        path: PathIndex,
        /// Index of the edge on the path, from 0.
        index: usize,
        /// Node where the edge should begin.
        expected: NodeId,
        /// Node where the edge begins.
        found: NodeId,
    },
    /// A path given edge by edge ends elsewhere.
    #[error("{path} ends at node {}, not at node {}", .found.0, .expected.0)]
    WrongEnd {
        /// Which path.
        path: PathIndex,
        /// Node where the path should end.
        expected: NodeId,
        /// Node where the path ends.
        found: NodeId,
    },
    /// Virtual time would stand still while packets go round.
    #[error(
        "a packet and its acknowledgement take no time: no edge has a delay, or a rate that holds \
         them up"
    )]
    NoTime,
    /// The flow stops before it starts.
    #[error("the flow stops at {stop:?} and starts at {start:?}")]
    StopsFirst {
        /// Start of the flow.
        start: Duration,
        /// Stop of the flow.
        stop: Duration,
    },
    /// The plane hosts no algorithm of this name.
    #[error("the plane has no algorithm `{0}`")]
    UnknownAlgorithm(String),
    /// The sender is behind a box, and this cannot be.
    #[error("behind an edge, {0}")]
    BehindEdge(&'static str),
    /// A value is out of its range.
    #[error("{what} is {value}: {expected}")]
    Value {
        /// Name of the value.
        what: &'static str,
        /// The value.
        value: String,
        /// What is accepted.
        expected: &'static str,
    },
    /// The sizes of requests are no distribution.
    #[error("{0}")]
    Sizes(SizeError),
}

/// One of a flow's alternative paths, by its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PathIndex {
    /// To the receiver.
    #[error("forward path {0}")]
    Forward(usize),
    /// Of the acknowledgements.
    #[error("reverse path {0}")]
    Reverse(usize),
}

/// The most flows of a configuration.
pub const MAX_FLOWS: usize = 1 << 20;

/// The most nodes of a configuration.
pub const MAX_NODES: u32 = 1 << 20;

/// The most samples of all flows and edges together; they take some gigabytes.
pub const MAX_SAMPLES: u128 = 100_000_000;

/// Checks everything but the names of algorithms, which only a plane knows.
///
/// # Errors
/// [`ConfigErrors`] with every error found.
pub fn check(config: &Experiment) -> Result<(), ConfigErrors> {
    finish(errors(config))
}

/// Checks everything, including the names of algorithms.
pub(crate) fn check_with(
    config: &Experiment,
    has_algorithm: impl Fn(&str) -> bool,
) -> Result<(), ConfigErrors> {
    let mut errors = errors(config);
    for (index, flow) in config.flows.iter().enumerate() {
        let of_sender = match &flow.controller {
            Controller::Plane(name) => Some(name),
            Controller::Native(_) => None,
        };
        let of_edge = flow.edge.iter().flat_map(|edge| edge.algorithms());
        for name in of_sender.into_iter().cloned().chain(of_edge) {
            if !has_algorithm(&name) {
                errors.push(ConfigError::Flow {
                    flow: index,
                    name: flow.name.clone(),
                    error: FlowError::UnknownAlgorithm(name),
                });
            }
        }
    }
    for (index, bundle) in config.bundles.iter().enumerate() {
        if !has_algorithm(&bundle.algorithm) {
            let error = BoxError::UnknownAlgorithm(bundle.algorithm.clone());
            errors.push(bundle::error(index, bundle, error));
        }
    }
    finish(errors)
}

fn errors(config: &Experiment) -> Vec<ConfigError> {
    let general = general_problems(config).into_iter();
    let mut errors: Vec<_> = general.map(ConfigError::General).collect();
    for (edge, index) in config.edges.iter().zip(0..) {
        let mut add = |error| {
            errors.push(ConfigError::Edge {
                edge: EdgeId(index),
                name: edge.name.clone(),
                error,
            });
        };
        for node in [edge.from, edge.to] {
            if node.0 >= config.nodes {
                add(EdgeError::UnknownNode(node));
            }
        }
        if edge.from == edge.to {
            add(EdgeError::Loop(edge.from));
        }
        check_link(&edge.link, &mut add);
    }
    if config.nodes > MAX_NODES {
        return errors;
    }
    let mut finder = Finder::new(config);
    for (index, flow) in config.flows.iter().enumerate() {
        let mut found = Vec::new();
        check_path(config, flow, &mut finder, &mut found);
        check_flow(flow, &mut found);
        errors.extend(found.into_iter().map(|error| ConfigError::Flow {
            flow: index,
            name: flow.name.clone(),
            error,
        }));
    }
    errors.extend(bundle::check(config, &mut finder));
    if errors.is_empty() {
        let too_large = check_size(config, &mut finder);
        errors.extend(too_large.into_iter().map(ConfigError::General));
    }
    errors
}

fn check_link(link: &LinkConfig, add: &mut impl FnMut(EdgeError)) {
    // A queue before a link that takes no time never holds a packet.
    if !matches!(link.capacity, Capacity::Unlimited)
        && let Err(error) = link.queue.check()
    {
        add(EdgeError::Queue(error));
    }
    match link.capacity {
        Capacity::TokenBucket { burst_bytes: 0, .. } => add(EdgeError::EmptyBucket),
        Capacity::Aggregates(Aggregation {
            frames, airtime, ..
        }) if frames == 0 || airtime.is_zero() => add(EdgeError::EmptyAggregate),
        _ => {}
    }
}

/// Refuses what would run for hours or out of memory. Everything else has been checked.
fn check_size(config: &Experiment, finder: &mut Finder<'_>) -> Option<GeneralError> {
    let estimate = Estimate::new(config, finder);
    if estimate.turns > MAX_TURNS {
        let turns = estimate.turns;
        return Some(GeneralError::TooManyTurns { turns });
    }
    let bytes = estimate.memory_bytes;
    (bytes > MAX_MEMORY_BYTES).then_some(GeneralError::TooMuchMemory { bytes })
}

fn general_problems(config: &Experiment) -> Vec<GeneralError> {
    let end = Time::ZERO + config.duration;
    let measure = &config.measure;
    let outages = &config.plane.outages;
    let samples = samples(config);
    let bundles = bundles::names(config).len();
    let wrong = |index: &usize| {
        let (start, end) = outages[*index];
        let before = index.checked_sub(1).map_or(Time::ZERO, |i| outages[i].1);
        start >= end || start < before
    };
    [
        (config.duration.is_zero(), GeneralError::NoDuration),
        (
            config.duration.as_nanos() > u128::from(u64::MAX / 2),
            GeneralError::EndlessDuration,
        ),
        (
            config.flows.len() > MAX_FLOWS,
            GeneralError::TooManyFlows(config.flows.len()),
        ),
        (
            config.nodes > MAX_NODES,
            GeneralError::TooManyNodes(config.nodes),
        ),
        (bundles > MAX_BUNDLES, GeneralError::TooManyBundles(bundles)),
        (
            !config.duration.is_zero() && measure.from >= end,
            GeneralError::MeasuresNothing(measure.from.since(Time::ZERO)),
        ),
        (
            measure.interval.is_some_and(|i| i.is_zero()),
            GeneralError::NoInterval,
        ),
        (samples > MAX_SAMPLES, GeneralError::TooManySamples(samples)),
        (
            config.plane.silence < Duration::from_micros(10),
            GeneralError::NoSilence,
        ),
    ]
    .into_iter()
    .filter_map(|(is_wrong, error)| is_wrong.then_some(error))
    .chain(
        measure
            .capture
            .iter()
            .copied()
            .filter(|node| node.0 >= config.nodes)
            .map(GeneralError::CaptureNowhere),
    )
    .chain(
        measure
            .watch
            .filter(|edge| edge.0 as usize >= config.edges.len())
            .map(GeneralError::WatchesNothing),
    )
    .chain((0..outages.len()).filter(wrong).map(GeneralError::Outage))
    .collect()
}

fn check_path(
    config: &Experiment,
    flow: &FlowConfig,
    finder: &mut Finder<'_>,
    found: &mut Vec<FlowError>,
) {
    let before = found.len();
    for node in [flow.from, flow.to] {
        if node.0 >= config.nodes {
            found.push(FlowError::UnknownNode(node));
        }
    }
    if flow.from == flow.to {
        found.push(FlowError::ToItself(flow.from));
    }
    if found.len() > before {
        return;
    }
    let is_slow = |path: &Vec<EdgeId>| takes_time(config, path);
    let (there, back) = match &flow.path {
        Path::Shortest => {
            let mut find = |from, to| match finder.shortest(from, to) {
                Some(path) => is_slow(&path),
                None => {
                    found.push(FlowError::NoWay { from, to });
                    true
                }
            };
            (find(flow.from, flow.to), find(flow.to, flow.from))
        }
        Path::Along {
            forward, reverse, ..
        } => {
            for (paths, from, to, name) in [
                (
                    forward,
                    flow.from,
                    flow.to,
                    PathIndex::Forward as fn(usize) -> PathIndex,
                ),
                (reverse, flow.to, flow.from, PathIndex::Reverse),
            ] {
                if paths.is_empty() {
                    found.push(FlowError::NoWay { from, to });
                }
                for (index, path) in paths.iter().enumerate() {
                    check_along(config, path, (from, to), name(index), found);
                }
            }
            (forward.iter().all(is_slow), reverse.iter().all(is_slow))
        }
    };
    if !there && !back {
        found.push(FlowError::NoTime);
    }
}

fn check_along(
    config: &Experiment,
    edges: &[EdgeId],
    (from, to): (NodeId, NodeId),
    path: PathIndex,
    found: &mut Vec<FlowError>,
) {
    let mut at = from;
    for (index, id) in edges.iter().enumerate() {
        let Some(edge) = config.edges.get(id.0 as usize) else {
            found.push(FlowError::UnknownEdge { path, edge: *id });
            return;
        };
        if edge.from != at {
            found.push(FlowError::Gap {
                path,
                index,
                expected: at,
                found: edge.from,
            });
        }
        at = edge.to;
    }
    if at != to {
        found.push(FlowError::WrongEnd {
            path,
            expected: to,
            found: at,
        });
    }
}

fn finish(errors: Vec<ConfigError>) -> Result<(), ConfigErrors> {
    if errors.is_empty() {
        Ok(())
    } else {
        Err(ConfigErrors { errors })
    }
}
