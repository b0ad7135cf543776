//! What the programs share with this process: `bpf/types.h`.

use fairwater_bundle::ReceiveCounters;
use fairwater_net::Time;

/// Bytes of `struct settings`, and offsets in it.
pub(crate) mod settings {
    pub(crate) const BYTES: usize = 64;
    pub(crate) const KEY: [usize; 2] = [0, 8];
    pub(crate) const MASK: usize = 16;
    pub(crate) const ANY_DESTINATION: usize = 24;
    pub(crate) const IS_SHAPED: usize = 28;
    pub(crate) const FIRST_CLASS: usize = 32;
    pub(crate) const LEAVES: usize = 36;
    pub(crate) const BANDS: usize = 40;
}

/// `struct page` of `bpf/send.bpf.c`.
pub(crate) mod page {
    pub(crate) const BYTES: usize = 88;
    pub(crate) const BEAT_NS: usize = 0;
    pub(crate) const STALE_NS: usize = 8;
    pub(crate) const STALE_PACKETS: usize = 16;
    pub(crate) const BANDS: usize = 24;
}

/// 64-bit words of `struct counters`.
pub(crate) mod counters {
    pub(crate) const BYTES: usize = 64;
    pub(crate) const LOST: usize = 7;
}

/// A boundary packet that a program saw: `struct event`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObservedBoundary {
    /// When, by `CLOCK_MONOTONIC`.
    pub at: Time,
    /// Its hash.
    pub hash: u64,
    /// What was counted on all processors, the packet included.
    pub counters: ReceiveCounters,
    /// Place of its bundle.
    pub bundle: u32,
    /// Which fields were hashed: index into [`fairwater_bundle::IdentityFields::ALL`].
    pub fields: u32,
}

impl ObservedBoundary {
    /// Reads `struct event`; `None` if it is shorter.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let [time, hash, bytes, packets, ce_bytes, ce_packets, last] = *words.first_chunk::<7>()?;
        let number = u64::from_ne_bytes;
        let [b0, b1, b2, b3, f0, f1, f2, f3] = last;
        Some(Self {
            at: Time::from_nanos(number(time)),
            hash: number(hash),
            counters: ReceiveCounters {
                bytes: number(bytes),
                packets: number(packets),
                ce_bytes: number(ce_bytes),
                ce_packets: number(ce_packets),
            },
            bundle: u32::from_ne_bytes([b0, b1, b2, b3]),
            fields: u32::from_ne_bytes([f0, f1, f2, f3]),
        })
    }
}
