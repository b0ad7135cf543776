//! What the boxes of bundles cost, and how they fail: over two sites in network namespaces, by the program itself.

pub(crate) mod gap;
pub(crate) mod idle;
mod running;
pub(crate) mod throughput;

pub(crate) use running::Program;
