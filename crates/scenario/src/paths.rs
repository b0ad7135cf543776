//! The paths of flows, as far as a scenario must know them: what rate limits a flow, how long its
//! round trip is, and which flows cross an edge.

use std::time::Duration;

use fairwater_experiment::paths::{Ends, PathFinder};
use fairwater_experiment::{EdgeId, FlowConfig, NodeId, Path};
use fairwater_net::Rate;

use crate::network::EdgeSpec;

/// Finds the paths of flows.
pub(crate) struct Paths<'a> {
    edges: &'a [EdgeSpec],
    finder: PathFinder<'a, EdgeSpec>,
}

/// A flow's path to the receiver and back; of parallel paths, the first.
pub(crate) struct RoundTrip {
    pub(crate) forward: Vec<EdgeId>,
    pub(crate) reverse: Vec<EdgeId>,
}

impl RoundTrip {
    /// All edges that the flow crosses.
    pub(crate) fn edges(&self) -> impl Iterator<Item = EdgeId> {
        self.forward.iter().chain(&self.reverse).copied()
    }
}

impl Ends for EdgeSpec {
    fn ends(&self) -> (NodeId, NodeId) {
        (self.from, self.to)
    }
}

impl<'a> Paths<'a> {
    pub(crate) fn new(nodes: usize, edges: &'a [EdgeSpec]) -> Self {
        let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
        Paths {
            edges,
            finder: PathFinder::new(nodes, edges),
        }
    }

    /// The paths of a flow; `None` when there are none.
    pub(crate) fn of(&mut self, flow: &FlowConfig) -> Option<RoundTrip> {
        match &flow.path {
            Path::Along {
                forward, reverse, ..
            } => Some(RoundTrip {
                forward: forward.first()?.clone(),
                reverse: reverse.first()?.clone(),
            }),
            Path::Shortest => Some(RoundTrip {
                forward: self.finder.shortest(flow.from, flow.to)?,
                reverse: self.finder.shortest(flow.to, flow.from)?,
            }),
        }
    }

    /// Whether all of a flow's packets to the receiver cross the edge.
    pub(crate) fn all_cross(&mut self, flow: &FlowConfig, edge: EdgeId) -> bool {
        match &flow.path {
            Path::Along { forward, .. } => forward.iter().all(|path| path.contains(&edge)),
            Path::Shortest => {
                let path = self.finder.shortest(flow.from, flow.to);
                path.is_some_and(|path| path.contains(&edge))
            }
        }
    }

    fn edge(&self, id: EdgeId) -> &EdgeSpec {
        &self.edges[id.0 as usize]
    }

    /// Propagation to the receiver and back.
    pub(crate) fn rtt(&self, path: &RoundTrip) -> Duration {
        path.edges().map(|id| self.edge(id).direction.delay).sum()
    }

    /// The least rate on the path to the receiver; `None` when nothing limits it.
    pub(crate) fn least_rate(&self, path: &RoundTrip) -> Option<Rate> {
        let rates = path.forward.iter();
        rates
            .filter_map(|id| self.edge(*id).direction.capacity.nominal_rate())
            .min()
    }

    /// Whether anything on the round trip has a queue.
    pub(crate) fn has_queue(&self, path: &RoundTrip) -> bool {
        path.edges()
            .any(|id| self.edge(id).direction.capacity.nominal_rate().is_some())
    }
}
