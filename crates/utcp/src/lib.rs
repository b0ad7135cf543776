//! TCP in user space on the wire: [`fairwater_tcp`]'s sender and receiver with 32-bit sequence numbers, options,
//! checksums, bytes and states, as a datapath of the plane. Sans-IO: packets and the time go in, packets come out.
//!
//! [`Connection`] is one TCP connection (RFC 9293). [`Endpoint`] is a host: it finds connections by the addresses of
//! packets, accepts new ones, and makes each a flow of a [`fairwater_datapath::Datapath`]. [`io`] moves their packets
//! to and from a device.
//!
//! Offsets of the stream are 64-bit inside, as in [`fairwater_tcp`]; `numbers` turns them into sequence numbers and
//! back at the edge. It is the data path of a server, not a socket API: one thread, no system calls, no keep-alive.
//!
//! Two hosts, whose packets here go straight from one to the other:
//!
//! ```
//! use fairwater_datapath::{Config, Datapath};
//! use fairwater_net::Time;
//! use fairwater_proto::Dialect;
//! use fairwater_utcp::{Endpoint, EndpointConfig};
//!
//! let mut host = |key: u8| {
//!     let mut datapath = Datapath::new(Config::default());
//!     let plane = datapath.add_peer(Dialect::Own, 0);
//!     let config = EndpointConfig { key: [key; 16], ..EndpointConfig::default() };
//!     (Endpoint::new(config, plane), datapath)
//! };
//! let ((mut client, mut its_flows), (mut server, mut flows)) = (host(1), host(2));
//! server.listen("192.0.2.1:80".parse()?, "cubic");
//! let now = Time::from_millis(1);
//! let own = "192.0.2.2:40000".parse()?;
//! let connection = client.connect(now, own, "192.0.2.1:80".parse()?, "cubic")?;
//! client.write(connection, b"hello")?;
//!
//! let mut packet = [0; 1500];
//! let mut is_moving = true;
//! while is_moving {
//!     is_moving = false;
//!     while let Some(length) = client.poll_transmit(now, &mut packet) {
//!         server.on_packet(now, &mut flows, &packet[..length]);
//!         is_moving = true;
//!     }
//!     while let Some(length) = server.poll_transmit(now, &mut packet) {
//!         client.on_packet(now, &mut its_flows, &packet[..length]);
//!         is_moving = true;
//!     }
//! }
//! let accepted = server.accept().ok_or("no connection")?;
//! let mut bytes = [0; 10];
//! let length = server.read(accepted, &mut bytes)?;
//! assert_eq!(&bytes[..length], b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod buffers;
mod config;
mod connection;
mod endpoint;
mod error;
mod icmp;
pub mod io;
mod numbers;
mod reset;
mod state;
mod statistics;

pub use config::{Config, EndpointConfig};
pub use connection::{Connection, Numbers};
pub use endpoint::{ConnectionId, Endpoint};
pub use error::{CloseReason, ConnectError, StreamError};
pub use state::State;
pub use statistics::Statistics;

/// What a connection's configuration and events are made of.
pub use fairwater_tcp::{Controls, Counters, Ecn, Invocation, TcpConfig};

use fairwater_datapath::Signal;
use fairwater_proto::{SignalQualities, SignalQuality};

/// How well a user-space TCP knows the signals: it is the sender, so all are exact but the marks of RFC 3168, whose
/// echo says that there was one in a round trip and not how many, as on Linux.
#[must_use]
pub fn signal_qualities() -> SignalQualities {
    let degraded = [Signal::EcnBytes, Signal::EcnPackets];
    degraded.into_iter().fold(
        SignalQualities::exact(fairwater_lang::SignalSet::ALL),
        |all, signal| all.with(signal, SignalQuality::Degraded),
    )
}
