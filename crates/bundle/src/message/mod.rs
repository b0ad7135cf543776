//! Messages between the two boxes of a bundle: one UDP datagram each, authenticated, in either direction.
//!
//! Numbers are big-endian. Each message is
//!
//! | bytes | field |
//! | --- | --- |
//! | 0–1 | `FB` |
//! | 2 | version, 1 |
//! | 3 | kind: 1 epoch size, 2 feedback, 3 greeting |
//! | 4–7 | the bundle's number |
//! | 8–15 | instance of the sender: random, another after each restart |
//! | 16–23 | instance of the receiver as the sender knows it; 0 before it knows one |
//! | 24–31 | number of the message in this instance, from 1 |
//! | then | the kind's own fields |
//! | last 16 | keyed BLAKE3 of all before, cut to 128 bits |
//!
//! An **epoch size** (sendbox to receivebox) has k in one byte and seven bytes of 0. A **feedback** (receivebox to
//! sendbox) has, in eight bytes each, the boundary's hash, the receivebox's counters of bytes, packets, bytes with CE
//! and packets with CE up to that packet, and the packet's receive time there in ns; then its k in one byte and seven
//! bytes of 0. A **greeting** (receivebox to sendbox) has the fields of a feedback without a boundary: it tells the
//! receivebox's instance to a sendbox that does not know it.
//!
//! The key differs by bundle and direction. BLAKE3 has a keyed mode that is a MAC by design, so no construction has
//! to be chosen around it, and deriving the keys is part of it; SipHash's 64 bits suffice for boundaries, but not
//! against forgeries that may be tried for years.

mod channel;
mod code;
mod refusal;
mod replay;

pub use channel::{Channel, ChannelConfig};
pub(crate) use code::bundle_of;
pub use code::{MAX_MESSAGE_BYTES, Message};
pub use refusal::{Refusal, RefusalCounts};
pub use replay::ReplayWindow;

use fairwater_net::Time;

use crate::{Boundary, EpochSize};

/// What a receivebox has counted of a bundle since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceiveCounters {
    /// Bytes of IP packets.
    pub bytes: u64,
    /// Packets on the wire.
    pub packets: u64,
    /// Bytes of packets with ECN's CE.
    pub ce_bytes: u64,
    /// Packets with ECN's CE.
    pub ce_packets: u64,
}

/// What a receivebox tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feedback {
    /// The boundary packet.
    pub boundary: Boundary,
    /// The counters when it was received, the packet included.
    pub counters: ReceiveCounters,
    /// When it was received, by the receivebox's clock: differences mean something, the value nothing.
    pub received_at: Time,
    /// The receivebox's N.
    pub epoch: EpochSize,
}
