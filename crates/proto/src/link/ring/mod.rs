//! Packets through memory that two processes share.
//!
//! A datapath connects to a Unix seqpacket socket. The plane makes one memory file, which cannot
//! shrink, for two rings, and one event file for each direction, the *wakeup*, and passes all three over the
//! connection, which from then on only tells that the peer is gone.
//!
//! The consumer of a ring says when it waits, and only then does the producer ring, for ringing
//! and being woken cost more than everything else: see [`spin`](super::spin).
//!
//! The event file is signalled by adding 0 to its counter, which is never read and stays at 1: whoever waits
//! for the edge is woken, and a peer cannot make ringing block by filling the counter.

#[cfg(not(loom))]
mod connection;
#[cfg(not(loom))]
mod handshake;
#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(not(loom))]
mod mapping;
pub(super) mod memory;
pub(super) mod spsc;
#[cfg(all(test, not(loom)))]
mod spsc_tests;
#[cfg(not(loom))]
mod wakeup;

#[cfg(not(loom))]
pub use connection::{Listener, Ring};
#[cfg(not(loom))]
pub(super) use wakeup::Wakeup;

/// Bytes of packets that each direction holds unless told otherwise: little enough to stay in a
/// processor's second-level cache.
pub const DEFAULT_CAPACITY: usize = 1 << 18;

/// The least and the most that a direction may hold, bytes: a longest packet must fit.
pub const CAPACITIES: std::ops::RangeInclusive<usize> = 1 << 18..=1 << 30;
