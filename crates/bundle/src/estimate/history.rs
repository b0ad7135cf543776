//! The share of the latest events that are of a kind.

/// Events that are remembered.
const LENGTH: u32 = 128;
/// Events before a share is told.
const ENOUGH: u32 = 32;

/// The latest 128 events, each of a kind or not.
#[derive(Debug, Clone, Copy, Default)]
pub struct History {
    bits: u128,
    length: u32,
}

impl History {
    /// Adds an event.
    pub fn push(&mut self, is_of_kind: bool) {
        self.bits = (self.bits << 1) | u128::from(is_of_kind);
        self.length = (self.length + 1).min(LENGTH);
    }

    /// Share of the events of the kind, 0 to 1; `None` before 32 events.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        (self.length >= ENOUGH).then(|| f64::from(self.bits.count_ones()) / f64::from(self.length))
    }
}
