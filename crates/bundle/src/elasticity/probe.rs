//! One probe: the bundle sends a little less for some round trips, and the network's queue shows whether anyone takes
//! what it leaves.

use std::time::Duration;

use fairwater_net::Time;

/// The bundle gives up this share of its rate × queueing delay / RTT. Window-limited traffic then takes all of it
/// when the queue has fallen by this share at most, whatever the RTT and the bundle's share of the link.
const DEPTH: f64 = 0.2;
/// The greatest share of its rate that the bundle gives up.
const MAX_SHARE: f64 = 0.5;
/// The queue has fallen when this share of it is left: 2.75 times what window-limited traffic explains.
const FALLEN: f64 = 0.45;
/// Most round trips that a probe lasts.
const ROUNDS: u32 = 10;
/// Bounds of a probe's length.
const LEAST_TIME: Duration = Duration::from_millis(300);
const MOST_TIME: Duration = Duration::from_millis(1_500);

/// What a probe saw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProbeResult {
    /// Whether the bundle had enough to send: what a bundle does not send that has nothing to send is not known.
    pub is_valid: bool,
    /// Whether the network's queue fell to less than half, or fell all the time: nobody took what the bundle left.
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

/// Beside traffic that does not answer, the queue of a bundle with this share of the link falls at least so fast that a
/// probe goes on.
const LEAST_SHARE: f64 = 0.4;
/// Round trips before a probe ends early.
const LEAST_ROUNDS: f64 = 3.0;
/// A queue that fell more than by this many times what the bundle left was emptied by something else.
const MOST_OF_LEFT: f64 = 1.0;
/// Time by which the least RTT is behind, s.
const MIN_FILTER: f64 = 0.06;
/// Ticks of a probe, one in so many, in which the bundle may have nothing to send.
const MOST_IDLE: u32 = 5;

/// A probe that runs.
#[derive(Debug, Clone)]
pub(super) struct Probe {
    /// Ticks, and those in which no packet waited.
    ticks: u32,
    idle: u32,
    began: Time,
    before: Duration,
    rtt: Duration,
    share: f64,
    /// Bytes/s.
    rate: f64,
}

impl Probe {
    /// Begins with this base RTT and queueing delay, while the bundle's packets arrive at `receive_rate`, bytes/s.
    /// The bundle gives up `least_share` of it at least.
    pub(super) fn new(
        now: Time,
        (base, queue): (Duration, Duration),
        receive_rate: f64,
        least_share: f64,
    ) -> Self {
        let rtt = base + queue;
        let share = DEPTH * queue.as_secs_f64() / rtt.as_secs_f64().max(1e-6);
        let share = share.max(least_share).min(MAX_SHARE);
        Self {
            ticks: 0,
            idle: 0,
            began: now,
            before: queue,
            rtt,
            share,
            rate: receive_rate * (1.0 - share),
        }
    }

    /// What the bundle sends, bytes/s.
    pub(super) const fn rate(&self) -> f64 {
        self.rate
    }

    /// The result, once there is one, with this queueing delay now. `is_backlogged`: packets wait at the sendbox.
    pub(super) fn update(
        &mut self,
        now: Time,
        queue: Duration,
        is_backlogged: bool,
    ) -> Option<ProbeResult> {
        self.ticks += 1;
        self.idle += u32::from(!is_backlogged);
        let time = now.since(self.began);
        // What is sent now is known a round trip later.
        if time < self.rtt {
            return None;
        }
        let (before, after) = (self.before.as_secs_f64(), queue.as_secs_f64());
        let fell = after <= FALLEN * before;
        let rounds = time.as_secs_f64() / self.rtt.as_secs_f64();
        // The fall is at most the share that the bundle gives up × time; what is seen of it is a round trip old.
        let seen = (time - self.rtt).as_secs_f64();
        let least = self.share * LEAST_SHARE * seen;
        let stands = rounds >= LEAST_ROUNDS && time >= LEAST_TIME && before - after < least;
        let most = (self.rtt * ROUNDS)
            .min(MOST_TIME.max(self.rtt * 4))
            .max(LEAST_TIME);
        let most_fall = self.share * (seen + MIN_FILTER) * MOST_OF_LEFT;
        let had_enough = self.idle * MOST_IDLE <= self.ticks;
        (fell || stands || time >= most).then_some(ProbeResult {
            is_valid: had_enough && (!fell || before - after <= most_fall),
            fell: !stands,
            before: self.before,
            after: queue,
            share: self.share,
            time,
        })
    }
}
