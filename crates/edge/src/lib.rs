//! Congestion control for guests that nobody can change, from the packets at a host's edge (vCC, Cronkite-Ratcliff
//! et al., SIGCOMM 2016; Mystique, Zhang et al., ANRW 2018). Sans-IO: packets go in with the time.
//!
//! [`track`] finds the connections of guests in the packets of both directions, bounded in memory, and derives
//! the signals of programs from them: what is known exactly, what is inferred, and what no box can know is said
//! by [`track::signal_qualities`].

#![deny(unsafe_code)]

mod edge;
pub mod enforce;
mod governor;
mod key;
mod policy;
mod segment;
pub mod track;

pub use edge::{DEFAULT_GRACE, Edge, EdgeStatistics, PortPacket, Verdict};
pub use governor::{Fate, Governed};
pub use key::{Direction, FlowKey};
pub use policy::{Exemption, Policy, Treatment};
pub use segment::Segment;
