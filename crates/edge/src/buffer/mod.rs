//! Buffering: the box holds a copy of what a guest has sent and the peer has not acknowledged, carries it to the peer
//! as the algorithm says, and repairs losses itself (vCC §2, "Buffer packets"; Mystique §3.3).
//!
//! The guest's data becomes a stream of bytes, and a [`Sender`](fairwater_tcp::Sender) of the crate `tcp` cuts the
//! stream into segments again: cwnd, pacing, scoreboard, RACK-TLP (RFC 8985) and RTO (RFC 6298) are that sender's.
//! So a GSO super-packet leaves in segments of at most the MSS, and small writes of the guest that wait leave
//! together. Sequence numbers stay the guest's.
//!
//! - **Nothing is acknowledged early**: only ACKs of the peer reach the guest. Whatever becomes of the box, the guest
//!   still has all that the peer has not, and packets then pass.
//! - **What the guest does not see**: duplicate ACKs, selective acknowledgements and ECN echoes of what the box
//!   repairs. Duplicates count as such only if they bring no wider window and if the guest has not sent something
//!   that was acknowledged before, as it does when it has missed an ACK.
//! - **What the guest sends again** and the box holds goes no further.
//! - **Timestamps** stay the guest's, see `Clock`. The box measures round trips by segments that were sent once (RFC
//!   6298 §3).
//! - **FIN** leaves behind the data. **RST** lets go of the connection: all that is held leaves at once, then the RST.
//!   Pure ACKs, keepalives and window probes pass at once, with the sequence number that the network knows. Urgent
//!   data stays marked. Data in a SYN passes; the box holds what comes after it.
//! - **What the box lacks** is the guest's to send again: duplicate ACKs of data from before the box held anything
//!   pass. Where a packet of the guest was lost before the box, the box answers what comes after with duplicate ACKs
//!   as soon as all before the gap is acknowledged (vCC §2, "Duplicate ACKs"), and when it lets go of a connection with
//!   a loss, it sends the guest three that it had hidden.
//!
//! A connection goes back to the mode of windows ([`ReturnReason`]) if memory is short, if its plane is gone, or if
//! what the box sends again does not arrive.

mod buffers;
mod clock;
mod echo;
mod flow;
mod held;
mod packets;
mod stream;
mod template;

use std::time::Duration;

pub(crate) use buffers::Buffers;
pub use buffers::{BufferStatistics, Outgoing};
pub(crate) use echo::echo_marks;
pub(crate) use flow::BufferedFlow;
pub use held::Held;
pub(crate) use packets::Passing;

use fairwater_lang::{Signal, SignalSet};
use fairwater_proto::{SignalQualities, SignalQuality};

/// How much a box holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferConfig {
    /// Most bytes of one connection. The guest is told of a window that ends there.
    pub max_flow_bytes: usize,
    /// Most bytes of all connections. Beyond that the connection that is held longest goes back to windows.
    pub max_bytes: usize,
    /// Least retransmission timeout of the box (vCC §2: its own, whatever the guest's is).
    pub min_rto: Duration,
}

impl Default for BufferConfig {
    fn default() -> Self {
        Self {
            max_flow_bytes: 4 << 20,
            max_bytes: 256 << 20,
            min_rto: Duration::from_millis(200),
        }
    }
}

/// Why a connection that was held is not any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReturnReason {
    /// All connections together took too much memory. It stays in the mode of windows.
    Memory,
    /// What the box sent again did not arrive, timeout after timeout. It stays in the mode of windows.
    Stalled,
    /// Nobody controls it: its plane is silent. It is held again when the plane is back.
    Released,
    /// An end has reset the connection.
    Reset,
}

impl ReturnReason {
    /// How many there are.
    pub const COUNT: usize = 4;

    /// Its place among all.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// What a controlled connection's buffer is.
#[derive(Debug, Default)]
pub(crate) enum Buffering {
    /// Nothing is held; the guest's next new data may be.
    #[default]
    Idle,
    Held(Box<BufferedFlow>),
    /// Nothing is held any more.
    Ended,
}

/// How well the signals are known to a box that buffers: the box is the sender. A box with connections in both modes
/// has the lesser qualities, [`track::signal_qualities`](crate::track::signal_qualities).
#[must_use]
pub fn signal_qualities() -> SignalQualities {
    use SignalQuality::{Degraded, Exact, Inferred};
    let quality = |signal| match signal {
        // The peer echoes as RFC 3168 says; without timestamps of its own only D-SACKs tell the box of vain repairs.
        Signal::EcnBytes | Signal::EcnPackets | Signal::Undo => Degraded,
        // The box knows that it has nothing to send, not whether the guest's application or its window is to blame.
        Signal::AppLimited => Inferred,
        _ => Exact,
    };
    Signal::ALL
        .into_iter()
        .fold(SignalQualities::exact(SignalSet::EMPTY), |all, signal| {
            all.with(signal, quality(signal))
        })
}
