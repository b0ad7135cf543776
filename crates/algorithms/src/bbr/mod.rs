//! BBR: a model of the path's bandwidth and RTT, measured, and a sender that paces by it.
//!
//! Both versions share the program (`program.ccp`), what the plane keeps of the path ([`model`]), the
//! gain of cwnd, and ProbeRTT. Each version is a state machine of its own.

mod cwnd_gain;
mod datapath;
mod model;
mod probe_rtt;
pub(crate) mod v1;
pub(crate) mod v3;

pub use v1::{Bbr, BbrConfig};
pub use v3::{Bbr3, Bbr3Config};
