//! Packets as the links carry them, and the segments in them.

use fairwater_net::{Ecn, Packet};
use slab::Slab;

use crate::routes::Hop;
use fairwater_tcp::{HEADERS, Segment};

/// Bytes of options that only SYNs have: the maximum segment size, SACK permitted, window scaling,
/// and padding.
const SYN_OPTIONS: u32 = 8;

/// Bytes of the packet that carries the segment.
pub(crate) fn size_bytes(segment: &Segment) -> u32 {
    // RFC 2018 §3: 2 bytes and 8 a block; Linux pads them by 2.
    let blocks = u32::try_from(segment.sack.len()).unwrap_or(0);
    let sack = if blocks > 0 { 4 + 8 * blocks } else { 0 };
    let syn = if segment.syn { SYN_OPTIONS } else { 0 };
    HEADERS + sack + syn + segment.len
}

/// Generation of packets that are no connection's, but a flow's UDP packets.
pub(crate) const DATAGRAM: u32 = u32::MAX;

/// Generation of packets that boxes of a bundle send each other.
pub(crate) const MESSAGE: u32 = u32::MAX - 1;

/// A packet in the network: small, because every queue moves it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PacketHandle {
    /// Slot of its segment in [`Segments`].
    pub(crate) segment: u32,
    /// Slot of its connection; of a UDP packet, its flow; of a message, the pair of boxes.
    pub(crate) connection: u32,
    /// Tells the connection from those that had its slot before; [`DATAGRAM`] of a UDP packet, [`MESSAGE`] of
    /// one between boxes.
    pub(crate) generation: u32,
    /// Which edge it is on, or is to enter.
    pub(crate) hop: Hop,
    pub(crate) size_bytes: u32,
    pub(crate) ecn: Ecn,
    pub(crate) priority: u8,
    pub(crate) to_receiver: bool,
    /// Number of its flow's bundle, from 1; 0 of none.
    pub(crate) bundle: u8,
}

impl PacketHandle {
    /// Whether it is a UDP packet.
    #[inline]
    pub(crate) fn is_datagram(&self) -> bool {
        self.generation == DATAGRAM
    }

    /// Whether boxes of a bundle send it.
    #[inline]
    pub(crate) fn is_message(&self) -> bool {
        self.generation == MESSAGE
    }
}

impl Packet for PacketHandle {
    fn size_bytes(&self) -> u32 {
        self.size_bytes
    }

    /// One for each connection and direction, as a five-tuple would be.
    fn flow(&self) -> u64 {
        let name = u64::from(self.connection) << 33
            | u64::from(self.generation) << 1
            | u64::from(self.to_receiver);
        spread(name)
    }

    fn priority(&self) -> u8 {
        self.priority
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn mark_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }
}

/// Spreads near values far apart (the finalizer of SplitMix64; Steele et al., OOPSLA 2014).
pub(crate) const fn spread(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// The segments under way. A slot that was freed last is taken first, for it is in the cache.
#[derive(Debug, Default)]
pub(crate) struct Segments(Slab<Segment>);

impl Segments {
    #[inline]
    pub(crate) fn put(&mut self, segment: Segment) -> u32 {
        u32::try_from(self.0.insert(segment)).unwrap_or(u32::MAX)
    }

    #[inline]
    pub(crate) fn get(&self, slot: u32) -> &Segment {
        &self.0[slot as usize]
    }

    #[inline]
    pub(crate) fn free(&mut self, slot: u32) {
        let _ = self.0.try_remove(slot as usize);
    }

    /// Segments that were put and not freed.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
