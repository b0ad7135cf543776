//! How connections and endpoints behave.

use std::time::Duration;

use fairwater_tcp::{Ecn, TcpConfig};

/// How a connection behaves.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// How its sender and receiver behave. `mss` and `handshake` are set by the handshake; `sack`, `timestamps` and
    /// `ecn` are offered, and in force if the peer agrees. [`Ecn::Accurate`] has no encoding here and counts as
    /// [`Ecn::Classic`].
    pub tcp: TcpConfig,
    /// Largest IP packet of the device, bytes.
    pub mtu: u16,
    /// Most bytes that were written and are not acknowledged.
    pub send_buffer: usize,
    /// Times a SYN is sent again, and a SYN-ACK: Linux's `tcp_syn_retries` and `tcp_synack_retries`.
    pub syn_retries: u32,
    /// See `syn_retries`.
    pub syn_ack_retries: u32,
    /// Timeouts and window probes in a row that the peer may leave unanswered (RFC 9293 §3.8.3's R2; Linux's
    /// `tcp_retries2`).
    pub retries: u32,
    /// 2 MSL: how long a connection stays in TIME-WAIT (RFC 9293 §3.6; Linux has 60 s).
    pub time_wait: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tcp: TcpConfig {
                receive_window: 4 << 20,
                ecn: Ecn::Off,
                ..TcpConfig::default()
            },
            mtu: 1500,
            send_buffer: 4 << 20,
            syn_retries: 6,
            syn_ack_retries: 5,
            retries: 15,
            time_wait: Duration::from_secs(60),
        }
    }
}

/// How a host behaves.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointConfig {
    /// How its connections behave.
    pub connection: Config,
    /// Most connections, those in TIME-WAIT included.
    pub max_connections: usize,
    /// Most connections whose handshake a peer began and did not end: further SYNs are dropped and counted. There are
    /// no SYN cookies.
    pub max_half_open: usize,
    /// Secret key of initial sequence numbers and timestamp offsets (RFC 6528 §3, RFC 7323 §5.4): random bytes, others
    /// at each start.
    pub key: [u8; 16],
}

impl Default for EndpointConfig {
    /// The key is no secret: set it.
    fn default() -> Self {
        Self {
            connection: Config::default(),
            max_connections: 1 << 16,
            max_half_open: 1024,
            key: [0; 16],
        }
    }
}
