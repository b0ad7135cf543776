//! A plane for datapaths behind links: any number of them, in either dialect.
//!
//! [`Service`] is the whole protocol, sans I/O: packets of peers and the time in, packets out.
//! It joins each peer's flows to the slots of one [`Plane`](fairwater_plane::Plane), installs programs
//! where they are first needed, repeats the sign of life, and refuses what is wrong by a counted
//! reason. Nothing that a peer says touches another peer's flows or programs, unless an algorithm
//! [aggregates](fairwater_plane::Algorithm::aggregate_by) flows whosever they are, and a peer that
//! does not read costs one merged command per flow. [`Server`] is the loop around it: Unix
//! datagrams as CCP has them, Unix seqpacket, and rings in shared memory.
//!
//! ```
//! use fairwater_service::{Config, Service};
//! use fairwater_plane::{Plane, SignalSet};
//! use fairwater_proto::{Dialect, Hello, ToDatapath, ToPlane};
//!
//! let mut service = Service::new(Plane::new("served", SignalSet::ALL), Config::default());
//! let peer = service.connect(0)?;
//! let hello = Hello { name: "demo", instance: 1, signals: SignalSet::ALL, max_programs: 8 };
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
mod deferred_commands;
mod libccp_programs;
mod merged_command;
mod notice;
mod outgoing;
mod peer;
mod receive;
mod server;
mod service;
mod slots;
mod statistics;

pub use notice::ServiceNotice;
pub use peer::PeerId;
pub use server::{Endpoints, Server, Stopper};
pub use service::{Config, PeerSnapshot, Service, ServiceFull};
pub use statistics::ServiceStatistics;
