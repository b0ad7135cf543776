//! What the edge costs at a guest's port, and what it withstands.

pub(crate) mod connections;
pub(crate) mod flood;
pub(crate) mod restarts;
mod running;
pub(crate) mod throughput;
