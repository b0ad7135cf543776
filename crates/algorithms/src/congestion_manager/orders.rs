//! What the members are told.

use fairwater_plane::{Control, MAX_RATE};

/// A window and a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Order {
    /// Bytes.
    pub(super) cwnd: u64,
    /// Bytes/s; 0 is none.
    pub(super) rate: u64,
}

impl Order {
    pub(super) fn carry_out(self, control: &mut Control) {
        control.set_cwnd(self.cwnd.max(1));
        control.set_rate(self.rate.min(MAX_RATE));
    }
}
