//! A deterministic simulator: virtual time, [`fairwater_net`]'s queues and links, and TCP senders
//! that algorithms drive through [`fairwater_datapath`] and [`fairwater_plane`] as they drive real
//! ones, the link between the two included. The same [`Config`] gives the same [`Outcome`], bit
//! for bit, on every machine.

mod check;
mod config;
mod connection;
mod edges;
mod events;
mod flow;
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
pub mod tcp;
mod traffic;

pub use check::{
    ConfigError, ConfigProblem, EdgeProblem, FlowProblem, GeneralProblem, MAX_FLOWS, MAX_NODES,
    MAX_RECEIVE_WINDOW, MAX_SAMPLES, SizeProblem, Way,
};
pub use config::{
    Balancing, Config, Ecn, Edge, EdgeId, FlowConfig, Governor, Measure, Native, NodeId, Path,
    PlaneConfig, SizeCdf, TcpConfig, Traffic,
};
pub use observer::{Captured, Fate, Observer};
pub use outcome::{EdgeOutcome, EdgeSample, FlowOutcome, Outcome, Quantiles, Request, Sample};
pub use simulation::{CommandError, EdgeReading, FlowReading, Simulation, SimulationError, run};
