//! What a box reads of one TCP segment.

use fairwater_wire::{OptionSummary, ParseError, Seq, Tcp, TcpFlags};

/// What a box reads of one TCP segment; a GSO super-packet is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first payload byte, or of the SYN.
    pub seq: Seq,
    /// The acknowledgement number; meaningful with [`TcpFlags::ACK`].
    pub ack: Seq,
    /// The flags.
    pub flags: TcpFlags,
    /// The receive window's field, not scaled.
    pub window: u16,
    /// Payload, bytes.
    pub payload: u32,
    /// The options.
    pub options: OptionSummary,
}

impl Segment {
    /// Reads a segment.
    ///
    /// # Errors
    /// An option lies about its length.
    pub fn read(tcp: &Tcp<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            seq: tcp.seq(),
            ack: tcp.ack(),
            flags: tcp.flags(),
            window: tcp.window(),
            payload: u32::try_from(tcp.payload().len()).unwrap_or(u32::MAX),
            options: tcp.option_summary()?,
        })
    }

    /// Sequence numbers that the segment takes: payload, SYN and FIN.
    #[must_use]
    pub fn length(&self) -> u32 {
        self.payload + u32::from(self.has(TcpFlags::SYN)) + u32::from(self.has(TcpFlags::FIN))
    }

    /// The sequence number after the segment.
    #[must_use]
    pub fn end(&self) -> Seq {
        self.seq.plus(self.length())
    }

    /// Whether the flag is set.
    #[must_use]
    pub fn has(&self, flag: TcpFlags) -> bool {
        self.flags.contains(flag)
    }
}
