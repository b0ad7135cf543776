//! The matches of the last RTT, and what they tell (Bundler §4.5).

use std::collections::VecDeque;
use std::time::Duration;

use fairwater_net::Time;

use crate::ReceiveCounters;

/// Most matches in the window.
const MAX_MATCHES: usize = 4_096;

/// A boundary packet whose feedback came.
#[derive(Debug, Clone, Copy)]
pub(super) struct Match {
    /// Its place among all marks.
    pub(super) order: u64,
    pub(super) sent_at: Time,
    pub(super) bytes_sent: u64,
    pub(super) packets_sent: u64,
    /// By the receivebox's clock.
    pub(super) received_at: Time,
    pub(super) counters: ReceiveCounters,
    pub(super) fed_back_at: Time,
}

impl Match {
    pub(super) fn rtt(&self) -> Duration {
        self.fed_back_at.since(self.sent_at)
    }

    fn gap(&self) -> i64 {
        self.packets_sent.wrapping_sub(self.counters.packets) as i64
    }
}

/// The matches of the last RTT, by the order of sending.
#[derive(Debug, Default)]
pub(super) struct Window(VecDeque<Match>);

impl Window {
    pub(super) fn insert(&mut self, new: Match) {
        let at = self.0.partition_point(|other| other.order < new.order);
        self.0.insert(at, new);
        let latest = self.0.iter().map(|other| other.fed_back_at).max();
        let since = latest.unwrap_or(new.fed_back_at) - new.rtt();
        // Two are left, however long ago they came: one epoch.
        while self.0.len() > 2
            && let Some(first) = self.0.front()
            && (first.fed_back_at < since || self.0.len() > MAX_MATCHES)
        {
            self.0.pop_front();
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Mean of the RTT samples.
    pub(super) fn mean_rtt(&self) -> Option<Duration> {
        let count = u32::try_from(self.0.len())
            .ok()
            .filter(|&count| count > 0)?;
        Some(self.0.iter().map(Match::rtt).sum::<Duration>() / count)
    }

    /// Bytes/s that left the sendbox.
    pub(super) fn send_rate(&self) -> Option<f64> {
        let (first, last) = (self.0.front()?, self.0.back()?);
        per_second(
            last.bytes_sent - first.bytes_sent,
            last.sent_at.since(first.sent_at),
        )
    }

    /// Bytes/s that came to the receivebox.
    pub(super) fn receive_rate(&self) -> Option<f64> {
        let by_bytes = |of: &&Match| of.counters.bytes;
        let first = self.0.iter().min_by_key(by_bytes)?;
        let last = self.0.iter().max_by_key(by_bytes)?;
        let there = last.received_at.since(first.received_at);
        let here = last.fed_back_at.since(first.fed_back_at);
        // The receivebox's clock is the better one, since the way of the feedback does not disturb it; but a clock
        // that stood still or jumped there does not agree with the time that passed here.
        let tolerance = last.rtt().max(first.rtt()) + Duration::from_millis(50);
        let time = if there.abs_diff(here) > tolerance {
            here
        } else {
            there
        };
        per_second(last.counters.bytes - first.counters.bytes, time)
    }

    /// The least and the greatest gap, packets.
    pub(super) fn gaps(&self) -> Option<(i64, i64)> {
        let gaps = || self.0.iter().map(Match::gap);
        Some((gaps().min()?, gaps().max()?))
    }
}

fn per_second(bytes: u64, time: Duration) -> Option<f64> {
    (!time.is_zero()).then(|| bytes as f64 / time.as_secs_f64())
}
