//! Window and rate of one member.

use fairwater_plane::{Control, MAX_RATE};

/// Window and pacing rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Controls {
    /// Bytes.
    pub(super) cwnd: u64,
    /// Bytes/s; 0 is none.
    pub(super) rate: u64,
}

impl Controls {
    pub(super) fn apply(self, control: &mut Control) {
        control.set_cwnd(self.cwnd.max(1));
        control.set_rate(self.rate.min(MAX_RATE));
    }
}
