//! Whether buffer-filling traffic competes with a bundle, under any algorithm and without knowing the bottleneck's
//! rate (Bundler §4.3, §5.1).
//!
//! Nimbus pulses all the time and looks at the spectrum of the cross traffic's rate, which needs μ. The detector here
//! asks the question only when there is a suspicion, and asks it of the queue, which integrates what it is asked: when
//! the bundle sends a little less for some round trips (a *probe*), the network's queue falls further and further if
//! nobody takes what the bundle leaves. Traffic that is limited by windows takes it within one round trip: its
//! packets are clocked by the ACKs of the packets that now get through. The queue then falls once, by the data that the
//! bundle has less in flight, and stands.

mod probe;
mod queue;

use std::fmt;
use std::time::Duration;

use fairwater_net::Time;

use self::probe::Probe;
pub use self::probe::ProbeResult;
use self::queue::NetworkQueue;
use crate::CrossTraffic;

/// The network's queue is long when its mean is above a quarter of the base RTT, within these bounds.
const LONG_OF_BASE: u32 = 4;
const LONG_BOUNDS: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(15));
/// Time constant of the mean.
const MEAN_TIME: f64 = 0.5;
/// How long the queue is long before a bundle probes that an algorithm controls; twice as long each time the queue
/// fell.
const FIRST_PATIENCE: Duration = Duration::from_millis(1_000);
const MOST_PATIENCE: Duration = Duration::from_secs(8);
/// How long the queue is short before the patience is the first again.
const CALM: Duration = Duration::from_secs(10);
/// Probes in a row that decide.
const CONFIRMATIONS: u32 = 2;
/// Time between two probes in pass-through, after one that did not make the queue fall. They begin at multiples of
/// this time on the box's clock: bundles that share a bottleneck probe together, since one alone would take the others'
/// end hosts for elastic.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// The least share that a controlled bundle gives up in a probe: beside a short queue less would be lost in noise.
const LEAST_SHARE: f64 = 0.1;
/// Least time in pass-through before the first probe.
const FIRST_PROBE: Duration = Duration::from_secs(1);
/// Time after a probe before the next that confirms it.
const SETTLE: Duration = Duration::from_millis(300);
/// In pass-through the queue is short for so long: no probe is needed.
const SHORT_TIME: Duration = Duration::from_secs(3);
/// After a return to control, the patience is this for so long: the others may have paused only.
const PROBATION_PATIENCE: Duration = Duration::from_millis(300);
const PROBATION: Duration = Duration::from_secs(15);
/// Time constants of the received rate, of what the bundle has on average, and of the decay of its maximum. An average
/// over a shorter time would follow the algorithm down before a probe has told who fills the queue.
const RATE_TIME: f64 = 0.3;
const USUAL_TIME: f64 = 10.0;
const PEAK_TIME: f64 = 20.0;
/// A bundle with less than this share of that maximum gives way: half as long a queue is long then, since some
/// algorithms give way to a few ms.
const GIVES_WAY: f64 = 0.75;

/// While others fill the queue and no probe has told why, a bundle keeps what it has on average: the averages of all
/// that share a link are together no more than the link carries, so the queue does not grow for long. It keeps nothing
/// if that is more than this share of the most that came lately, since the queue may be of the bundle's own making:
/// BBR's share to drain what it queued (Cardwell et al., ACM Queue 2016).
const LEAST_OF_PEAK: f64 = 0.75;
/// With less than this share of that rate arriving, the path carries less, whatever the bundle sends.
const RATE_STAYS: f64 = 0.6;
/// The queue is short again for so long: the algorithm had time to return to the rate that the bundle kept.
const KEEP_TIME: Duration = Duration::from_secs(1);
/// A queue of at most this part of a long one is empty.
const EMPTY_OF_LONG: u32 = 8;
/// Time constant of the share of the time in which the queue is empty, s.
const EMPTY_TIME: f64 = 3.0;
/// Beside traffic that fills the buffer the queue never empties, if the buffer holds what a flow gives up after a
/// loss; beside other traffic it is empty for the share of the link that nobody uses. This much of that share ends
/// pass-through.
const EMPTY_SHARE: f64 = 0.1;
/// In pass-through probes become rarer, up to this multiple of their interval, while nothing changes.
const MOST_INTERVALS: u32 = 4;
/// All times between probes divide this one.
pub(crate) const LONGEST_INTERVAL: Duration = Duration::from_secs(20);
/// Something has changed when the bundle receives this many times what it has on average: others have left.
const RISE: f64 = 1.3;
/// A longer time between ticks is a pause.
const GAP: Duration = Duration::from_millis(500);

