//! TCP headers.

mod flags;
mod options;
mod summary;

pub use flags::TcpFlags;
pub(crate) use options::kind as option_kind;
pub use options::{AccEcn, SackBlock, SackBlocks, TcpOption, TcpOptions};
pub use summary::OptionSummary;

use crate::bytes::{u16_at, u32_at};
use crate::{ParseError, Seq};

/// Bytes of a TCP header without options, and with the most that it can have.
pub(crate) const TCP_HEADER: usize = 20;
pub(crate) const MAX_TCP_OPTIONS: usize = 40;

/// The greatest shift of the receive window; a greater one counts as this (RFC 7323 §2.3).
pub const MAX_WINDOW_SCALE: u8 = 14;

/// A TCP segment (RFC 9293 §3.1), of a packet whose lengths are right.
#[derive(Debug, Clone, Copy)]
pub struct Tcp<'a> {
    /// Header and payload.
    bytes: &'a [u8],
    header: usize,
}

impl<'a> Tcp<'a> {
    pub(crate) const fn new(bytes: &'a [u8], header: usize) -> Self {
        Self { bytes, header }
    }

    /// The sender's port.
    #[must_use]
    #[inline]
    pub fn source_port(&self) -> u16 {
        u16_at(self.bytes, 0)
    }

    /// The receiver's port.
    #[must_use]
    #[inline]
    pub fn destination_port(&self) -> u16 {
        u16_at(self.bytes, 2)
    }

    /// Sequence number of the first payload byte, or of the SYN.
    #[must_use]
    #[inline]
    pub fn seq(&self) -> Seq {
        Seq(u32_at(self.bytes, 4))
    }

    /// The acknowledgement number; meaningful with [`TcpFlags::ACK`].
    #[must_use]
    #[inline]
    pub fn ack(&self) -> Seq {
        Seq(u32_at(self.bytes, 8))
    }

    /// The flags.
    #[must_use]
    #[inline]
    pub fn flags(&self) -> TcpFlags {
        TcpFlags::from_bits(u16_at(self.bytes, 12))
    }

    /// The receive window's field, not scaled.
    #[must_use]
    #[inline]
    pub fn window(&self) -> u16 {
        u16_at(self.bytes, 14)
    }

    /// The checksum field.
    #[must_use]
    pub fn checksum(&self) -> u16 {
        u16_at(self.bytes, 16)
    }

    /// The urgent pointer; meaningful with [`TcpFlags::URG`].
    #[must_use]
    pub fn urgent(&self) -> u16 {
        u16_at(self.bytes, 18)
    }

    /// The options, one after the other.
    #[must_use]
    pub fn options(&self) -> TcpOptions<'a> {
        TcpOptions::new(self.bytes.get(TCP_HEADER..self.header).unwrap_or(&[]))
    }

    /// What the options say, all together.
    ///
    /// # Errors
    /// An option lies about its length.
    pub fn option_summary(&self) -> Result<OptionSummary, ParseError> {
        OptionSummary::of(self.options())
    }

    /// Bytes of the header, options included.
    #[must_use]
    pub const fn header_length(&self) -> usize {
        self.header
    }

    /// The payload.
    #[must_use]
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(self.header..).unwrap_or(&[])
    }

    /// Sequence numbers that the segment takes: its payload, SYN and FIN (RFC 9293 §3.4, SEG.LEN).
    #[must_use]
    #[inline]
    pub fn seq_length(&self) -> u32 {
        let flags = self.flags();
        let payload = self.bytes.len().saturating_sub(self.header) as u32;
        payload
            + u32::from(flags.contains(TcpFlags::SYN))
            + u32::from(flags.contains(TcpFlags::FIN))
    }
}
