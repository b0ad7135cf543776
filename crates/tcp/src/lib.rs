//! TCP, sans-IO: segments and the time go in, segments, signals and timers come out.
//!
//! Sequence numbers are 64-bit offsets of the stream: nothing wraps. SYN takes none, FIN takes the
//! one after the last byte. Neither side knows what a congestion control is: the sender says what
//! it measured and is told cwnd and rate.
//!
//! After each event the caller takes the [`Invocation`], if there is one, to the controller and its
//! answer to [`Sender::set_controls`]; then it polls for segments until there are no more.

mod config;
mod invocation;
mod pacing;
mod rack;
mod rate;
mod reassembly;
mod receiver;
mod rtt;
mod scoreboard;
mod sender;

pub use config::{Ecn, MAX_RECEIVE_WINDOW, TcpConfig};
pub use invocation::{Cause, Controls, Invocation, State};
pub use receiver::Receiver;
pub use sender::{Counters, Sender};

use fairwater_net::Time;
use smallvec::SmallVec;

/// Bytes of headers on each packet: IPv4's 20, TCP's 20, and 12 of timestamps, as Linux sends.
pub const HEADERS: u32 = 52;

/// A range of the stream, `start` included and `end` not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Block {
    /// The first byte.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
}

/// What travels between the two sides: one IP packet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Segment {
    /// Opens the connection.
    pub syn: bool,
    /// The sender has no more after this.
    pub fin: bool,
    /// Offset of the first payload byte.
    pub seq: u64,
    /// Payload bytes.
    pub len: u32,
    /// The next byte that is expected, cumulative; meaningful on what the receiver sends.
    pub ack: u64,
    /// Selective acknowledgements, the latest first; a duplicate (RFC 2883) before them.
    pub sack: SmallVec<[Block; 4]>,
    /// The receive window, bytes from `ack`, scaling applied.
    pub window: u64,
    /// The sender's clock (RFC 7323), and on the way back the clock that is echoed.
    pub timestamp: Time,
    /// A queue may mark it instead of dropping it: ECT(0) is set (RFC 3168 §5).
    pub ect: bool,
    /// Congestion experienced is echoed (RFC 3168 §6.1); on a SYN with `cwr`, ECN is offered, and on the answer
    /// agreed to.
    pub ece: bool,
    /// The sender has reduced its window (RFC 3168 §6.1).
    pub cwr: bool,
    /// Segments and payload bytes that arrived marked, since the beginning (accurate ECN).
    pub ce_packets: u64,
    /// See `ce_packets`.
    pub ce_bytes: u64,
}

impl Segment {
    /// The offset after this segment, FIN included.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.seq
            .saturating_add(u64::from(self.len) + u64::from(self.fin))
    }
}