/// Why a detector changed its verdict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Evidence {
    /// The last of the probes that decided.
    Probe(ProbeResult),
    /// The network's queue was short for this time: its mean delay.
    Short(Duration, Duration),
    /// The network's queue was empty for this share of the latest seconds.
    Empty(f64),
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: &Duration| time.as_secs_f64() * 1e3;
        match self {
            Self::Probe(probe) => write!(
                f,
                "the network's queue {} {:.1} to {:.1} ms when the bundle sent {:.0} % less for {:.0} ms",
                if probe.fell {
                    "fell from"
                } else {
                    "went only from"
                },
                ms(&probe.before),
                ms(&probe.after),
                probe.share * 100.0,
                ms(&probe.time)
            ),
            Self::Short(mean, time) => write!(
                f,
                "the network's queue was {:.1} ms long on average for {:.0} ms",
                ms(mean),
                ms(time)
            ),
            Self::Empty(share) => write!(
                f,
                "the network's queue was empty for {:.0} % of the latest {EMPTY_TIME:.0} s",
                share * 100.0
            ),
        }
    }
}

/// What a detector sees of its bundle at a tick.
#[derive(Debug, Clone, Copy)]
pub struct Observation {
    /// The time.
    pub now: Time,
    /// Rate at which the bundle's packets arrive, bytes/s.
    pub receive_rate: Option<f64>,
    /// Whether packets wait at the sendbox.
    pub is_backlogged: bool,
    /// Whether the box limits the bundle: else no probe can run, and the verdict stands.
    pub limits: bool,
}

/// The detector of one bundle.
#[derive(Debug, Clone)]
pub struct Detector {
    queue: NetworkQueue,
    verdict: CrossTraffic,
    /// Mean queueing delay, s.
    mean: f64,
    receive_rate: Option<f64>,
    /// Its maximum, which decays.
    peak_rate: f64,
    /// Its mean over some seconds, and the time over which that was taken so far, s.
    usual_rate: (f64, f64),
    /// Until then the bundle keeps its usual rate, in the queue that others fill.
    keeps_until: Time,
    /// The path carries less than that, and the queue that this made is not empty yet.
    carries_less: bool,
    /// The queue that others had filled is empty: a rate to begin anew at, bytes/s.
    recovery: Option<f64>,
    /// Since when packets wait at the sendbox.
    backlogged_since: Time,
    /// Share of the latest seconds in which the queue was empty, and how much of that ends pass-through.
    empty_share: f64,
    empty_needed: f64,
    /// Multiples of the interval between probes in pass-through.
    intervals: u32,
    last: Time,
    /// Since when the mean is on its present side of the threshold.
    is_long: bool,
    side_since: Time,
    patience: Duration,
    probation_until: Time,
    probe: Option<Probe>,
    /// No probe before this time.
    next_probe: Time,
    /// Probes in a row that spoke against the verdict, and the last of them.
    against: u32,
    result: Option<ProbeResult>,
    /// Shift of the box's probes in time.
    shift: Duration,
}

impl Detector {
    /// A detector whose probes begin at multiples of 5 s and this shift.
    #[must_use]
    pub fn new(shift: Duration) -> Self {
        Self {
            queue: NetworkQueue::default(),
            verdict: CrossTraffic::Inelastic,
            mean: 0.0,
            receive_rate: None,
            peak_rate: 0.0,
            usual_rate: (0.0, 0.0),
            keeps_until: Time::ZERO,
            carries_less: false,
            recovery: None,
            backlogged_since: Time::ZERO,
            empty_share: 0.0,
            empty_needed: EMPTY_SHARE,
            intervals: 1,
            last: Time::ZERO,
            is_long: false,
            side_since: Time::ZERO,
            patience: FIRST_PATIENCE,
            probation_until: Time::ZERO,
            probe: None,
            next_probe: Time::ZERO,
            against: 0,
            result: None,
            shift,
        }
    }

    /// From now on probes begin at multiples of 5 s and this shift.
    pub const fn set_shift(&mut self, shift: Duration) {
        self.shift = shift;
    }

    /// The verdict.
    #[must_use]
    pub const fn verdict(&self) -> CrossTraffic {
        self.verdict
    }

    /// What the bundle sends while a probe runs, bytes/s.
    #[must_use]
    pub fn probe_rate(&self) -> Option<f64> {
        self.probe.as_ref().map(Probe::rate)
    }

    /// Least rate while the bundle is controlled and others fill the queue, until a probe has told who does, bytes/s:
    /// an algorithm that gives way loses no more meanwhile. `None` where the path carries less than before.
    #[must_use]
    pub fn least_rate(&self) -> Option<f64> {
        let is_known = self.verdict == CrossTraffic::Elastic || self.carries_less;
        let keeps = !is_known && self.last < self.keeps_until;
        keeps.then_some(self.kept_rate())
    }

