//! The paths of packets through the network.

use std::collections::BTreeMap;
use std::time::Duration;

use fairwater_experiment::paths::PathFinder;
use fairwater_net::Capacity;

use crate::{EdgeId, Experiment, FlowConfig, MAX_RECEIVE_WINDOW, NodeId, Path};

/// Position of a packet on its path: an index into [`Routes::hops`].
pub(crate) type Hop = u32;

/// The edges of all paths, one after another, each path closed by [`END`].
#[derive(Debug, Default)]
pub(crate) struct Routes {
    hops: Vec<u32>,
}

/// Behind the last edge of a path.
const END: u32 = u32::MAX;

/// A flow's paths in one direction: where each begins. Never empty.
#[derive(Debug, Clone, Default)]
pub(crate) struct FlowPaths(pub(crate) Vec<Hop>);

impl Routes {
    /// The edge at this position of a path; `None` at its end.
    #[inline]
    pub(crate) fn edge(&self, hop: Hop) -> Option<u32> {
        let edge = self.hops[hop as usize];
        (edge != END).then_some(edge)
    }

    /// The edges of the path that begins there.
    pub(crate) fn edges(&self, hop: Hop) -> impl Iterator<Item = u32> + '_ {
        self.hops[hop as usize..]
            .iter()
            .copied()
            .take_while(|edge| *edge != END)
    }

    /// Adds a path.
    pub(crate) fn add(&mut self, path: &[EdgeId]) -> Hop {
        let start = u32::try_from(self.hops.len()).unwrap_or(u32::MAX);
        self.hops.extend(path.iter().map(|edge| edge.0));
        self.hops.push(END);
        start
    }

    fn add_all<'a>(&mut self, paths: impl IntoIterator<Item = &'a Vec<EdgeId>>) -> FlowPaths {
        FlowPaths(paths.into_iter().map(|path| self.add(path)).collect())
    }
}

/// Finds the paths of flows, and adds each once.
#[derive(Debug)]
pub(crate) struct Finder<'a> {
    paths: PathFinder<'a>,
    /// By both ends: paths that were added.
    known: BTreeMap<(NodeId, NodeId), Hop>,
}

impl<'a> Finder<'a> {
    pub(crate) fn new(config: &'a Experiment) -> Self {
        Self {
            paths: PathFinder::new(config.nodes, &config.edges),
            known: BTreeMap::new(),
        }
    }

    /// The path with the fewest hops: see [`PathFinder::shortest`].
    pub(crate) fn shortest(&mut self, from: NodeId, to: NodeId) -> Option<Vec<EdgeId>> {
        self.paths.shortest(from, to)
    }

    /// A flow's forward and reverse paths, added to the routes. The configuration has been checked:
    /// where there is no path, the result is empty.
    pub(crate) fn paths(
        &mut self,
        flow: &FlowConfig,
        routes: &mut Routes,
    ) -> (FlowPaths, FlowPaths) {
        match &flow.path {
            Path::Shortest => (
                self.shortest_once(flow.from, flow.to, routes),
                self.shortest_once(flow.to, flow.from, routes),
            ),
            Path::Along {
                forward, reverse, ..
            } => (routes.add_all(forward), routes.add_all(reverse)),
        }
    }

    fn shortest_once(&mut self, from: NodeId, to: NodeId, routes: &mut Routes) -> FlowPaths {
        if let Some(hop) = self.known.get(&(from, to)) {
            return FlowPaths(vec![*hop]);
        }
        let path = self.shortest(from, to);
        let added = routes.add_all(path.as_ref());
        if let Some(hop) = added.0.first() {
            self.known.insert((from, to), *hop);
        }
        added
    }
}

/// What crosses a path, for [`ideal`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// Bytes of all packets, headers included.
    pub(crate) bytes: u64,
    /// Bytes of the smallest packet among them.
    pub(crate) least: u64,
}

impl Load {
    /// All bytes but one packet's.
    fn rest(self) -> u64 {
        self.bytes - self.least
    }
}

/// The least time from the first bit's start until the last bit is there, alone on the path: the
/// propagation, all bytes at the edge that takes longest for them, and one packet at each of the
/// others. A trace counts with its mean rate, a schedule with its greatest, and a bucket is full.
pub(crate) fn ideal(config: &Experiment, path: impl Iterator<Item = u32>, load: Load) -> Duration {
    let bounds = Bounds::new(config, path, load);
    bounds.fixed.saturating_add(bounds.rest)
}

/// The same where packets may take any of several paths: the quickest path's, but for the bottleneck,
/// where the paths' rates add up.
pub(crate) fn ideal_of_all<W>(
    config: &Experiment,
    paths: impl Iterator<Item = W>,
    load: Load,
) -> Duration
where
    W: Iterator<Item = u32>,
{
    paths
        .map(|path| Bounds::new(config, path, load))
        .reduce(|one, other| Bounds {
            fixed: one.fixed.min(other.fixed),
            rest: one.rest.min(other.rest),
            burst: one.burst.saturating_add(other.burst),
            bps: one.bps.saturating_add(other.bps),
        })
        .map_or(Duration::ZERO, |all| {
            let rest = load.rest().saturating_sub(all.burst);
            all.fixed.saturating_add(least_time(rest, all.bps))
        })
}

/// The most bytes of an IPv4 packet.
const MAX_PACKET: u64 = 65_535;

/// What bounds the time on a path from below.
struct Bounds {
    /// Propagation, and a packet's transmission at each edge.
    fixed: Duration,
    /// All packets but one, at the edge that takes longest for them.
    rest: Duration,
    /// Bytes that pass the greatest bucket at once.
    burst: u64,
    /// The least rate; the greatest when there is none.
    bps: u64,
}

impl Bounds {
    fn new(config: &Experiment, edges: impl Iterator<Item = u32>, load: Load) -> Self {
        let mut bounds = Self {
            fixed: Duration::ZERO,
            rest: Duration::ZERO,
            burst: 0,
            bps: u64::MAX,
        };
        for edge in edges {
            let link = &config.edges[edge as usize].link;
            bounds.fixed = bounds.fixed.saturating_add(link.delay);
            let burst = match link.capacity {
                // A packet larger than the bucket passes when that is full.
                Capacity::TokenBucket { burst_bytes, .. } => burst_bytes.max(MAX_PACKET),
                _ => 0,
            };
            let Some(rate) = link.capacity.nominal_rate() else {
                continue;
            };
            let time = |bytes: u64| least_time(bytes.saturating_sub(burst), rate.bps());
            bounds.fixed = bounds.fixed.saturating_add(time(load.least));
            bounds.rest = bounds.rest.max(time(load.rest()));
            bounds.burst = bounds.burst.max(burst);
            bounds.bps = bounds.bps.min(rate.bps());
        }
        bounds
    }
}

/// A transmission, rounded down: links make up for what they rounded up before.
fn least_time(bytes: u64, bps: u64) -> Duration {
    let ns = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(bps.max(1));
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// Whether packets spend time on the path. A bucket that a receive window does not empty lets an
/// endless exchange pass at one moment.
pub(crate) fn takes_time(config: &Experiment, path: &[EdgeId]) -> bool {
    path.iter().any(|edge| {
        config.edges.get(edge.0 as usize).is_none_or(|edge| {
            let holds_up = match edge.link.capacity {
                Capacity::Unlimited => false,
                Capacity::TokenBucket { burst_bytes, .. } => burst_bytes <= MAX_RECEIVE_WINDOW,
                _ => true,
            };
            edge.link.delay > Duration::ZERO || holds_up
        })
    })
}
