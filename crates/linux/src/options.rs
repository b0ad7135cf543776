//! Options of a session.

use std::time::Duration;

/// Options of [`LinuxTcp`](crate::LinuxTcp).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How long the plane may be silent before flows go under the fallback. Default 200 ms.
    pub silent_after: Duration,
    /// The most flows an algorithm may have at once; further ones stay under the fallback.
    /// Each takes 1 to 2 KiB of kernel memory from the start, for programs of some 50 variables.
    /// Default 16,384.
    pub max_flows: u32,
    /// Bytes of the ring that carries reports: a power of two, at least a page. Reports that do not
    /// fit are lost; lost starts and ends of flows are found later. Default 4 MiB.
    pub ring_bytes: u32,
    /// Register a name for this run alone, `fw_cubic_7k2`, so that several processes can use an
    /// algorithm at once. Sockets of earlier planes are then left as they are. Default: `fw_cubic`.
    pub unique_names: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            silent_after: Duration::from_millis(200),
            max_flows: 16_384,
            ring_bytes: 4 << 20,
            unique_names: false,
        }
    }
}
