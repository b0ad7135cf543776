//! How a plane works on this machine.

use std::time::Duration;

/// Choices of a [`Session`](crate::Session).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How long the plane may be silent before flows go under in-kernel Reno. Default 200 ms.
    pub silent_after: Duration,
    /// The most flows an algorithm may have at once; further ones stay under in-kernel Reno.
    /// Each costs 1 to 2 KiB of kernel memory for programs of some 50 variables, taken at the start. Default 16,384.
    pub max_flows: u32,
    /// When reports wake the plane. Default: each report.
    pub wakeup: Wakeup,
    /// Bytes of the ring that carries reports, a power of two of at least a page. Reports that
    /// do not fit are lost; events of flows starting and ending are caught up with. Default 4 MiB.
    pub ring_bytes: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            silent_after: Duration::from_millis(200),
            max_flows: 16_384,
            wakeup: Wakeup::EachReport,
            ring_bytes: 4 << 20,
        }
    }
}

/// When reports wake the plane. Wake-ups, not reports, are what costs: a program that reports
/// each ACK on a fast path should be drained on a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wakeup {
    /// A report wakes the plane if it sleeps.
    EachReport,
    /// A report wakes the plane if none did for this long, and waits for the next that does
    /// otherwise, or, where none follows, for twice this time or 10 ms, whichever is longer.
    Every(Duration),
}
