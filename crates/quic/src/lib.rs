//! QUIC stacks as datapaths: congestion controllers for noq, quinn and s2n-quic whose programs come
//! from a plane.
//!
//! One line in a server or client gives all of its connections to an algorithm:
//!
//! ```
//! # #[cfg(feature = "noq")] {
//! # fn main() -> Result<(), fairwater_quic::QuicError> {
//! let mut transport = noq_proto::TransportConfig::default();
//! transport.congestion_controller_factory(fairwater_quic::noq("copa")?);
//! # Ok(()) } main().unwrap() }
//! ```
//!
//! The programs run in the stack's own threads, as machine code, at each ACK frame. The algorithm
//! runs in `fairwater up` or `fairwater serve`, by rings in shared memory, or in this process
//! ([`Options::embedded`]). Without a plane, connections run under Cubic; a plane that comes, or comes
//! back, takes them.
//!
//! What each stack can tell an algorithm, and what it enforces, is in `docs/quic.md` and
//! [`Stack::signals`].

#[cfg(any(feature = "transfer", feature = "virtual-time"))]
pub mod certificate;
#[cfg(test)]
mod conformance;
mod datapath;
mod embedded;
mod factory;
#[cfg(any(feature = "noq", feature = "quinn"))]
mod flight;
mod handle;
mod keeper;
mod lockstep;
#[cfg(feature = "noq")]
mod noq;
mod path_flow;
#[cfg(feature = "quinn")]
mod quinn;
mod rate;
#[cfg(feature = "s2n")]
mod s2n;
mod stack;
#[cfg(feature = "transfer")]
pub mod transfer;
#[cfg(feature = "virtual-time")]
pub mod virtual_time;

pub use factory::{Factory, FactoryStatus, Options, QuicError};
pub use fairwater_algorithms::Choice as Algorithm;
pub use fairwater_plane::CarefulResumeConfig;
pub use handle::{DeliveryRate, Handle};
#[cfg(feature = "noq")]
pub use noq::NoqController;
#[cfg(feature = "quinn")]
pub use quinn::{QuinnController, QuinnFactory};
#[cfg(feature = "s2n")]
pub use s2n::{S2nController, S2nEndpoint};
pub use stack::Stack;

#[cfg(feature = "noq")]
use std::sync::Arc;

/// Controllers for noq that run this algorithm of the host's plane: see [`Options::noq`].
///
/// # Errors
/// See [`Options::noq`].
#[cfg(feature = "noq")]
pub fn noq(algorithm: &str) -> Result<Arc<Factory>, QuicError> {
    Options::default().noq(algorithm)
}

/// Controllers for quinn that run this algorithm of the host's plane: see [`Options::quinn`].
///
/// ```
/// # fn main() -> Result<(), fairwater_quic::QuicError> {
/// let mut transport = quinn_proto::TransportConfig::default();
/// transport.congestion_controller_factory(fairwater_quic::quinn("copa")?);
/// # Ok(()) }
/// ```
///
/// # Errors
/// See [`Options::quinn`].
#[cfg(feature = "quinn")]
pub fn quinn(algorithm: &str) -> Result<std::sync::Arc<QuinnFactory>, QuicError> {
    Options::default().quinn(algorithm)
}

/// Controllers for s2n-quic that run this algorithm of the host's plane: see [`Options::s2n`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = s2n_quic::Server::builder();
/// let server = server.with_congestion_controller(fairwater_quic::s2n("copa")?)?;
/// # let _ = server;
/// # Ok(()) }
/// ```
///
/// # Errors
/// See [`Options::s2n`].
#[cfg(feature = "s2n")]
pub fn s2n(algorithm: &str) -> Result<S2nEndpoint, QuicError> {
    Options::default().s2n(algorithm)
}
