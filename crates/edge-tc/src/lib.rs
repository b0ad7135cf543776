//! The edge's data plane in the kernel: programs for tc at the host's side of a guest's port, held to
//! [`fairwater_edge`] packet by packet.
//!
//! ```text
//!   guest ──▶ fw_from_guest ──────────────────────────┐
//!                  │ silence, then una again          ├──▶ network
//!                  ▼                                  │
//!            flow's program ──▶ fw_enforce ───────────┘
//!                  ▲
//!                  │ ACK
//!   guest ◀── fw_to_guest ◀── network            (rewritten by fw_enforce)
//! ```
//!
//! [`Programs::load`] loads the programs and their maps. The caller attaches [`Programs::from_guest`] and
//! [`Programs::to_guest`] to interfaces, installs the flows' programs ([`Programs::target`]), and runs the
//! plane's side by [`fairwater_kernel`]: frames, ring and page are as those of any kernel datapath. Rules say
//! which connections are controlled ([`Programs::set_rules`]); without rules all are measured only.
//!
//! `bpf/` has a file for each module of [`fairwater_edge`] that it follows, which is the definition.
//!
//! # Not as in `fairwater_edge`
//!
//! - Connections that are opening share one LRU map: a flood at one port may displace those of another.
//! - Open connections have no share of the table per port.
//! - A hop-by-hop header of IPv6 is searched for a jumbo option up to its 64th option.

#![deny(unsafe_code)]

mod buffered;
mod connections;
mod datapath;
mod edge_error;
mod error;
mod followed;
mod host;
mod kernel_side;
mod layout;
mod options;
mod ports;
mod programs;
mod rules;
mod skeleton;
mod state;
mod tcx;

pub use buffered::BufferedStatistics;
pub use connections::{ConnectionState, DescribedConnection};
pub use datapath::{EdgeTc, capabilities, not_in_kernel};
pub use edge_error::EdgeError;
pub use error::TcError;
pub use fairwater_kernel::{Outcome, run};
pub use host::Entry;
pub use layout::MAX_RULES;
pub use options::EdgeOptions;
pub use ports::PortChange;
pub use programs::{Options, Programs};
pub use rules::{Control, Prefix, Rule, RuleVlan};
pub use state::{Connection, Controlled, Fate};
