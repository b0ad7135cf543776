//! What a link has to know of a packet.

/// The ECN field of the IP header (RFC 3168 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Ecn {
    /// The transport does not understand marks.
    #[default]
    NotEct,
    /// It does.
    Ect0,
    /// It does; RFC 8311 gives the codepoint a meaning of its own.
    Ect1,
    /// Congestion experienced: some queue marked it.
    Ce,
}

/// What queues and links ask of a packet, and the one thing they do to it. Only the size has no
/// default: a packet that says nothing else is of the one flow there is and cannot be marked.
pub trait Packet {
    /// Bytes of the IP packet, its headers included.
    fn size_bytes(&self) -> u32;

    /// Equal for packets of one flow and hardly ever for others: a hash of the five-tuple.
    fn flow(&self) -> u64 {
        0
    }

    /// The class in a queue with priorities; 0 is served first.
    fn priority(&self) -> u8 {
        0
    }

    /// The ECN field.
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    /// Sets the ECN field to [`Ecn::Ce`]; asked only of packets that are ECN-capable.
    fn mark_ce(&mut self) {}
}

/// Marks a packet whose transport understands marks; whether it does. One that is marked already
/// stays so (RFC 3168 §5).
pub(crate) fn mark(packet: &mut impl Packet) -> bool {
    match packet.ecn() {
        Ecn::NotEct => false,
        Ecn::Ect0 | Ecn::Ect1 => {
            packet.mark_ce();
            true
        }
        Ecn::Ce => true,
    }
}
