//! Which algorithm controls a flow, by what is measured of it, with hysteresis (Mystique §3.4).
//!
//! Sans-IO: a [`Selector`] is told of a flow's measures at intervals, and says when another algorithm should
//! control the flow. Who asks carries that out.

#![deny(unsafe_code)]

mod condition;
mod selector;
mod windowed;

pub use condition::{Condition, Measure};
pub use selector::{Clause, Selector, SelectorConfig, Switch};

use fairwater_net::Time;

/// What was measured of a flow since the last measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Measures {
    /// When.
    pub now: Time,
    /// RTT now, µs; 0 if it is not known.
    pub rtt_us: u64,
    /// Least RTT of the path, µs; 0 if it is not known.
    pub min_rtt_us: u64,
    /// Packets that were acknowledged since the last measures.
    pub acked_packets: u64,
    /// Packets that were lost since the last measures.
    pub lost_packets: u64,
    /// Packets that were marked with CE since the last measures.
    pub marked_packets: u64,
}
