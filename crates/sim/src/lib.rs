//! A deterministic simulator: virtual time, [`fairwater_net`]'s queues and links, and TCP senders
//! that algorithms drive through [`fairwater_datapath`] and [`fairwater_plane`] as they drive real
//! ones, the link between the two included. The same [`Experiment`] gives the same [`Outcome`], bit
//! for bit, on every machine.

mod bundles;
mod check;
mod connection;
mod datagrams;
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
mod sendboxes;
mod simulation;
mod sizes;
mod traffic;

pub use bundles::{BundleSnapshot, MAX_BUNDLES};
pub use check::{
    BoxError, ConfigError, ConfigErrors, EdgeError, FlowError, GeneralError, MAX_FLOWS, MAX_NODES,
    MAX_SAMPLES, PathIndex, check,
};
pub use ecn::negotiated_ecn;
pub use estimate::{MAX_MEMORY_BYTES, MAX_TURNS};
pub use fairwater_bundle::{Mode as BundleMode, SendBundleStatus};
pub use fairwater_edge::EdgeStatistics;
pub use fairwater_edge::buffer::BufferStatistics;
pub use fairwater_experiment::{
    Balancing, BundleConfig, Controller, Ecn, Edge, EdgeId, EdgeMode, EdgeTreatment, Experiment,
    FlowConfig, MAX_RECEIVE_WINDOW, Measure, Native, NodeId, Path, PlaneConfig, SAMPLE_BUDGET,
    SizeCdf, SizeError, TcpConfig, Traffic,
};
pub use observer::{Captured, Observer, PacketOutcome};
pub use outcome::{
    BoxOutcome, BundleOutcome, BundleSample, EdgeOutcome, EdgeSample, Fallback, FlowOutcome,
    Outcome, Quantiles, Request, Sample, SendboxOutcome, SendboxSample,
};
pub use plane_link::capabilities;
pub use simulation::{CommandError, EdgeSnapshot, FlowSnapshot, Simulation, SimulationError, run};
