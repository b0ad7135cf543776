//! Ethernet, IP, TCP and UDP headers: read, written, and rewritten in place.
//!
//! [`Layout`] finds the headers of a packet once. [`Packet`] reads them, [`Rewriter`] changes fields in
//! place and keeps the checksums right, [`compose`] writes new packets. Nothing allocates, and no input
//! panics: what cannot be read is a [`ParseError`], whose reason a box in the path counts.
//!
//! ```
//! use fairwater_wire::{Checksum, Packet, Rewriter, Seq, TcpFlags, TcpOption, compose};
//!
//! let ip = compose::Ip::new("192.0.2.1".parse()?, "198.51.100.1".parse()?);
//! let tcp = compose::Tcp {
//!     source_port: 40_000,
//!     destination_port: 443,
//!     seq: Seq(7),
//!     flags: TcpFlags::SYN,
//!     window: 64_240,
//!     ..compose::Tcp::default()
//! };
//! let mut bytes = [0; 128];
//! let options = [TcpOption::Mss(1460), TcpOption::WindowScale(10)];
//! let length = compose::tcp(&ip, &tcp, &options, b"", Checksum::Complete, &mut bytes)?;
//! let bytes = &mut bytes[..length];
//!
//! let packet = Packet::parse_ip(bytes)?;
//! assert_eq!(packet.tcp().map(|tcp| tcp.seq()), Some(Seq(7)));
//!
//! // A SYN that offers ECN leaves (RFC 3168 §6.1.1), with a right checksum.
//! let layout = packet.layout();
//! let mut rewriter = Rewriter::new(bytes, layout, Checksum::Complete);
//! rewriter.set_flags(TcpFlags::ECE | TcpFlags::CWR, TcpFlags::NONE);
//! assert!(Packet::parse_ip(bytes)?.has_valid_checksums());
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

#![no_std]
#![deny(unsafe_code)]

mod bytes;
pub mod checksum;
pub mod compose;
mod ecn;
mod error;
mod ethernet;
mod ip;
mod layout;
mod packet;
mod rewrite;
mod seq;
mod tcp;
mod udp;

pub use checksum::Checksum;
pub use ecn::EcnCodepoint;
pub use error::ParseError;
pub use ethernet::{MAX_VLAN_TAGS, VlanTags};
pub use ip::Fragment;
pub use layout::{Layout, Transport};
pub use packet::Packet;
pub use rewrite::Rewriter;
pub use seq::Seq;
pub use tcp::{
    AccEcn, MAX_WINDOW_SCALE, OptionSummary, SackBlock, SackBlocks, Tcp, TcpFlags, TcpOption,
    TcpOptions,
};
pub use udp::Udp;
