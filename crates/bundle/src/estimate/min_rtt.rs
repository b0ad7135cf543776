//! The minimum RTT, which expires, so that a change of route to a longer path is not taken for a queue.

use std::time::Duration;

use fairwater_net::Time;

/// A bucket of samples.
const BUCKET: Duration = Duration::from_secs(10);

/// Minimum of the RTT samples of the last 20 to 30 s.
#[derive(Debug, Clone, Default)]
pub struct MinRtt {
    /// Minima of the present bucket and of the two before.
    buckets: [Option<Duration>; 3],
    began: Time,
}

impl MinRtt {
    /// Takes a sample in.
    pub fn on_sample(&mut self, now: Time, rtt: Duration) {
        let mut passed = now.since(self.began).as_nanos() / BUCKET.as_nanos();
        if passed > 0 {
            self.began = now;
        }
        while passed > 0 && self.buckets != [None; 3] {
            let [present, last, _] = self.buckets;
            self.buckets = [None, present, last];
            passed -= 1;
        }
        let present = self.buckets[0].get_or_insert(rtt);
        *present = rtt.min(*present);
    }

    /// The minimum; `None` before the first sample.
    #[must_use]
    pub fn get(&self) -> Option<Duration> {
        self.buckets.iter().flatten().min().copied()
    }
}
