//! Shortest paths between hosts.

use std::collections::VecDeque;

use crate::{Edge, EdgeId, NodeId};

/// Something that leads from one node to another.
pub trait Ends {
    /// Where packets enter, and where they leave.
    fn ends(&self) -> (NodeId, NodeId);
}

impl Ends for Edge {
    fn ends(&self) -> (NodeId, NodeId) {
        (self.from, self.to)
    }
}

/// Finds paths with the fewest hops, by breadth-first search.
#[derive(Debug)]
pub struct PathFinder<'a, E = Edge> {
    edges: &'a [E],
    /// By node: the edges that leave it, in their order.
    leaving: Vec<Vec<EdgeId>>,
    /// By node, once a search began there: by node, the edge by which it is reached.
    reached: Vec<Option<Vec<Option<EdgeId>>>>,
}

impl<'a, E: Ends> PathFinder<'a, E> {
    /// Edges of unknown nodes are left out.
    #[must_use]
    pub fn new(nodes: u32, edges: &'a [E]) -> Self {
        let mut leaving = vec![Vec::new(); nodes as usize];
        for (edge, index) in edges.iter().zip(0..) {
            let (from, to) = edge.ends();
            if to.0 < nodes
                && let Some(leaving) = leaving.get_mut(from.0 as usize)
            {
                leaving.push(EdgeId(index));
            }
        }
        Self {
            edges,
            leaving,
            reached: vec![None; nodes as usize],
        }
    }

    /// The path with the fewest hops; among equals, the one whose edges come first. `None` when
    /// there is none, or a node is unknown.
    pub fn shortest(&mut self, from: NodeId, to: NodeId) -> Option<Vec<EdgeId>> {
        let mut path = Vec::new();
        let mut from = from;
        // Most nodes are hosts with one edge out: searches begin, and are kept, where paths part.
        while let [edge] = self.leaving.get(from.0 as usize)?.as_slice()
            && from != to
        {
            if path.len() > self.leaving.len() {
                return None;
            }
            path.push(*edge);
            from = self.end(*edge);
        }
        let known = path.len();
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
            path.push(edge);
            at = self.edges[edge.0 as usize].ends().0;
        }
        path[known..].reverse();
        Some(path)
    }

    fn end(&self, edge: EdgeId) -> NodeId {
        self.edges[edge.0 as usize].ends().1
    }

    fn search(&self, from: NodeId) -> Vec<Option<EdgeId>> {
        let mut reached = vec![None; self.leaving.len()];
        let mut next = VecDeque::from([from]);
        while let Some(node) = next.pop_front() {
            for edge in &self.leaving[node.0 as usize] {
                let to = self.end(*edge);
                if to != from && reached[to.0 as usize].is_none() {
                    reached[to.0 as usize] = Some(*edge);
                    next.push_back(to);
                }
            }
        }
        reached
    }
}
