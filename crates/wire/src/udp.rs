//! UDP headers.

use crate::bytes::u16_at;

/// Bytes of a UDP header.
pub(crate) const UDP_HEADER: usize = 8;

/// A UDP datagram (RFC 768), of a packet whose lengths are right.
#[derive(Debug, Clone, Copy)]
pub struct Udp<'a> {
    /// Header and payload.
    bytes: &'a [u8],
}

impl<'a> Udp<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The sender's port.
    #[must_use]
    pub fn source_port(&self) -> u16 {
        u16_at(self.bytes, 0)
    }

    /// The receiver's port.
    #[must_use]
    pub fn destination_port(&self) -> u16 {
        u16_at(self.bytes, 2)
    }

    /// The checksum field; 0 is none, which IPv4 allows.
    #[must_use]
    pub fn checksum(&self) -> u16 {
        u16_at(self.bytes, 6)
    }

    /// The payload.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(UDP_HEADER..).unwrap_or(&[])
    }
}
