//! A deterministic simulator: virtual time, [`fairwater_net`]'s queues and links, and TCP senders
//! that algorithms drive through [`fairwater_datapath`] and [`fairwater_plane`] as they drive real
//! ones, the link between the two included. The same [`Config`] gives the same [`Outcome`], bit
//! for bit, on every machine.

mod config;
pub mod native;
mod outcome;
pub mod tcp;

pub use config::{
    Balancing, Config, Ecn, Edge, EdgeId, FlowConfig, Governor, Measure, Native, NodeId, Path,
    PlaneConfig, SizeCdf, TcpConfig, Traffic,
};
pub use outcome::{EdgeOutcome, EdgeSample, FlowOutcome, Outcome, Quantiles, Request, Sample};
