//! A deterministic simulator: virtual time, [`fairwater_net`]'s queues and links, and TCP senders
//! that algorithms drive through [`fairwater_datapath`] and [`fairwater_plane`] as they drive real
//! ones, the link between the two included. The same [`Experiment`] gives the same [`Outcome`], bit
//! for bit, on every machine.

mod check;
mod connection;
mod ecn;
mod edges;
mod estimate;
mod events;
mod flow;
mod guest;
mod measure;
pub mod native;
mod observer;
mod outcome;
mod packet;
mod plane_link;
mod random;
mod routes;
mod simulation;
mod sizes;
mod traffic;

pub use check::{
    ConfigError, ConfigErrors, EdgeError, FlowError, GeneralError, MAX_FLOWS, MAX_NODES,
    MAX_SAMPLES, PathIndex, check,
};
pub use ecn::negotiated_ecn;
pub use estimate::{MAX_MEMORY_BYTES, MAX_TURNS};
pub use fairwater_edge::EdgeStatistics;
pub use fairwater_experiment::{
    Balancing, Controller, Ecn, Edge, EdgeId, EdgeTreatment, Experiment, FlowConfig,
    MAX_RECEIVE_WINDOW, Measure, Native, NodeId, Path, PlaneConfig, SAMPLE_BUDGET, SizeCdf,
    SizeError, TcpConfig, Traffic,
};
pub use observer::{Captured, Observer, PacketOutcome};
pub use outcome::{
    EdgeOutcome, EdgeSample, Fallback, FlowOutcome, Outcome, Quantiles, Request, Sample,
};
pub use plane_link::capabilities;
pub use simulation::{CommandError, EdgeSnapshot, FlowSnapshot, Simulation, SimulationError, run};
