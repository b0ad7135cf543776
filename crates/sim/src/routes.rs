//! The ways of packets through the network.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fairwater_net::Capacity;

use crate::{Config, EdgeId, FlowConfig, MAX_RECEIVE_WINDOW, NodeId, Path};

/// Where a packet is on its way: an index into [`Routes::hops`].
pub(crate) type Hop = u32;

/// The edges of all ways, one after another, each way closed by [`END`].
#[derive(Debug, Default)]
pub(crate) struct Routes {
    hops: Vec<u32>,
}

/// Behind the last edge of a way.
const END: u32 = u32::MAX;

/// A flow's ways in one direction: where each begins. Never empty.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ways(pub(crate) Vec<Hop>);

impl Routes {
    /// The edge at this place of a way; `None` at its end.
    #[inline]
    pub(crate) fn edge(&self, hop: Hop) -> Option<u32> {
        let edge = self.hops[hop as usize];
        (edge != END).then_some(edge)
    }

    /// The edges of the way that begins there.
    pub(crate) fn edges(&self, hop: Hop) -> impl Iterator<Item = u32> + '_ {
        self.hops[hop as usize..]
            .iter()
            .copied()
            .take_while(|edge| *edge != END)
    }

    fn add(&mut self, way: &[EdgeId]) -> Hop {
        let start = u32::try_from(self.hops.len()).unwrap_or(u32::MAX);
        self.hops.extend(way.iter().map(|edge| edge.0));
        self.hops.push(END);
        start
    }

    fn add_all<'a>(&mut self, ways: impl IntoIterator<Item = &'a Vec<EdgeId>>) -> Ways {
        Ways(ways.into_iter().map(|way| self.add(way)).collect())
    }
}

/// Finds ways with the fewest hops, by breadth-first search.
#[derive(Debug)]
pub(crate) struct Finder<'a> {
    config: &'a Config,
    /// By node: the edges that leave it, in their order.
    leaving: Vec<Vec<EdgeId>>,
    /// By node, once a search began there: by node, the edge by which it is reached.
    reached: Vec<Option<Vec<Option<EdgeId>>>>,
    /// By both ends: ways that were added.
    known: BTreeMap<(NodeId, NodeId), Hop>,
}

impl<'a> Finder<'a> {
    /// Edges of unknown nodes are left out.
    pub(crate) fn new(config: &'a Config) -> Self {
        let nodes = config.nodes as usize;
        let mut leaving = vec![Vec::new(); nodes];
        for (edge, index) in config.edges.iter().zip(0..) {
            if edge.to.0 < config.nodes
                && let Some(leaving) = leaving.get_mut(edge.from.0 as usize)
            {
                leaving.push(EdgeId(index));
            }
        }
        Self {
            config,
            leaving,
            reached: vec![None; nodes],
            known: BTreeMap::new(),
        }
    }

    /// The way with the fewest hops; among equals, the one whose edges come first. `None` when
    /// there is none, or a node is unknown.
    pub(crate) fn shortest(&mut self, from: NodeId, to: NodeId) -> Option<Vec<EdgeId>> {
        let mut way = Vec::new();
        let mut from = from;
        // Most nodes are hosts with one way out: searches begin, and are kept, where ways part.
        while let [edge] = self.leaving.get(from.0 as usize)?.as_slice()
            && from != to
        {
            if way.len() > self.leaving.len() {
                return None;
            }
            way.push(*edge);
            from = self.config.edges[edge.0 as usize].to;
        }
        let known = way.len();
        let reached = match &mut self.reached[from.0 as usize] {
            Some(reached) => reached,
            None => {
                let reached = self.search(from);
                self.reached[from.0 as usize].insert(reached)
            }
        };
        let mut at = to;
        while at != from {
            let edge = (*reached.get(at.0 as usize)?)?;
            way.push(edge);
            at = self.config.edges[edge.0 as usize].from;
        }
        way[known..].reverse();
        Some(way)
    }

    fn search(&self, from: NodeId) -> Vec<Option<EdgeId>> {
        let mut reached = vec![None; self.leaving.len()];
        let mut next = VecDeque::from([from]);
        while let Some(node) = next.pop_front() {
            for edge in &self.leaving[node.0 as usize] {
                let to = self.config.edges[edge.0 as usize].to;
                if to != from && reached[to.0 as usize].is_none() {
                    reached[to.0 as usize] = Some(*edge);
                    next.push_back(to);
                }
            }
        }
        reached
    }

    /// A flow's ways there and back, added to the routes. The configuration has been checked:
    /// where there is no way, the result is empty.
    pub(crate) fn ways(&mut self, flow: &FlowConfig, routes: &mut Routes) -> (Ways, Ways) {
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

    fn shortest_once(&mut self, from: NodeId, to: NodeId, routes: &mut Routes) -> Ways {
        if let Some(hop) = self.known.get(&(from, to)) {
            return Ways(vec![*hop]);
        }
        let way = self.shortest(from, to);
        let added = routes.add_all(way.as_ref());
        if let Some(hop) = added.0.first() {
            self.known.insert((from, to), *hop);
        }
        added
    }
}

/// The least time that something takes on a way: see [`ideal`].
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

/// The least time from the first bit's start until the last bit is there, alone on the way: the
/// propagation, all bytes at the edge that takes longest for them, and one packet at each of the
/// others. A trace counts with its mean rate, a schedule with its greatest, and a bucket is full.
pub(crate) fn ideal(config: &Config, way: impl Iterator<Item = u32>, load: Load) -> Duration {
    let bounds = Bounds::new(config, way, load);
    bounds.fixed.saturating_add(bounds.rest)
}

/// The same where packets may take any of several ways: the quickest way's, but for the bottleneck,
/// where the ways' rates add up.
pub(crate) fn ideal_of_all<W>(
    config: &Config,
    ways: impl Iterator<Item = W>,
    load: Load,
) -> Duration
where
    W: Iterator<Item = u32>,
{
    ways.map(|way| Bounds::new(config, way, load))
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

/// What bounds the time on a way from below.
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
    fn new(config: &Config, edges: impl Iterator<Item = u32>, load: Load) -> Self {
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

/// Whether packets spend time on the way. A bucket that a receive window does not empty lets an
/// endless exchange pass at one moment.
pub(crate) fn takes_time(config: &Config, way: &[EdgeId]) -> bool {
    way.iter().any(|edge| {
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
