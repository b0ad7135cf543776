//! The ways that flows take, as far as a scenario must know them: what rate limits a flow, how
//! long its round trip is, and which flows cross an edge.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fairwater_net::Rate;
use fairwater_sim::{EdgeId, FlowConfig, NodeId, Path};

use super::network::EdgeSpec;

/// Finds the ways of flows: the fewest hops, the lower edge first among equals.
pub(super) struct Ways<'a> {
    edges: &'a [EdgeSpec],
    leaving: Vec<Vec<EdgeId>>,
    /// By sender: for each node the edge by which it is reached.
    found: BTreeMap<NodeId, Vec<Option<EdgeId>>>,
}

/// A flow's way there and back; of parallel ways, the first.
pub(super) struct Way {
    pub(super) there: Vec<EdgeId>,
    pub(super) back: Vec<EdgeId>,
}

impl<'a> Ways<'a> {
    pub(super) fn new(nodes: usize, edges: &'a [EdgeSpec]) -> Self {
        let mut leaving = vec![Vec::new(); nodes];
        for (index, edge) in edges.iter().enumerate() {
            let id = EdgeId(u32::try_from(index).unwrap_or(u32::MAX));
            if let Some(leaving) = leaving.get_mut(edge.from.0 as usize) {
                leaving.push(id);
            }
        }
        Ways {
            edges,
            leaving,
            found: BTreeMap::new(),
        }
    }

    /// The way of a flow; `None` when there is none.
    pub(super) fn of(&mut self, flow: &FlowConfig) -> Option<Way> {
        if let Path::Along {
            forward, reverse, ..
        } = &flow.path
        {
            return Some(Way {
                there: forward.first()?.clone(),
                back: reverse.first()?.clone(),
            });
        }
        // A receiver of many flows is searched from once, many senders once each.
        Some(Way {
            there: self.shortest(flow.from, flow.to)?,
            back: self.shortest(flow.to, flow.from)?,
        })
    }

    fn shortest(&mut self, from: NodeId, to: NodeId) -> Option<Vec<EdgeId>> {
        if !self.found.contains_key(&from) {
            let reached = self.search(from);
            self.found.insert(from, reached);
        }
        let reached = self.found.get(&from)?;
        let mut way = Vec::new();
        let mut at = to;
        while at != from {
            let edge = (*reached.get(at.0 as usize)?)?;
            way.push(edge);
            at = self.edge(edge).from;
        }
        way.reverse();
        Some(way)
    }

    fn search(&self, from: NodeId) -> Vec<Option<EdgeId>> {
        let mut reached = vec![None; self.leaving.len()];
        let mut next = VecDeque::from([from]);
        while let Some(node) = next.pop_front() {
            for edge in self.leaving.get(node.0 as usize).into_iter().flatten() {
                let to = self.edge(*edge).to;
                if let Some(slot) = reached.get_mut(to.0 as usize)
                    && to != from
                    && slot.is_none()
                {
                    *slot = Some(*edge);
                    next.push_back(to);
                }
            }
        }
        reached
    }

    fn edge(&self, id: EdgeId) -> &EdgeSpec {
        &self.edges[id.0 as usize]
    }

    /// Propagation there and back.
    pub(super) fn rtt(&self, way: &Way) -> Duration {
        let delays = way.there.iter().chain(&way.back);
        delays.map(|id| self.edge(*id).direction.delay).sum()
    }

    /// The least rate on the way to the receiver; `None` when nothing limits it.
    pub(super) fn least_rate(&self, way: &Way) -> Option<Rate> {
        let rates = way.there.iter();
        rates
            .filter_map(|id| self.edge(*id).direction.capacity.nominal_rate())
            .min()
    }

    /// Whether anything on the round trip has a queue.
    pub(super) fn has_queue(&self, way: &Way) -> bool {
        let mut edges = way.there.iter().chain(&way.back);
        edges.any(|id| self.edge(*id).direction.capacity.nominal_rate().is_some())
    }
}
