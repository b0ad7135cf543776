//! One probe: the bundle sends a little less for some round trips, and the network's queue shows whether anyone takes
//! what it leaves.

use std::time::Duration;

use fairwater_net::Time;

/// The bundle gives up this share of its rate × queueing delay / RTT. Window-limited traffic then takes all of it
/// when the queue has fallen by this share at most, whatever the RTT and the bundle's share of the link.
const DEPTH: f64 = 0.4;
/// The greatest share of its rate that the bundle gives up.
const MAX_SHARE: f64 = 0.5;
/// The queue has fallen when so little of it is left.
const FALLEN: f64 = 0.3;
/// Round trips that a probe lasts: beside traffic that does not answer, a bundle with a quarter of the link has
/// emptied the queue by then.
const ROUNDS: u32 = 8;
/// Bounds of a probe's length.
const LEAST_TIME: Duration = Duration::from_millis(300);
const MOST_TIME: Duration = Duration::from_millis(1_500);

/// What a probe saw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProbeResult {
    /// Whether the network's queue fell to less than a third: nobody took what the bundle left.
    pub fell: bool,
    /// Queueing delay in the network before, and at the end.
    pub before: Duration,
    /// See `before`.
    pub after: Duration,
    /// Share of its rate that the bundle gave up, 0 to 1.
    pub share: f64,
    /// How long.
    pub time: Duration,
}

/// A probe that runs.
#[derive(Debug, Clone)]
pub(super) struct Probe {
    began: Time,
    before: Duration,
    rtt: Duration,
    share: f64,
    /// Bytes/s.
    rate: f64,
}

impl Probe {
    /// Begins with this base RTT and queueing delay, while the bundle's packets arrive at `receive_rate`, bytes/s.
    pub(super) fn new(now: Time, (base, queue): (Duration, Duration), receive_rate: f64) -> Self {
        let rtt = base + queue;
        let share = DEPTH * queue.as_secs_f64() / rtt.as_secs_f64().max(1e-6);
        let share = share.min(MAX_SHARE);
        Self {
            began: now,
            before: queue,
            rtt,
            share,
            rate: receive_rate * (1.0 - share),
        }
    }

    /// The most that the bundle sends, bytes/s.
    pub(super) const fn rate(&self) -> f64 {
        self.rate
    }

    /// The result, once there is one, with this queueing delay now.
    pub(super) fn update(&self, now: Time, queue: Duration) -> Option<ProbeResult> {
        let time = now.since(self.began);
        // What is sent now is known a round trip later.
        if time < self.rtt {
            return None;
        }
        let fell = queue.as_secs_f64() <= FALLEN * self.before.as_secs_f64();
        let most = (self.rtt * ROUNDS).clamp(LEAST_TIME, MOST_TIME.max(self.rtt * 3));
        (fell || time >= most).then_some(ProbeResult {
            fell,
            before: self.before,
            after: queue,
            share: self.share,
            time,
        })
    }
}