    /// 0 for a bundle that has nearly all that came lately on average: it fills the link, so the queue is its own.
    fn kept_rate(&self) -> f64 {
        let usual = self.usual_rate.0;
        if usual < LEAST_OF_PEAK * self.peak_rate {
            usual
        } else {
            0.0
        }
    }

    /// The rate at which the algorithm may begin anew, once, when the queue is empty that others had filled and the
    /// bundle has something to send, bytes/s.
    pub fn take_recovery(&mut self) -> Option<f64> {
        let rate = self.recovery.take()?;
        self.keeps_until = self.last;
        Some(rate)
    }

    /// An RTT sample of the bundle.
    pub fn on_rtt(&mut self, now: Time, rtt: Duration) {
        let keeps_base = self.verdict == CrossTraffic::Elastic;
        self.queue.on_rtt(now, rtt, keeps_base);
    }

    /// Some ms have passed. Returns the evidence when the verdict changes.
    pub fn on_tick(&mut self, seen: Observation) -> Option<Evidence> {
        let now = seen.now;
        let passed = now.since(self.last);
        self.last = now;
        if passed > GAP {
            // The bundle was idle.
            self.probe = None;
            self.against = 0;
            self.side_since = now;
        }
        let step = passed.as_secs_f64().min(0.1);
        let (base, queue) = self.queue.now(now)?;
        let weight = 1.0 - libm::exp(-step / MEAN_TIME);
        self.mean += weight * (queue.as_secs_f64() - self.mean);
        if let Some(rate) = seen.receive_rate {
            let mean = self.receive_rate.get_or_insert(rate);
            *mean += (1.0 - libm::exp(-step / RATE_TIME)) * (rate - *mean);
            self.peak_rate = (self.peak_rate * libm::exp(-step / PEAK_TIME)).max(*mean);
            let (usual, time) = &mut self.usual_rate;
            *time = (*time + step).min(USUAL_TIME);
            *usual += (step / time.max(step).max(1e-3)) * (rate - *usual);
        }
        if !seen.limits {
            self.probe = None;
            self.against = 0;
            self.side_since = now;
            return None;
        }
        let long = (base / LONG_OF_BASE).clamp(LONG_BOUNDS.0, LONG_BOUNDS.1);
        let gives_way = self.receive_rate.unwrap_or(0.0) < GIVES_WAY * self.peak_rate;
        let long = if gives_way || self.verdict == CrossTraffic::Elastic {
            long / 2
        } else {
            long
        };
        if !seen.is_backlogged {
            self.backlogged_since = now;
        }
        self.keep_rate(now, queue, long);
        let recovers = now < self.keeps_until
            && queue <= long / EMPTY_OF_LONG
            && seen.is_backlogged
            && self.probe.is_none()
            && self.verdict == CrossTraffic::Inelastic;
        self.recovery = recovers.then(|| self.kept_rate());
        let is_empty = f64::from(queue <= long / EMPTY_OF_LONG);
        self.empty_share += (1.0 - libm::exp(-step / EMPTY_TIME)) * (is_empty - self.empty_share);
        let is_long = self.mean > long.as_secs_f64();
        if is_long != self.is_long {
            self.is_long = is_long;
            self.side_since = now;
        }
        if let Some(probe) = &mut self.probe {
            let result = probe.update(now, queue, seen.is_backlogged)?;
            self.probe = None;
            return self.on_result(now, result);
        }
        let lasted = now.since(self.side_since);
        match self.verdict {
            CrossTraffic::Inelastic => {
                if !is_long {
                    self.against = 0;
                    if lasted > CALM {
                        self.patience = FIRST_PATIENCE;
                    }
                    return None;
                }
                let patience = if now < self.probation_until {
                    PROBATION_PATIENCE
                } else {
                    self.patience
                };
                let is_due = lasted >= patience || self.against > 0;
                if is_due && now >= self.next_probe && queue >= long / 2 {
                    self.begin(now, (base, queue));
                }
                None
            }
            CrossTraffic::Elastic => {
                if self.empty_share >= self.empty_needed {
                    let evidence = Evidence::Empty(self.empty_share);
                    return Some(self.change(now, CrossTraffic::Inelastic, evidence));
                }
                let received = self.receive_rate.unwrap_or(0.0);
                if self.intervals > 1 && received > RISE * self.usual_rate.0 {
                    self.intervals = 1;
                    self.next_probe = self.next_probe.min(self.aligned(now));
                }
                if !is_long {
                    if let (true, Some(result)) =
                        (self.against > 0 && now >= self.next_probe, self.result)
                    {
                        return Some(self.change(
                            now,
                            CrossTraffic::Inelastic,
                            Evidence::Probe(result),
                        ));
                    }
                    if lasted >= SHORT_TIME {
                        let mean = Duration::from_secs_f64(self.mean.max(0.0));
                        let evidence = Evidence::Short(mean, lasted);
                        return Some(self.change(now, CrossTraffic::Inelastic, evidence));
                    }
                    return None;
                }
                if now >= self.next_probe && queue.as_secs_f64() > 0.5 * self.mean {
                    self.begin(now, (base, queue));
                }
                None
            }
        }
    }

