//! Congestion signals: what a datapath measured (CCP Table 2 and more), read-only to programs.

use core::fmt;
use core::ops::{Index, IndexMut};

use crate::Type;

/// One primitive congestion signal. The discriminant is its index wherever signals are stored in a
/// row, and in CCP's wire format for the signals of CCP Table 2, which come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Signal {
    /// Bytes newly acknowledged in order.
    BytesAcked = 0,
    /// Bytes newly acknowledged out of order (SACK).
    BytesMisordered = 1,
    /// Bytes that this ACK says were marked with ECN CE.
    EcnBytes = 2,
    /// Packets that this ACK says were marked with ECN CE.
    EcnPackets = 3,
    /// Packets newly declared lost.
    LostPkts = 4,
    /// The datapath's time of this invocation, µs.
    Now = 5,
    /// Packets newly acknowledged in order.
    PacketsAcked = 6,
    /// Packets newly acknowledged out of order (SACK).
    PacketsMisordered = 7,
    /// Bytes sent and not yet acknowledged or declared lost.
    BytesInFlight = 8,
    /// Bytes that the application has written and the datapath has not sent yet.
    BytesPending = 9,
    /// Packets sent and not yet acknowledged or declared lost.
    PacketsInFlight = 10,
    /// Receiver-side delivery rate, bytes/s; 0 until measured.
    RateIncoming = 11,
    /// Sending rate, bytes/s; 0 until measured.
    RateOutgoing = 12,
    /// The most recent RTT sample, µs; [`u64::MAX`] (`+infinity`) before the first.
    RttSampleUs = 13,
    /// 1 when this invocation is caused by a retransmission timeout, else 0.
    WasTimeout = 14,
    /// 1 when the most recently sent of the data that the latest delivering ACK acknowledged was
    /// sent while the application had less to send than cwnd and rate allowed, else 0
    /// (draft-cheng-iccrg-delivery-rate-estimation §3.4, RFC 9002 §7.8). Rates measured then say
    /// nothing about the path.
    AppLimited = 15,
    /// 1 when the datapath found since the last invocation that its last reduction of cwnd was for
    /// a spurious loss or a spurious timeout (RFC 4015, RFC 3708, RFC 5682) and took the
    /// reduction back: `Cwnd` is again what it was before. Else 0.
    Undo = 16,
}

impl Signal {
    /// Every signal, by index.
    pub const ALL: [Self; 17] = [
        Self::BytesAcked,
        Self::BytesMisordered,
        Self::EcnBytes,
        Self::EcnPackets,
        Self::LostPkts,
        Self::Now,
        Self::PacketsAcked,
        Self::PacketsMisordered,
        Self::BytesInFlight,
        Self::BytesPending,
        Self::PacketsInFlight,
        Self::RateIncoming,
        Self::RateOutgoing,
        Self::RttSampleUs,
        Self::WasTimeout,
        Self::AppLimited,
        Self::Undo,
    ];

    /// How many signals there are.
    pub const COUNT: usize = Self::ALL.len();

    /// The name in source text, `Ack.bytes_acked` for instance.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BytesAcked => "Ack.bytes_acked",
            Self::BytesMisordered => "Ack.bytes_misordered",
            Self::EcnBytes => "Ack.ecn_bytes",
            Self::EcnPackets => "Ack.ecn_packets",
            Self::LostPkts => "Ack.lost_pkts_sample",
            Self::Now => "Ack.now",
            Self::PacketsAcked => "Ack.packets_acked",
            Self::PacketsMisordered => "Ack.packets_misordered",
            Self::BytesInFlight => "Flow.bytes_in_flight",
            Self::BytesPending => "Flow.bytes_pending",
            Self::PacketsInFlight => "Flow.packets_in_flight",
            Self::RateIncoming => "Flow.rate_incoming",
            Self::RateOutgoing => "Flow.rate_outgoing",
            Self::RttSampleUs => "Flow.rtt_sample_us",
            Self::WasTimeout => "Flow.was_timeout",
            Self::AppLimited => "Flow.app_limited",
            Self::Undo => "Ack.undo",
        }
    }

    /// The signal's type. A boolean is 0 or 1.
    #[must_use]
    pub const fn ty(self) -> Type {
        match self {
            Self::WasTimeout | Self::AppLimited | Self::Undo => Type::Bool,
            _ => Type::Num,
        }
    }

    /// The signal of that name, aliases included (`Ack.rtt_sample_us`, CCP §4.3).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        if name == "Ack.rtt_sample_us" {
            return Some(Self::RttSampleUs);
        }
        Self::ALL.into_iter().find(|s| s.name() == name)
    }
}

/// The value of each signal in one invocation.
///
/// The default is what holds before anything was measured: 0, but for the RTT sample, which is
/// [`u64::MAX`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Signals([u64; Signal::COUNT]);

impl Signals {
    /// These values, by index.
    #[must_use]
    pub const fn from_array(values: [u64; Signal::COUNT]) -> Self {
        Self(values)
    }

    /// The values, by index.
    #[must_use]
    pub const fn as_array(&self) -> &[u64; Signal::COUNT] {
        &self.0
    }

    /// Each signal with its value, by index.
    pub fn iter(&self) -> impl Iterator<Item = (Signal, u64)> {
        Signal::ALL.into_iter().zip(self.0)
    }
}

impl Default for Signals {
    fn default() -> Self {
        let mut signals = Self([0; Signal::COUNT]);
        signals[Signal::RttSampleUs] = u64::MAX;
        signals
    }
}

impl Index<Signal> for Signals {
    type Output = u64;

    #[inline]
    fn index(&self, signal: Signal) -> &u64 {
        &self.0[signal as usize]
    }
}

impl IndexMut<Signal> for Signals {
    #[inline]
    fn index_mut(&mut self, signal: Signal) -> &mut u64 {
        &mut self.0[signal as usize]
    }
}

impl FromIterator<(Signal, u64)> for Signals {
    /// The default, but for these.
    fn from_iter<I: IntoIterator<Item = (Signal, u64)>>(values: I) -> Self {
        let mut signals = Self::default();
        for (signal, value) in values {
            signals[signal] = value;
        }
        signals
    }
}

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.iter().map(|(signal, value)| (signal.name(), value));
        f.debug_map().entries(named).finish()
    }
}

/// A set of signals: those a program reads, or those a datapath has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct SignalSet(u32);

impl SignalSet {
    /// The empty set.
    pub const EMPTY: Self = Self(0);
    /// Every signal.
    pub const ALL: Self = Self((1 << Signal::COUNT) - 1);
    /// The 15 signals of CCP Table 2, which are all that libccp has.
    pub const CCP: Self = Self((1 << (Signal::WasTimeout as u32 + 1)) - 1);

    /// Adds one signal.
    pub const fn insert(&mut self, signal: Signal) {
        self.0 |= 1 << signal as u32;
    }

    /// Whether the signal is in the set.
    #[must_use]
    pub const fn contains(self, signal: Signal) -> bool {
        self.0 & (1 << signal as u32) != 0
    }

    /// The signals of `self` that are not in `other`.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The signals in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether no signal is in the set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Bit `i` is set when the signal of index `i` is in the set.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The members, by index.
    pub fn iter(self) -> impl Iterator<Item = Signal> {
        Signal::ALL.into_iter().filter(move |s| self.contains(*s))
    }
}

impl FromIterator<Signal> for SignalSet {
    fn from_iter<I: IntoIterator<Item = Signal>>(signals: I) -> Self {
        let mut set = Self::EMPTY;
        for s in signals {
            set.insert(s);
        }
        set
    }
}
