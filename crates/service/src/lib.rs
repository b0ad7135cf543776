//! One plane for every datapath of a host: any number of them, in this process or behind links.
//!
//! A *direct* datapath registers what it has and can do ([`Service::register`]), hands over events
//! and takes commands, without messages: [`DirectDatapath`] in a [`Server`]'s loop. Algorithms that
//! it cannot run are refused there, by name and reason, and go on elsewhere.
//!
//! For datapaths behind *links*, [`Service`] is the whole protocol, sans I/O: packets of peers and
//! the time in, packets out. It joins each peer's flows to the slots of one
//! [`Plane`](fairwater_plane::Plane), installs programs where they are first needed, repeats the sign of life, and refuses what is wrong by a counted
//! reason. Nothing that a peer says touches another peer's flows or programs, unless an algorithm
//! [aggregates](fairwater_plane::Algorithm::aggregate_by) flows whosever they are, and a peer that
//! does not read costs one merged command per flow. [`Server`] is the loop around both: Unix
//! datagrams as CCP has them, Unix seqpacket, and rings in shared memory.
//!
//! ```
//! use fairwater_service::{Config, Service};
//! use fairwater_plane::Plane;
//! use fairwater_proto::{Capabilities, Dialect, Hello, ToDatapath, ToPlane};
//!
//! let mut service = Service::new(Plane::new(), Config::default());
//! let peer = service.connect(0)?;
//! let hello = Hello { name: "demo", instance: 1, capabilities: Capabilities::ALL };
//! let mut packet = Vec::new();
//! Dialect::Own.encode_to_plane(&ToPlane::Hello(hello), &mut packet)?;
//! service.on_packet(peer, &packet, 10);
//!
//! let (to, answer) = service.poll_transmit().ok_or("no answer")?;
//! assert_eq!(to, peer);
//! let answer = Dialect::Own.to_datapath(answer).next();
//! assert!(matches!(answer, Some(Ok(ToDatapath::Welcome(_)))));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod catalogue;
mod command_queue;
mod conformance;
mod deferred_commands;
mod direct;
mod flow_status;
mod incident;
mod libccp_programs;
mod matching;
mod merged_command;
mod notice;
mod outgoing;
mod peer;
mod policy;
mod receive;
mod report_log;
mod server;
mod service;
mod slots;
mod statistics;
pub mod switching;

pub use direct::{DatapathId, DatapathSnapshot, NotServed};
pub use flow_status::{FlowCounts, FlowMeasures, FlowStatus};
pub use incident::{Incident, ReportRecord};
pub use matching::{Obstacle, obstacles};
pub use notice::ServiceNotice;
pub use peer::PeerId;
pub use policy::{Policy, PolicyKey, Rule};
pub use server::{DirectDatapath, Endpoints, Port, Server, Stopper};
pub use service::{Config, HandOverError, PeerSnapshot, Service, ServiceFull};
pub use statistics::ServiceStatistics;
