//! What an endpoint counts.

/// Counts since the endpoint was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Packets given to it.
    pub received: u64,
    /// Packets that are no TCP segment and no message about one, or whose headers or options cannot be read.
    pub malformed: u64,
    /// Packets whose checksum is wrong.
    pub bad_checksums: u64,
    /// Segments of no connection; each was answered by a reset, unless it was one (RFC 9293 §3.10.7.1).
    pub stray: u64,
    /// SYNs that found too many connections.
    pub refused: u64,
    /// Packets sent.
    pub sent: u64,
}
