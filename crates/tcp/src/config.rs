//! How TCP behaves.

use std::time::Duration;

/// The greatest receive window, bytes: RFC 7323 §2.3 shifts 16 bits by 14 at most.
pub const MAX_RECEIVE_WINDOW: u64 = 65_535 << 14;

/// How a TCP behaves; the default is Linux's where the RFCs leave a choice.
#[derive(Debug, Clone, PartialEq)]
pub struct TcpConfig {
    /// Bytes of data a segment, at most.
    pub mss: u32,
    /// Initial window, segments (RFC 6928).
    pub initial_window: u32,
    /// The receive window, bytes.
    pub receive_window: u64,
    /// Selective acknowledgements (RFC 2018, RFC 6675, RFC 8985).
    pub sack: bool,
    /// Proportional rate reduction (RFC 6937) of a native controller.
    pub prr: bool,
    /// RFC 6298 §2.4's least RTO, where the RFC says 1 s. As in Linux, which has 200 ms, it is the
    /// least of 4 × RTTVAR, so that the RTO is never less than this and SRTT.
    pub min_rto: Duration,
    /// How long an ACK is put off at most; zero acknowledges each segment (RFC 1122 §4.2.3.2).
    pub delayed_ack: Duration,
    /// How long the receiver holds selective ACKs back, from the fourth at one cumulative
    /// acknowledgement on; zero sends each at once (RFC 5681 §4.2). Linux has 1 ms, but at most a
    /// twentieth of the RTT.
    pub sack_delay: Duration,
    /// Explicit congestion notification that an end is willing to use; the handshake agrees on it.
    pub ecn: Ecn,
    /// Whether to pace even a controller that sets no rate, as Linux's `fq` does: 2 × cwnd / SRTT in
    /// slow start, 1.2 × after it.
    pub pace: bool,
    /// Whether cwnd falls back after a pause longer than an RTO (RFC 5681 §4.1).
    pub idle_restart: bool,
    /// Whether a connection begins with a handshake, one RTT, rather than with data.
    pub handshake: bool,
    /// Whether ACKs echo the sender's clock (RFC 7323). Without it a retransmitted segment gives no RTT sample
    /// (RFC 6298 §3), and only D-SACKs show that a reduction was spurious.
    pub timestamps: bool,
    /// Whether a small segment waits for the ACK of another (RFC 1122 §4.2.3.4).
    pub nagle: bool,
}

/// Explicit congestion notification of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ecn {
    /// None.
    #[default]
    Off,
    /// One echo an RTT (RFC 3168).
    Classic,
    /// Each mark is echoed at once (RFC 8257 §3.2).
    Dctcp,
    /// Marks are counted exactly by the receiver (RFC 9768's counters, without its encoding).
    Accurate,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            mss: 1448,
            initial_window: 10,
            receive_window: 16 << 20,
            sack: true,
            prr: true,
            min_rto: Duration::from_millis(200),
            delayed_ack: Duration::from_millis(40),
            sack_delay: Duration::ZERO,
            ecn: Ecn::Off,
            pace: false,
            idle_restart: true,
            handshake: true,
            timestamps: true,
            nagle: true,
        }
    }
}
