//! A line about flows that started and ended, at most once a second.

use std::time::{Duration, Instant};

use fairwater_service::ServiceStatistics;

use crate::units::count;

/// Shortest time between two lines.
const PAUSE: Duration = Duration::from_secs(1);

/// The counts at the last line.
#[derive(Debug, Default)]
pub(super) struct FlowChanges {
    flows: u64,
    flows_total: u64,
    refused: u64,
    at: Option<Instant>,
}

impl FlowChanges {
    /// What changed since the last line; nothing within a second of it.
    pub(super) fn sentence(&mut self, now: &ServiceStatistics, at: Instant) -> Option<String> {
        if self.at.is_some_and(|told| at.duration_since(told) < PAUSE) {
            return None;
        }
        let came = now.flows_total - self.flows_total;
        let left = self.flows + came - now.flows;
        let refused = now.refused_total() - self.refused;
        if came + left + refused == 0 {
            return None;
        }
        *self = Self {
            flows: now.flows,
            flows_total: now.flows_total,
            refused: now.refused_total(),
            at: Some(at),
        };
        let mut sentence = format!(
            "{} came, {left} left, {} now",
            count(usize::try_from(came).unwrap_or(usize::MAX), "flow"),
            now.flows
        );
        if refused > 0 {
            sentence += &format!("; {refused} messages were refused");
        }
        Some(sentence + ".")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_once_and_not_too_often() {
        let mut flow_changes = FlowChanges::default();
        let start = Instant::now();
        let mut now = ServiceStatistics::default();
        assert_eq!(flow_changes.sentence(&now, start), None);
        now.flows = 3;
        now.flows_total = 5;
        let first = flow_changes.sentence(&now, start);
        assert_eq!(first.as_deref(), Some("5 flows came, 2 left, 3 now."));
        now.flows = 2;
        assert_eq!(flow_changes.sentence(&now, start + PAUSE / 2), None);
        let second = flow_changes.sentence(&now, start + PAUSE);
        assert_eq!(second.as_deref(), Some("0 flows came, 1 left, 2 now."));
        assert_eq!(flow_changes.sentence(&now, start + 3 * PAUSE), None);
    }
}
