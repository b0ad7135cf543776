//! An invocation of the controller, and its answer.

use fairwater_lang::{Signal, Signals};

/// Why a controller is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// An acknowledgement was processed.
    Ack,
    /// A retransmission timeout (RFC 6298 §5): losses are marked, nothing is sent again yet.
    Timeout,
    /// The reordering timer found losses (RFC 8985 §6.2, step 5). Linux tells its own congestion
    /// controls, but none that have a `cong_control`, programs among them: those see the losses
    /// in the signals of the next ACK.
    LossTimer,
}

/// The sender's congestion state, as Linux's `icsk_ca_state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum State {
    /// Nothing unusual.
    #[default]
    Open,
    /// Something arrived out of order, nothing is known to be lost.
    Disorder,
    /// A reduction for another reason than a loss: an ECN echo (RFC 3168 §6.1.2).
    Cwr,
    /// Fast recovery (RFC 6675).
    Recovery,
    /// After a retransmission timeout, until what was out then is acknowledged.
    Loss,
}

/// What a controller is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Invocation {
    /// The signals of programs by [`Signal`]'s index, with the meaning that the Linux datapath
    /// gives them.
    pub signals: Signals,
    /// Time of the event, ns.
    pub now_ns: u64,
    /// Cause of the invocation.
    pub cause: Cause,
    /// The state after the event.
    pub state: State,
    /// cwnd in force, bytes. It may differ from the controller's last answer: after an undo
    /// (`undone`) or an idle restart (`idle_restart`).
    pub cwnd: u64,
    /// Bytes of data a segment, at most.
    pub mss: u32,
    /// Reductions asked for since the connection began: one an episode of congestion.
    pub reductions: u64,
    /// cwnd, bytes, when the last of them was asked for.
    pub reduced_from: u64,
    /// The last reduction proved spurious: cwnd is at least what it was before.
    pub undone: bool,
    /// cwnd before an idle restart reduced it, bytes; told once.
    pub idle_restart: Option<u64>,
    /// Segments newly delivered, in order or not, each counted once.
    pub delivered_packets: u64,
    /// Whether the cumulative acknowledgement advanced.
    pub advanced: bool,
    /// Segments newly declared lost.
    pub lost_packets: u64,
    /// Segments in flight (RFC 6675's pipe).
    pub in_flight_packets: u64,
    /// Data segments sent since the connection began, those sent again included.
    pub sent_packets: u64,
    /// cwnd held the sender back in this round trip.
    pub cwnd_limited: bool,
    /// Most segments outstanding in this round trip.
    pub max_packets_out: u64,
    /// The RTT sample of this ACK, ns.
    pub rtt_ns: Option<u64>,
    /// Whether segments are paced.
    pub paced: bool,
    /// Acknowledged in order up to this offset.
    pub acked: u64,
    /// The next offset to be sent for the first time.
    pub next: u64,
}

impl Invocation {
    /// Whether the plane's program runs at this invocation (see [`Cause::LossTimer`]).
    #[must_use]
    pub const fn runs_program(&self) -> bool {
        !matches!(self.cause, Cause::LossTimer)
    }

    /// One signal.
    #[must_use]
    pub fn signal(&self, signal: Signal) -> u64 {
        self.signals[signal]
    }
}

/// A controller's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Controls {
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Pacing rate, bytes/s; 0 is none.
    pub rate: u64,
}
