//! What governs a flow while no program does: before the first one arrives, while the plane is
//! silent or gone, and for good after a fault or a withdrawal.

mod reno;

pub use reno::{Path, Reno};
