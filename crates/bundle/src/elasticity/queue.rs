//! The network's queue as a bundle's RTT samples show it.

use std::collections::VecDeque;
use std::time::Duration;

use fairwater_net::Time;

/// Time over which the least RTT counts: packets on a longer path and short bursts are no queue.
const WINDOW: Duration = Duration::from_millis(60);

/// The base RTT is the least of the last one to two of these.
const BASE_BUCKET: Duration = Duration::from_secs(30);

/// Queueing delay in the network: the least RTT of the last 60 ms less the base RTT.
#[derive(Debug, Clone, Default)]
pub(super) struct NetworkQueue {
    /// The least RTT of the present bucket of time and of the one before.
    base: [Option<Duration>; 2],
    bucket_began: Time,
    /// Samples of the window of which none later is smaller, by time.
    recent: VecDeque<(Time, Duration)>,
}

impl NetworkQueue {
    /// An RTT sample. `keeps_base`: a queue that never empties must not become the base RTT.
    pub(super) fn on_rtt(&mut self, now: Time, rtt: Duration, keeps_base: bool) {
        if keeps_base {
            self.bucket_began = now;
        } else if now.since(self.bucket_began) > BASE_BUCKET {
            self.bucket_began = now;
            self.base = [None, self.base[0]];
        }
        let present = self.base[0].get_or_insert(rtt);
        *present = rtt.min(*present);
        while self.recent.back().is_some_and(|(_, other)| *other >= rtt) {
            self.recent.pop_back();
        }
        self.recent.push_back((now, rtt));
        self.forget(now);
    }

    /// Drops samples that are too old, but for the latest.
    fn forget(&mut self, now: Time) {
        while self.recent.len() > 1
            && let Some((at, _)) = self.recent.front()
            && now.since(*at) > WINDOW
        {
            self.recent.pop_front();
        }
    }

    /// Base RTT and queueing delay now; `None` before the first sample.
    pub(super) fn now(&mut self, now: Time) -> Option<(Duration, Duration)> {
        self.forget(now);
        let base = *self.base.iter().flatten().min()?;
        let (_, rtt) = self.recent.front()?;
        Some((base, rtt.saturating_sub(base)))
    }
}
