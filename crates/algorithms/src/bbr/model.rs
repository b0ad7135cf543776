//! What the plane knows of the path: the RTT over seconds, and whether it was ever filled.

/// The least RTT of late, and when it is to be measured anew (draft-ietf-ccwg-bbr, "ProbeRTT
/// Logic"; BBR v1 is the case in which the two intervals are the same).
#[derive(Debug, Clone)]
pub(super) struct MinRtt {
    window_us: u64,
    interval_us: u64,
    /// Of the window: what the model takes.
    least: Option<RttAtTime>,
    /// Of the interval.
    recent: Option<RttAtTime>,
}

#[derive(Debug, Clone, Copy)]
struct RttAtTime {
    rtt_us: u64,
    at_us: u64,
}

impl MinRtt {
    /// Remembers for `window_us`; asks for a measurement when nothing lower was seen for
    /// `interval_us`, at most the window.
    pub(super) fn new(window_us: u64, interval_us: u64) -> Self {
        Self {
            window_us,
            interval_us,
            least: None,
            recent: None,
        }
    }

    /// The model's RTT, µs; `None` before the first sample.
    pub(super) fn get(&self) -> Option<u64> {
        self.least.map(|seen| seen.rtt_us)
    }

    /// What is in flight at this bandwidth, bytes/s, without a queue, bytes; 0 before the first
    /// sample.
    pub(super) fn volume(&self, bw: u64) -> u64 {
        let rtt_us = self.get().unwrap_or(0);
        let bytes = u128::from(bw) * u128::from(rtt_us) / 1_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Takes the least sample since the last call. Whether a measurement is due.
    pub(super) fn update(&mut self, now_us: u64, rtt_us: Option<u64>) -> bool {
        let old = |seen: Option<RttAtTime>, than_us: u64| {
            seen.is_some_and(|s| now_us > s.at_us.saturating_add(than_us))
        };
        let due = old(self.recent, self.interval_us);
        let expired = old(self.least, self.window_us);
        if let Some(rtt_us) = rtt_us
            && (due || self.recent.is_none_or(|r| rtt_us < r.rtt_us))
        {
            let at_us = now_us;
            self.recent = Some(RttAtTime { rtt_us, at_us });
        }
        if let Some(recent) = self.recent
            && (expired || self.least.is_none_or(|l| recent.rtt_us < l.rtt_us))
        {
            self.least = Some(recent);
        }
        due
    }

    /// A measurement is done: the next is due an interval from now.
    pub(super) fn measured(&mut self, now_us: u64) {
        if let Some(recent) = &mut self.recent {
            recent.at_us = now_us;
        }
    }
}

/// Whether sending faster still brings more (draft-ietf-ccwg-bbr, "Exiting Acceleration Based on
/// Bandwidth Plateau"; Cardwell et al. 2016): three round trips without a quarter more.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Plateau {
    bw: u64,
    rounds: u32,
}

impl Plateau {
    /// Looking from this bandwidth on, bytes/s.
    pub(super) fn from(bw: u64) -> Self {
        Self { bw, rounds: 0 }
    }

    /// A round trip ended in which the path alone limited the flow. Whether it is full.
    pub(super) fn round(&mut self, bw: u64) -> bool {
        if bw >= self.bw.saturating_add(self.bw / 4).max(1) {
            *self = Self::from(bw);
        } else {
            self.rounds += 1;
        }
        self.rounds >= 3
    }
}
