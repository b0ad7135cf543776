//! Congestion control for guests that nobody can change, from the packets at a host's edge (vCC, Cronkite-Ratcliff
//! et al., SIGCOMM 2016; Mystique, Zhang et al., ANRW 2018). Sans-IO: packets go in with the time.
//!
//! - [`track`] finds the connections of guests in the packets of both directions, bounded in memory, and derives
//!   the signals of programs from them. [`track::signal_qualities`] says which are exact, which are inferred, and
//!   which no box can know.
//! - [`enforce`] holds what keeps a guest to its algorithm: the receive window that the guest is told, and ECN
//!   that the box speaks for the guest.
//! - [`buffer`] holds the data of guests whose policy asks for it, and carries and repairs it in their place.
//! - [`Edge`] is the box. Each controlled connection is a flow of its [`Datapath`](fairwater_datapath::Datapath), so
//!   that programs and algorithms control guests as they control any sender. Without a plane the box steps aside.
//! - [`policy`] is the operator's file: which connections are controlled, and how.
//! - [`select`] chooses among algorithms by what is measured of a flow, with hysteresis.
//! - [`share`] divides the windows of a group of flows by weight.
//! - [`starved`] finds flows that starve beside marked traffic, for the policy to control.
//!
//! What the box does not understand, or must not touch ([`Exemption`]), passes as it came.
//!
//! # Not here yet
//!
//! - Pacing of ACKs to the guest (vCC §2, "Buffer ACKs"): the buffer paces the data instead.
//! - Packet-by-packet echoes (vCC A.7, [`Echo::EachMark`]) in the mode of buffers. Planes are told that the box
//!   negotiates no ECN for algorithms that require them: what the peer does, the SYNs do not tell.
//! - Guests that speak ECN themselves, normalised: they are exempt, unless their peer offers ECN under
//!   [`Echo::EachMark`].
//! - A window scale unit above one segment is rounded up without dithering: [`Treatment::max_scale`] avoids it.
//! - Reductions after RFC 6937 beside native ECN flows (vCC appendix B) are the program's to make.

#![deny(unsafe_code)]

pub mod buffer;
mod controlled;
mod divide;
mod edge;
pub mod enforce;
mod key;
pub mod policy;
mod segment;
pub mod select;
pub mod share;
pub mod starved;
pub mod track;

pub use controlled::{ControlledFlow, Fate};
pub use edge::{DEFAULT_GRACE, Edge, EdgeStatistics, PortPacket, Verdict};
pub use key::{Direction, FlowKey};
pub use policy::{Echo, EdgePolicy, Exemption, Mode, Policy, Treatment};
pub use segment::Segment;
