//! Options of the box.

use std::time::Duration;

/// Options of [`EdgeTc`](crate::EdgeTc).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdgeOptions {
    /// How long the plane may be silent before guests are released. Default 200 ms.
    pub silent_after: Duration,
    /// The most connections that algorithms control at a time; further ones are measured only. Each takes about
    /// 2 KiB of kernel memory from the start. Default 16,384.
    pub max_flows: u32,
    /// Bytes of the ring that carries reports: a power of two, at least a page. Default 4 MiB.
    pub ring_bytes: u32,
}

impl Default for EdgeOptions {
    fn default() -> Self {
        Self {
            silent_after: Duration::from_millis(200),
            max_flows: 16_384,
            ring_bytes: 4 << 20,
        }
    }
}
