//! A flow's name and what is known of it.

use core::net::SocketAddr;

/// One flow of one datapath: a slot, and a generation that distinguishes its successive flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId {
    /// The datapath's slot, dense from 0.
    pub slot: u32,
    /// Changes each time the slot is given out again.
    pub generation: u32,
}

/// What is known of a flow when it starts, or when the plane takes it over while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowInfo {
    /// The local address and port, IPv4 or IPv6.
    pub local: SocketAddr,
    /// The remote address and port.
    pub remote: SocketAddr,
    /// Maximum segment size, bytes of payload.
    pub mss: u32,
    /// cwnd at this moment, bytes; the initial window for a new connection.
    pub cwnd: u64,
    /// Smoothed RTT so far, µs; 0 when none was measured.
    pub srtt_us: u64,
    /// The datapath's time, µs.
    pub now_us: u64,
    /// What the sender's host or application tells its flows apart by: `SO_MARK` on Linux. 0 is
    /// none, and what a datapath that knows of none says.
    pub tag: u32,
}
