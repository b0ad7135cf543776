//! Hosts, links, and the paths of flows over them.

use fairwater_net::LinkConfig;

/// A host or a router: an index, from 0 to [`crate::Experiment::nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// One direction of a link: an index into [`crate::Experiment::edges`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EdgeId(pub u32);

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

/// The paths that a flow's packets take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Path {
    /// The fewest hops, the lower edge first among equals.
    Shortest,
    /// These edges, one alternative or several; the acknowledgements' path is the reverse.
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
