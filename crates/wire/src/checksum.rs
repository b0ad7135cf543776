//! The Internet checksum: in full, by difference, and the partial one of offloads.

use core::net::IpAddr;

/// What a packet's TCP or UDP checksum field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Checksum {
    /// The checksum, as on a wire.
    #[default]
    Complete,
    /// The sum of the pseudo-header alone, not complemented: the device adds the rest. Linux calls it
    /// `CHECKSUM_PARTIAL`. A change of the TCP header leaves the field as it is.
    Partial,
}

/// A one's complement sum in progress (RFC 1071 §1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum(u64);

impl Sum {
    /// Of nothing.
    pub const ZERO: Self = Self(0);

    /// Adds bytes that begin at an even offset; an odd last byte is the high half of its word.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let mut sum = self.0;
        let (words, rest) = bytes.as_chunks::<4>();
        for word in words {
            // 2³² of these fit before the sum could overflow.
            sum += u64::from(u32::from_be_bytes(*word));
        }
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        sum += u64::from(u32::from_be_bytes(last));
        Self(fold_to_32(sum))
    }

    /// Adds one word.
    #[must_use]
    #[inline]
    pub const fn word(self, word: u16) -> Self {
        Self(self.0 + word as u64)
    }

    /// Adds the pseudo-header of IPv4 (RFC 9293 §3.1) or IPv6 (RFC 8200 §8.1); `length` counts the
    /// transport's header and payload. Addresses of two families give a sum of no meaning.
    #[must_use]
    pub fn pseudo_header(
        self,
        source: IpAddr,
        destination: IpAddr,
        protocol: u8,
        length: u32,
    ) -> Self {
        let sum = self.address(source).address(destination);
        Self(sum.0 + u64::from(protocol) + u64::from(length))
    }

    fn address(self, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => self.bytes(&address.octets()),
            IpAddr::V6(address) => self.bytes(&address.octets()),
        }
    }

    /// The sum in 16 bits, not complemented: a partial checksum when it is of the pseudo-header.
    #[must_use]
    #[inline]
    pub const fn folded(self) -> u16 {
        let sum = fold_to_32(self.0);
        let sum = (sum & 0xffff) + (sum >> 16);
        ((sum & 0xffff) + (sum >> 16)) as u16
    }

    /// The checksum: the complement of the folded sum.
    #[must_use]
    #[inline]
    pub const fn checksum(self) -> u16 {
        !self.folded()
    }
}

/// The same sum modulo 2¹⁶ − 1, below 2³³.
const fn fold_to_32(sum: u64) -> u64 {
    (sum & 0xffff_ffff) + (sum >> 32)
}

/// A checksum after one of the words that it covers has changed (RFC 1624 §3, equation 3).
#[must_use]
#[inline]
pub const fn updated(checksum: u16, before: u16, after: u16) -> u16 {
    Sum::ZERO
        .word(!checksum)
        .word(!before)
        .word(after)
        .checksum()
}
