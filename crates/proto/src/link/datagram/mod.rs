//! Unix datagrams, as CCP uses them: the agent has one socket at a path, `/tmp/ccp/portus` by
//! CCP's convention, each datapath has its own, and replies go to the path that a packet came
//! from.
//!
//! A path says nothing about who sends from it: sockets of several users can have been bound at one
//! path in turn. So the kernel attaches its user to each packet (`SO_PASSCRED`), and a peer is an
//! address and a user, [`Sender`].
//!
//! A socket's queue holds 10 packets unless `net.unix.max_dgram_qlen` says more, so that
//! [`LinkError::WouldBlock`](super::LinkError::WouldBlock) is ordinary here. portus reads packets
//! of up to 1,024 bytes, libccp's examples of up to 32,678.

mod batch;
mod datapath;
mod peer;
mod plane;
mod read_window;

pub use batch::Batch;
pub use datapath::Datapath;
pub use peer::{Peer, Presence};
pub use plane::{Address, PlaneSocket, Sender};

/// Where CCP's agent is by convention.
pub const CCP_AGENT: &str = "/tmp/ccp/portus";
