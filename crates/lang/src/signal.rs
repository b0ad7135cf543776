//! Congestion signals: what a datapath measured (CCP Table 2), read-only to programs.

use crate::Type;

/// One primitive congestion signal (CCP Table 2). The discriminant is its index in CCP's wire
/// format and in every array of signals in this project.
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
}

impl Signal {
    /// Every signal, by index.
    pub const ALL: [Self; 15] = [
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
    ];

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
        }
    }

    /// The signal's type: `Flow.was_timeout` is a boolean, all others are numbers.
    #[must_use]
    pub const fn ty(self) -> Type {
        match self {
            Self::WasTimeout => Type::Bool,
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

/// A set of signals: those a program reads, or those a datapath has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct SignalSet(u32);

impl SignalSet {
    /// The empty set.
    pub const EMPTY: Self = Self(0);
    /// All 15 signals of CCP Table 2.
    pub const ALL: Self = Self((1 << Signal::ALL.len()) - 1);

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
