//! The flags of a TCP header.

use core::fmt;
use core::ops::BitOr;

/// Flags of a TCP header: the nine last bits of the 16 with the data offset (RFC 9293 §3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TcpFlags(u16);

impl TcpFlags {
    /// None.
    pub const NONE: Self = Self(0);
    /// The sender has no more.
    pub const FIN: Self = Self(0x001);
    /// Opens a connection.
    pub const SYN: Self = Self(0x002);
    /// Resets the connection.
    pub const RST: Self = Self(0x004);
    /// Data to be handed on at once.
    pub const PSH: Self = Self(0x008);
    /// The acknowledgement number is meaningful.
    pub const ACK: Self = Self(0x010);
    /// The urgent pointer is meaningful.
    pub const URG: Self = Self(0x020);
    /// Echoes congestion experienced (RFC 3168 §6.1), or the low bit of ACE (RFC 9768 §3.2.2).
    pub const ECE: Self = Self(0x040);
    /// Congestion window reduced (RFC 3168 §6.1), or the middle bit of ACE.
    pub const CWR: Self = Self(0x080);
    /// Accurate ECN (RFC 9768 §3.1.1), or the high bit of ACE; once the nonce sum (RFC 3540).
    pub const AE: Self = Self(0x100);

    const ALL: u16 = 0x1ff;

    /// The flags among 16 bits of the header; the other bits do not count.
    #[must_use]
    #[inline]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & Self::ALL)
    }

    /// The bits, at their places in the header's 16.
    #[must_use]
    #[inline]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Whether all of `flags` are set.
    #[must_use]
    #[inline]
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether any of `flags` is set.
    #[must_use]
    #[inline]
    pub const fn intersects(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// Without `flags`.
    #[must_use]
    pub const fn without(self, flags: Self) -> Self {
        Self(self.0 & !flags.0)
    }

    /// The ACE field (RFC 9768 §3.2.2): AE, CWR and ECE as a number.
    #[must_use]
    pub const fn ace(self) -> u8 {
        (self.0 >> 6 & 0b111) as u8
    }

    /// With the ACE field; of `ace` the three last bits count.
    #[must_use]
    pub const fn with_ace(self, ace: u8) -> Self {
        Self(self.0 & !(0b111 << 6) | (ace as u16 & 0b111) << 6)
    }
}

impl BitOr for TcpFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 9] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR", "AE"];
        let set = NAMES.iter().enumerate();
        let set = set.filter(|(bit, _)| self.0 >> bit & 1 == 1);
        f.debug_set().entries(set.map(|(_, name)| name)).finish()
    }
}
