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
/// this time on the box's clock: bundles of one box that share a bottleneck probe together, since one alone would take
/// the others' end hosts for elastic.
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
/// Time constant of the received rate, and of the decay of its maximum.
const RATE_TIME: f64 = 0.3;
const PEAK_TIME: f64 = 20.0;
/// A bundle with less than this share of that maximum gives way: half as long a queue is long then, since some
/// algorithms give way to a few ms.
const GIVES_WAY: f64 = 0.75;

/// Least share of its rate that a bundle keeps while the queue is long and no probe has told why.
const LEAST_OF_RATE: f64 = 0.7;
/// With less than this share of the former rate arriving, the path carries less, whatever the bundle sends.
const RATE_STAYS: f64 = 0.6;
/// A longer time between ticks is a pause.
const GAP: Duration = Duration::from_millis(500);

/// Why a detector changed its verdict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Evidence {
    /// The last of the probes that decided.
    Probe(ProbeResult),
    /// The network's queue was short for this time: its mean delay.
    Short(Duration, Duration),
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
    /// The mean when the queue became long.
    rate_before: f64,
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
            rate_before: 0.0,
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

    /// Least rate while the bundle is controlled and the queue is long, until a probe has told who fills the queue,
    /// bytes/s: an algorithm that gives way to buffer-filling traffic loses no more meanwhile. `None` where the path
    /// carries less than before.
    #[must_use]
    pub fn least_rate(&self) -> Option<f64> {
        let is_suspicion = self.is_long && self.verdict == CrossTraffic::Inelastic;
        let stays = self.receive_rate? > RATE_STAYS * self.rate_before;
        (is_suspicion && stays).then_some(LEAST_OF_RATE * self.rate_before)
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
        let is_long = self.mean > long.as_secs_f64();
        if is_long && !self.is_long {
            self.rate_before = self.receive_rate.unwrap_or(0.0);
        }
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
            self.next_probe = self.aligned(now);
        }
        None
    }

    fn change(&mut self, now: Time, verdict: CrossTraffic, evidence: Evidence) -> Evidence {
        self.verdict = verdict;
        self.against = 0;
        self.result = None;
        self.side_since = now;
        self.patience = FIRST_PATIENCE;
        self.next_probe = match verdict {
            CrossTraffic::Inelastic => {
                self.probation_until = now + PROBATION;
                now
            }
            CrossTraffic::Elastic => self.aligned(now + FIRST_PROBE),
        };
        evidence
    }

    /// The next time at which bundles of this box probe.
    fn aligned(&self, now: Time) -> Time {
        let interval = PROBE_INTERVAL.as_nanos() as u64;
        let shift = self.shift.as_nanos() as u64 % interval;
        let periods = now.as_nanos().saturating_sub(shift) / interval + 1;
        Time::from_nanos(periods * interval + shift)
    }
}