    /// The bundle was not seen for a while, or its path is another: begins anew.
    pub fn restart(&mut self) {
        *self = Self::new(self.shift);
    }

    fn begin(&mut self, now: Time, seen: (Duration, Duration)) {
        if let Some(rate) = self.receive_rate {
            let least_share = match self.verdict {
                CrossTraffic::Inelastic => LEAST_SHARE,
                CrossTraffic::Elastic => 0.0,
            };
            self.probe = Some(Probe::new(now, seen, rate, least_share));
        }
    }

    fn on_result(&mut self, now: Time, result: ProbeResult) -> Option<Evidence> {
        if !result.is_valid && self.verdict == CrossTraffic::Elastic {
            self.next_probe = now + SETTLE;
            return None;
        }
        let is_against = result.fell == (self.verdict == CrossTraffic::Elastic);
        if is_against {
            self.against += 1;
            self.result = Some(result);
            if self.against >= CONFIRMATIONS {
                let verdict = match self.verdict {
                    CrossTraffic::Inelastic => CrossTraffic::Elastic,
                    CrossTraffic::Elastic => CrossTraffic::Inelastic,
                };
                return Some(self.change(now, verdict, Evidence::Probe(result)));
            }
            self.next_probe = match self.verdict {
                CrossTraffic::Inelastic => now,
                CrossTraffic::Elastic => now + SETTLE,
            };
            return None;
        }
        self.against = 0;
        if self.verdict == CrossTraffic::Inelastic {
            self.patience = (self.patience * 2).min(MOST_PATIENCE);
            self.probation_until = now;
            self.side_since = now;
            self.is_long = false;
            self.mean = result.after.as_secs_f64();
        } else {
            self.intervals = (self.intervals * 2).min(MOST_INTERVALS);
            self.next_probe = self.aligned(now);
        }
        None
    }

    /// Whether the bundle keeps its usual rate, with this queue, of which `long` is long.
    fn keep_rate(&mut self, now: Time, queue: Duration, long: Duration) {
        let received = self.receive_rate.unwrap_or(0.0);
        if self.carries_less {
            // What the bundle had before says nothing any more.
            self.keeps_until = now;
            self.peak_rate = received;
            self.usual_rate.0 = received;
            self.carries_less = queue > long / EMPTY_OF_LONG;
            return;
        }
        if queue > long / 2 {
            self.keeps_until = now + KEEP_TIME;
        }
        let had_enough = now.since(self.backlogged_since).as_secs_f64() > 2.0 * RATE_TIME;
        let is_less = received < RATE_STAYS * self.kept_rate();
        self.carries_less = now < self.keeps_until && had_enough && is_less;
    }

    fn change(&mut self, now: Time, verdict: CrossTraffic, evidence: Evidence) -> Evidence {
        self.verdict = verdict;
        self.against = 0;
        self.result = None;
        self.side_since = now;
        self.patience = FIRST_PATIENCE;
        self.intervals = 1;
        self.next_probe = match verdict {
            CrossTraffic::Inelastic => {
                self.probation_until = now + PROBATION;
                now
            }
            CrossTraffic::Elastic => {
                // An empty queue that did not mean that the others were gone means less the next time.
                let is_relapse = now < self.probation_until;
                self.empty_needed = if is_relapse {
                    (2.0 * self.empty_needed).min(0.8)
                } else {
                    EMPTY_SHARE
                };
                self.empty_share = 0.0;
                self.aligned(now + FIRST_PROBE)
            }
        };
        evidence
    }

    /// The next time at which bundles of this box probe.
    fn aligned(&self, now: Time) -> Time {
        let interval = (PROBE_INTERVAL * self.intervals).as_nanos() as u64;
        let shift = self.shift.as_nanos() as u64 % interval;
        let periods = now.as_nanos().saturating_sub(shift) / interval + 1;
        Time::from_nanos(periods * interval + shift)
    }
}
