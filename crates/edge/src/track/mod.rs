//! Connections, from the packets that pass.

mod candidates;
mod flow;
mod handshake;
mod ranges;
mod rtt;
mod samples;
mod sender;
mod table;

pub use flow::{Event, Flow, Origin};
pub use handshake::{HalfOpen, Syn};
pub use sender::{Acked, Sender, Sent};
pub use table::{Ignored, Owner, Seen, Table, TableConfig};

use fairwater_lang::{Signal, SignalSet};
use fairwater_proto::{SignalQualities, SignalQuality};

/// What a connection's ends agreed upon about ECN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum EcnMode {
    /// Nothing.
    #[default]
    Off,
    /// ECE until CWR (RFC 3168), or packet by packet (RFC 8257): the SYNs do not tell which.
    Classic,
    /// Counters (RFC 9768).
    Accurate,
}

/// What a connection's SYNs say of the data from the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderConfig {
    /// Maximum segment size, bytes of payload.
    pub mss: u32,
    /// Whether the peer acknowledges selectively.
    pub sack: bool,
    /// ECN between the box and the peer.
    pub ecn: EcnMode,
}

/// How well the signals are known to a box that only sees packets pass.
#[must_use]
pub fn signal_qualities() -> SignalQualities {
    use SignalQuality::{Absent, Degraded, Exact, Inferred};
    let quality = |signal| match signal {
        Signal::Now | Signal::BytesAcked => Exact,
        // Classic ECN tells of one mark at least, ACE counts modulo 8.
        Signal::EcnBytes | Signal::EcnPackets => Degraded,
        // Some packets of each window are timed.
        Signal::RttSampleUs | Signal::RateIncoming | Signal::RateOutgoing => Degraded,
        Signal::Undo => Absent,
        _ => Inferred,
    };
    Signal::ALL
        .into_iter()
        .fold(SignalQualities::exact(SignalSet::EMPTY), |all, signal| {
            all.with(signal, quality(signal))
        })
}
