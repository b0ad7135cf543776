//! What an operator should know of a session that serves: flows that it could not take, reports
//! that it missed, silences of its own.

use std::time::{Duration, Instant};

use fairwater_linux::Session;

/// Sentences come at most this often.
const PAUSE: Duration = Duration::from_secs(1);

/// The counts that were told last.
pub(super) struct Troubles {
    told: Counts,
    at: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Counts {
    without_slot: u64,
    lost_reports: u64,
    fallbacks: u64,
}

impl Troubles {
    pub(super) fn new() -> Self {
        Self {
            told: Counts::default(),
            at: None,
        }
    }

    /// What is new since it was last told, as sentences; nothing within a second of that.
    pub(super) fn news(&mut self, session: &Session, now: Instant) -> Vec<String> {
        if self.at.is_some_and(|at| now.duration_since(at) < PAUSE) {
            return Vec::new();
        }
        let counts = Counts {
            without_slot: session.without_slot(),
            lost_reports: session.lost_reports(),
            fallbacks: session.fallbacks(),
        };
        let news = sentences(self.told, counts);
        if !news.is_empty() {
            self.at = Some(now);
            self.told = counts;
        }
        news
    }
}

fn sentences(told: Counts, now: Counts) -> Vec<String> {
    let mut news = Vec::new();
    let more = |now: u64, told: u64| now.saturating_sub(told);
    match more(now.without_slot, told.without_slot) {
        0 => {}
        n => news.push(format!(
            "No room for {n} more flows, which stay under Reno in the kernel; raise --max-flows."
        )),
    }
    match more(now.lost_reports, told.lost_reports) {
        0 => {}
        n => news.push(format!(
            "{n} reports came faster than this process took them and are lost; report less often \
             (report=10ms)."
        )),
    }
    match more(now.fallbacks, told.fallbacks) {
        0 => {}
        n => news.push(format!(
            "This process was silent too long: {n} flows went under Reno in the kernel, and are \
             taken back."
        )),
    }
    news
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_is_told() {
        let before = Counts {
            without_slot: 2,
            lost_reports: 0,
            fallbacks: 1,
        };
        assert!(sentences(before, before).is_empty());
        let after = Counts {
            without_slot: 5,
            lost_reports: 7,
            fallbacks: 1,
        };
        let news = sentences(before, after);
        assert_eq!(news.len(), 2, "{news:?}");
        assert!(news[0].contains("3 more flows") && news[0].contains("--max-flows"));
        assert!(news[1].starts_with("7 reports"));
    }
}
