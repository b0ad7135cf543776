//! The ECN field of the IP header.

/// A codepoint of the ECN field (RFC 3168 §5), the last two bits of the TOS octet or the traffic class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum EcnCodepoint {
    /// The transport does not understand marks.
    #[default]
    NotEct = 0b00,
    /// The transport understands marks; RFC 8311 gives the codepoint a meaning of its own.
    Ect1 = 0b01,
    /// The transport understands marks.
    Ect0 = 0b10,
    /// Congestion experienced: a queue marked the packet.
    Ce = 0b11,
}

impl EcnCodepoint {
    /// The codepoint of the two last bits.
    #[must_use]
    #[inline]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The two bits.
    #[must_use]
    #[inline]
    pub const fn bits(self) -> u8 {
        self as u8
    }
}
