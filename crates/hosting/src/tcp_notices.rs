//! Notices about this machine's TCP for the operator: flows without a slot, lost reports, silences.

use std::time::{Duration, Instant};

use fairwater_linux::LinuxTcp;

/// Least time between two rounds of notices.
const PAUSE: Duration = Duration::from_secs(1);

/// The counts that the last notices were about.
#[derive(Debug)]
pub(crate) struct TcpNotices {
    announced: Counts,
    at: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Counts {
    without_slot: u64,
    lost_reports: u64,
    fallbacks: u64,
}

impl TcpNotices {
    pub(crate) fn new() -> Self {
        Self {
            announced: Counts::default(),
            at: None,
        }
    }

    /// Notices about what has changed since the last; none within a second of them.
    pub(crate) fn poll(&mut self, tcp: &LinuxTcp, now: Instant) -> Vec<String> {
        if self.at.is_some_and(|at| now.duration_since(at) < PAUSE) {
            return Vec::new();
        }
        let counts = Counts {
            without_slot: tcp.without_slot(),
            lost_reports: tcp.lost_reports(),
            fallbacks: tcp.fallbacks(),
        };
        let notices = notices(self.announced, counts);
        if !notices.is_empty() {
            self.at = Some(now);
            self.announced = counts;
        }
        notices
    }
}

fn notices(before: Counts, now: Counts) -> Vec<String> {
    let mut notices = Vec::new();
    let more = |now: u64, before: u64| now.saturating_sub(before);
    match more(now.without_slot, before.without_slot) {
        0 => {}
        n => notices.push(format!(
            "No room for {n} more flows: they stay under Cubic in the kernel; raise the limit (max_flows)."
        )),
    }
    match more(now.lost_reports, before.lost_reports) {
        0 => {}
        n => notices.push(format!(
            "{n} reports are lost: they came faster than this process reads; report less often \
             (report=10ms)."
        )),
    }
    match more(now.fallbacks, before.fallbacks) {
        0 => {}
        n => notices.push(format!(
            "This process was silent too long: {n} flows fell back to Cubic in the kernel, and are \
             taken back."
        )),
    }
    notices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_is_announced() {
        let before = Counts {
            without_slot: 2,
            lost_reports: 0,
            fallbacks: 1,
        };
        assert!(notices(before, before).is_empty());
        let after = Counts {
            without_slot: 5,
            lost_reports: 7,
            fallbacks: 1,
        };
        let notices = notices(before, after);
        assert_eq!(notices.len(), 2, "{notices:?}");
        assert!(notices[0].contains("3 more flows") && notices[0].contains("max_flows"));
        assert!(notices[1].starts_with("7 reports"));
    }
}
