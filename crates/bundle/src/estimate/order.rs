//! Whether boundary packets arrive in the order of sending (Bundler §5.2): parallel paths of unequal delays do not
//! keep it, and a rate for all of them together would mean nothing.

use super::history::History;

/// Compares the order of marks with the order in which the receivebox received them. Feedback that was reordered on
/// its own way changes neither.
#[derive(Debug, Clone, Copy, Default)]
pub struct OrderMonitor {
    history: History,
    /// Order of the latest mark matched, and number of its feedback.
    latest: Option<(u64, u64)>,
}

impl OrderMonitor {
    /// A mark was matched: its order, and the number that the receivebox gave its feedback.
    pub fn on_match(&mut self, order: u64, number: u64) {
        let (latest_order, latest_number) = self.latest.unwrap_or((0, 0));
        self.history
            .push((order > latest_order) != (number > latest_number) && self.latest.is_some());
        if order >= latest_order {
            self.latest = Some((order, number));
        }
    }

    /// The receivebox has restarted: its numbers begin again.
    pub const fn restart(&mut self) {
        self.latest = None;
    }

    /// Share of the latest matches that were out of order; `None` before enough matches.
    #[must_use]
    pub fn out_of_order(&self) -> Option<f64> {
        self.history.share()
    }
}
