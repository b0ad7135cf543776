//! The description of an experiment: a network, who sends what over it, and what to measure. It says
//! nothing of where the experiment runs: the simulator and the test bed run the same description.

mod backend;
mod bundle;
mod flow;
mod measure;
mod network;
pub mod paths;
mod plane;
mod progress;
mod sizes;

use std::time::Duration;

pub use backend::Backend;
pub use bundle::BundleConfig;
pub use fairwater_select::SelectorConfig;
pub use fairwater_tcp::{Ecn, MAX_RECEIVE_WINDOW, TcpConfig};
pub use flow::{Controller, EdgeMode, EdgeTreatment, FlowConfig, Native, Traffic};
pub use measure::{Measure, SAMPLE_BUDGET, SIZE_CLASSES};
pub use network::{Balancing, Edge, EdgeId, NodeId, Path};
pub use plane::PlaneConfig;
pub use progress::{FlowProgress, Progress, TICK};
pub use sizes::{SizeCdf, SizeError};

/// A network, its traffic, and what to measure. Everything random follows from `seed`.
#[derive(Debug, Clone)]
pub struct Experiment {
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
    /// Boxes around bundles of flows; a bundle without any is a name by which edges are measured.
    pub bundles: Vec<BundleConfig>,
    /// The plane that hosts the algorithms of [`Controller::Plane`], and the delay to it.
    pub plane: PlaneConfig,
    /// What to write down.
    pub measure: Measure,
}
