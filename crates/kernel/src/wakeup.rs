//! When reports wake the plane: at once, unless they come faster than wake-ups are worth.
//!
//! A wake-up costs more than a report: on a saturated machine a wake-up for each report takes a fifth
//! of the throughput. So reports have a budget, a token bucket of [`BURST_US`]` / `[`PERIOD_US`]
//! wake-ups that gains one each [`PERIOD_US`]. While the bucket has a token, a report wakes the plane.
//! When it has none, the report waits in the ring for the wake-up of a later report. A report of a
//! timeout always wakes the plane, and so does each event that is no report.
//!
//! The bucket is one word of the plane's page, the time up to which wake-ups are used up: it has a
//! token while that time is less than [`BURST_US`] ahead, and a wake-up moves it on by [`PERIOD_US`].
//!
//! The program asks for the wake-up, not a timer of the plane's: a timer interrupts senders at any
//! time, and costs a tenth of a saturated machine's throughput. A timer serves only a report that no
//! other follows, [`LEFTOVER`].

use std::time::Duration;

/// Time in which reports gain a wake-up, µs.
pub(crate) const PERIOD_US: u64 = 1000;
/// How far wake-ups may be ahead of that rate, µs.
pub(crate) const BURST_US: u64 = 8 * PERIOD_US;
/// How much earlier than the plane's clock the time of a report may be, µs: that of its ACK's arrival.
const REPORT_AGE_US: u64 = 1000;

/// Longest sleep while a report may have to wait. Not shorter than the scheduler's tick: on a virtual
/// machine a timer that is set at each turn costs more than the reports.
pub(crate) const LEFTOVER: Duration = Duration::from_millis(10);

/// Longest sleep of a plane whose wake-ups are used up until `until_us`.
///
/// Until a report wakes the plane, nothing moves that time on. So if the bucket has a token now, the
/// next report finds it, and the plane may sleep for as long as it likes.
pub(crate) fn longest_sleep(until_us: u64, now_us: u64) -> Option<Duration> {
    (until_us + REPORT_AGE_US >= now_us + BURST_US).then_some(LEFTOVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plane_that_reports_may_leave_asleep_sleeps_briefly() {
        let now = 1_000_000;
        assert_eq!(longest_sleep(0, now), None);
        assert_eq!(longest_sleep(now + PERIOD_US, now), None);
        assert_eq!(longest_sleep(now + BURST_US, now), Some(LEFTOVER));
        let late = now + BURST_US + PERIOD_US;
        assert_eq!(longest_sleep(late, now), Some(LEFTOVER));
        assert_eq!(
            longest_sleep(late, now + 2 * PERIOD_US + REPORT_AGE_US),
            None
        );
    }
}
