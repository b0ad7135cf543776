//! The flow runtime for datapaths in user space: signals in, controls and messages out.
//!
//! Whoever writes a transport fills in what it measured at each ACK ([`Signal`]), calls
//! [`Datapath::invoke`], and applies the congestion window and the pacing rate that come back
//! (CCP §5.1). The programs that decide them come from a plane, by packets that the transport
//! carries back and forth; a fallback controls flows while there is no plane. Nothing here reads a
//! clock or touches a socket. With the feature `std`, `Connection` carries the packets too.
//!
//! ```
//! use fairwater_datapath::{Config, Datapath};
//! use fairwater_lang::{Signal, Signals, binary, compile};
//! use fairwater_proto::{Dialect, FlowInfo, ToDatapath, Updates, Welcome};
//!
//! // A datapath with one plane, and a flow that asks it for `counting`.
//! let mut datapath = Datapath::new(Config::default());
//! let plane = datapath.add_peer(Dialect::Own, 0);
//! let flow = datapath.start(plane, "counting", &FlowInfo {
//!     local: "192.0.2.1:4242".parse()?,
//!     remote: "[2001:db8::1]:443".parse()?,
//!     mss: 1448,
//!     cwnd: 14_480,
//!     srtt_us: 0,
//!     now_us: 0,
//!     tag: 0,
//!     ..FlowInfo::default()
//! })?;
//!
//! // Packets for the plane: a greeting, and the announcement of the flow.
//! while let Some((_, packet)) = datapath.poll_transmit(1400) {
//!     assert!(Dialect::Own.to_plane(packet).all(|message| message.is_ok()));
//! }
//!
//! // Its answer installs a program and switches the flow to it.
//! let source = "(def (Report (volatile acked 0)))
//!     (when true
//!       (:= Report.acked (+ Report.acked Ack.bytes_acked))
//!       (:= Cwnd (+ Cwnd Ack.bytes_acked))
//!       (report))";
//! let body = binary::encode(&compile("counting.ccp", source)?.program);
//! let mut answer = Vec::new();
//! for message in [
//!     ToDatapath::Welcome(Welcome { instance: 1, alive_us: 100_000 }),
//!     ToDatapath::Install { idle_restart: true, program: 1, body: &body },
//!     ToDatapath::Command {
//!         flow,
//!         switch: Some(1),
//!         cwnd: None,
//!         rate: None,
//!         updates: Updates::NONE,
//!         withdraw: false,
//!     },
//! ] {
//!     Dialect::Own.encode_to_datapath(&message, &mut answer)?;
//! }
//! datapath.on_message(plane, &answer, 20_000);
//!
//! // An ACK: what is to be enforced comes back when it has changed.
//! let mut signals = Signals::default();
//! signals[Signal::Now] = 20_000;
//! signals[Signal::BytesAcked] = 2896;
//! signals[Signal::RttSampleUs] = 19_500;
//! let controls = datapath.invoke(flow, &signals)?;
//! assert_eq!(controls.map(|c| c.cwnd), Some(17_376));
//!
//! // The program reported.
//! assert_eq!(datapath.statistics().reports, 1);
//! assert!(datapath.poll_transmit(1400).is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What controls a flow
//!
//! [`FlowState`] says it: a program of its plane's, or [`fallback`]. A flow begins under the
//! fallback ([`Config::fallback`]), and comes under it at its next ACK when its plane is silent. When the plane speaks
//! again, the flow is announced to it and waits, under the fallback still, for a program. After a
//! fault, a withdrawal, or the removal of its peer it stays there.
//!
//! # Several planes
//!
//! Each peer has its own flows, its own programs under numbers of its own choice, and its own
//! bounded queue: no peer can touch what is another's, or hold it up.

#![cfg_attr(not(any(feature = "std", feature = "native")), no_std)]

extern crate alloc;

mod announcements;
mod config;
#[cfg(feature = "std")]
mod connection;
mod datapath;
mod enforced;
pub mod fallback;
mod flow;
mod invoke;
mod messages;
mod observe;
mod outgoing;
mod peer;
#[cfg(feature = "std")]
mod plane_link;
mod program;
mod silence;
mod slab;
mod stage;
mod statistics;
mod transmit;

pub use config::{Backend, Config, MAX_FLOWS};
#[cfg(feature = "std")]
pub use connection::Connection;
pub use datapath::{ControlsError, Datapath, MssError, StartError, UnknownFlow};
pub use fairwater_lang::{Signal, Signals};
pub use fairwater_proto::Fallback;
pub use flow::{Controls, FlowState, FlowStatus};
pub use observe::{AppliedStage, Invocation, InvocationObserver, InvokedProgram};
pub use peer::PeerId;
#[cfg(feature = "std")]
pub use plane_link::PlaneLink;
pub use statistics::DatapathStatistics;
pub use transmit::MIN_PACKET;
