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
    /// The local address and port, IPv4 or IPv6; unspecified (`0.0.0.0:0`) where the flow has none or the
    /// datapath knows of none.
    pub local: SocketAddr,
    /// The remote address and port; unspecified likewise. A flow with a remote address and no local one is a
    /// bundle, and the address is its receivebox's.
    pub remote: SocketAddr,
    /// Maximum segment size, bytes of payload.
    pub mss: u32,
    /// cwnd at this moment, bytes; the initial window for a new connection.
    pub cwnd: u64,
    /// Pacing rate at this moment, bytes/s; 0 is none.
    pub rate: u64,
    /// Slow-start threshold, bytes, of a flow that has left slow start: its algorithm begins in
    /// congestion avoidance. `None` for a new flow.
    pub ssthresh: Option<u64>,
    /// Smoothed RTT so far, µs; 0 when none was measured.
    pub srtt_us: u64,
    /// The datapath's time, µs.
    pub now_us: u64,
    /// What the sender's host or application tells its flows apart by: `SO_MARK` on Linux. 0 is
    /// none, and what a datapath that knows of none says.
    pub tag: u32,
}

impl Default for FlowInfo {
    /// A new flow of which nothing is known: no addresses, Ethernet's segment size, and the initial
    /// window of RFC 6928 §2.
    fn default() -> Self {
        let unspecified = SocketAddr::from((core::net::Ipv4Addr::UNSPECIFIED, 0));
        Self {
            local: unspecified,
            remote: unspecified,
            mss: 1460,
            cwnd: 14_600,
            rate: 0,
            ssthresh: None,
            srtt_us: 0,
            now_us: 0,
            tag: 0,
        }
    }
}
