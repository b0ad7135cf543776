//! What Copa decides a few times per round trip: RTTmin, the velocity, the mode and δ.

use crate::windowed::{WindowedMax, WindowedMin};

/// Window of RTTmin, µs (NSDI '18 §2.1).
const BASE_WINDOW_US: u64 = 10_000_000;
/// Round trips in one direction before velocity doubles (NSDI '18 §2.1).
const STEADY_ROUNDS: u32 = 3;
/// Greatest velocity. The datapath at most doubles cwnd in a round trip anyway, and a step down is at
/// most half of what the flow has in the queue.
pub(super) const MAX_VELOCITY: u64 = 1 << 16;
/// In a bundle, cwnd rises by at most 1/16 of itself in a round trip, until cwnd has risen for [`GENTLE_ROUNDS`]. The
/// bundle's applications hold cwnd back at times; the velocity of the following rise would overshoot. After others
/// have filled the queue for a moment, 1/32 leaves the link half empty for seconds; 1/8 overshoots when capacity comes back.
const GENTLE_PART: f64 = 16.0;
/// Round trips of rising cwnd after which the velocity of a bundle's Copa is bounded no longer.
const GENTLE_ROUNDS: u32 = 12;
/// Round trips without an empty queue after which other flows are taken to fill it (NSDI '18 §2.2).
const DETECTION_ROUNDS: u64 = 5;
/// The same for a flow that has not competed for [`RECENT_US`] and lost nothing for
/// [`LOSS_ROUNDS`]: as long as a newcomer of its like may need to converge.
const LONG_DETECTION_ROUNDS: u64 = 20;
const RECENT_US: u64 = 10_000_000;
const LOSS_ROUNDS: u64 = 10;
/// Packets that one ACK lets out together.
const TOGETHER: f64 = 2.0;
/// Window of RTTmax, round trips (NSDI '18 §2.2).
const GREATEST_ROUNDS: u64 = 4;
/// Longest time between two tests of whether competitive mode is still needed, µs.
const TEST_EACH_US: u64 = 10_000_000;
/// Round trips spent draining the queue before RTTmin is raised.
const DRAIN_ROUNDS: u64 = DETECTION_ROUNDS + 2;
/// Time after the beginning of competitive mode in which RTTmin is not raised, µs.
const MEMORY_US: u64 = 120_000_000;
/// Two tests met the same RTT if their least RTTs differ by at most this part of the excess over
/// RTTmin.
const SAME_PART: u64 = 50;
/// A round trip that loses more than this part of cwnd, and more than one packet, shows a queue
/// that overflows unseen: RTTmin was measured while the queue was full.
const OVERFLOW_PART: u64 = 8;
/// Round trips without another such overflow after which the bound of cwnd ends.
const OVERFLOW_ROUNDS: u32 = 16;
/// Greatest 1/δ, packets: no fair share of a queue is larger.
const MAX_SHARE: f64 = 10_000.0;

/// Which modes a flow may be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CopaMode {
    /// Default mode, or competitive mode while buffer-filling flows share the queue.
    #[default]
    Auto,
    /// As [`Self::Auto`], by the paper's detector alone: several Copa flows lock each other into
    /// competitive mode. For comparison.
    Paper,
    /// Default mode alone.
    Default,
}

/// What was seen since the last reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The datapath's time, µs.
    pub(crate) time_us: u64,
    /// Bytes.
    pub(crate) cwnd: u64,
    /// The same in packets.
    pub(crate) cwnd_packets: u64,
    /// The least and the greatest RTT sample, µs; `None` without a sample.
    pub(crate) rtt_us: Option<(u64, u64)>,
    /// The smoothed RTT, µs.
    pub(crate) srtt_us: u64,
    /// Packets lost.
    pub(crate) lost: u64,
    /// The flow is in slow start, which has no velocity.
    pub(crate) slow_start: bool,
}

/// What holds until the next reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Setting {
    /// RTTmin, µs; `u64::MAX` before the first sample.
    pub(crate) base_us: u64,
    /// 1/δ: packets that the flow wants to have in the queue.
    pub(crate) share: f64,
    /// v, while cwnd moves where `heading` says; it is 1 against it.
    pub(crate) velocity: u64,
    /// Whether cwnd rose in the last round trip.
    pub(crate) heading: bool,
    /// Upper bound of cwnd, bytes; `u64::MAX` without one.
    pub(crate) ceiling: u64,
    /// cwnd to go back to now, bytes; 0 is none.
    pub(crate) restored: u64,
}

impl Setting {
    /// cwnd, in packets, after `acked` packets at this standing RTT: what the datapath program
    /// does at each ACK, for an algorithm that runs in the plane alone. Leaves out `ceiling`.
    pub(crate) fn step(&self, cwnd: f64, standing_us: u64, acked: f64) -> f64 {
        let queueing_us = standing_us.saturating_sub(self.base_us) as f64;
        let queued = cwnd * queueing_us / standing_us.max(1) as f64;
        let up = queued <= self.share;
        let velocity = if up == self.heading { self.velocity } else { 1 };
        let wanted = self.share * velocity as f64;
        if up {
            cwnd + wanted.min(cwnd) * acked / cwnd
        } else {
            (cwnd - wanted.min(self.share.max(queued / 2.0)) * acked / cwnd).max(2.0)
        }
    }
}

/// The state of one flow.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    mode: CopaMode,
    /// 1/δ of default mode.
    share: f64,
    base: WindowedMin,
    greatest: WindowedMax,
    /// When the queue was nearly empty last, or what waits was this flow's own doing, µs.
    empty_at: u64,
    /// When it was last in competitive mode, µs.
    competed_at: Option<u64>,
    /// When it last lost packets out of slow start, µs.
    lost_at: Option<u64>,
    /// Slow start's overshoot is drained.
    settled: bool,
    contest: Option<Contest>,
    round: Option<Round>,
    same: u32,
    /// Packets lost in this round trip.
    lost: u64,
    recovering_until_us: u64,
    /// RTTmin does not rise before, µs.
    base_until_us: Option<u64>,
    /// After an overflow: the bound of cwnd, bytes, and the round trips that it has held.
    overflow: Option<(u64, u32)>,
    slow_start: bool,
    is_gentle: bool,
    setting: Setting,
}

/// Competitive mode.
#[derive(Debug, Clone, Copy)]
struct Contest {
    /// 1/δ.
    share: f64,
    /// It began, µs.
    began_us: u64,
    /// It began, or was put to the test, µs.
    since_us: u64,
    /// When it is tested next: soon at first, in case that it was a mistake, µs.
    test_after_us: u64,
    /// The test goes on until then, µs.
    test_until_us: Option<u64>,
    /// cwnd during the test, bytes: what is on the path without a queue.
    test_cwnd: u64,
    /// The least RTT of this test and of the one before, µs.
    test_least_us: u64,
    former_least_us: Option<u64>,
    /// cwnd before the test, bytes.
    former_cwnd: u64,
}

impl Contest {
    fn new(share: f64, now_us: u64, test_after_us: u64) -> Self {
        Self {
            share,
            began_us: now_us,
            since_us: now_us,
            test_after_us,
            test_until_us: None,
            test_cwnd: u64::MAX,
            former_cwnd: 0,
            test_least_us: u64::MAX,
            former_least_us: None,
        }
    }

    fn test_is_due(&self, now_us: u64) -> bool {
        now_us.saturating_sub(self.since_us) > self.test_after_us
    }

    /// Ends a test that met no empty queue. Whether the path became longer: the test before met the
    /// same least RTT, and a queue that others fill would have changed.
    fn end_test(&mut self, now_us: u64, base_us: u64) -> bool {
        self.test_until_us = None;
        self.since_us = now_us;
        self.test_after_us = (2 * self.test_after_us).min(TEST_EACH_US);
        let least_us = self.test_least_us;
        let excess_us = least_us.saturating_sub(base_us);
        let former = self.former_least_us.replace(least_us);
        former.is_some_and(|former_us| {
            former_us.abs_diff(least_us).saturating_mul(SAME_PART) <= excess_us
        })
    }
}

#[derive(Debug, Clone, Copy)]
struct Round {
    start_us: u64,
    cwnd: u64,
}

impl Rules {
    pub(crate) fn new(delta: f64, mode: CopaMode) -> Self {
        let share = 1.0 / delta;
        Self {
            mode,
            share,
            base: WindowedMin::default(),
            greatest: WindowedMax::default(),
            empty_at: 0,
            competed_at: None,
            lost_at: None,
            settled: false,
            contest: None,
            round: None,
            same: 0,
            lost: 0,
            recovering_until_us: 0,
            base_until_us: None,
            overflow: None,
            slow_start: true,
            is_gentle: false,
            setting: Setting {
                base_us: u64::MAX,
                share,
                velocity: 1,
                heading: true,
                ceiling: u64::MAX,
                restored: 0,
            },
        }
    }

    /// Bounds the velocity: see [`GENTLE_PART`].
    pub(crate) fn gentle(self) -> Self {
        Self {
            is_gentle: true,
            ..self
        }
    }

    /// Changes δ of default mode.
    pub(crate) fn set_delta(&mut self, delta: f64) {
        self.share = 1.0 / delta;
    }

    /// What holds now.
    pub(crate) fn setting(&self) -> Setting {
        self.setting
    }

    /// Takes a reading; several may come in a round trip.
    pub(crate) fn observe(&mut self, reading: &Reading) -> Setting {
        // What is lost within a round trip of a reduction was sent before it (RFC 6582 §3.2).
        if reading.time_us >= self.recovering_until_us {
            self.lost = self.lost.saturating_add(reading.lost);
        }
        if self.slow_start != reading.slow_start {
            self.slow_start = reading.slow_start;
            self.settled = false;
            if let Some(contest) = &mut self.contest {
                // A timeout in a test: cwnd before says nothing any more.
                contest.former_cwnd = 0;
            }
            if reading.slow_start {
                self.overflow = None;
            }
            // Where cwnd went before says nothing of where it goes now.
            self.round = None;
            (self.setting.heading, self.setting.velocity) = if reading.slow_start {
                (true, 1)
            } else {
                (false, MAX_VELOCITY)
            };
        }
        if reading.lost > 0 && !reading.slow_start {
            self.lost_at = Some(reading.time_us);
        }
        self.setting.restored = 0;
        match reading.rtt_us {
            Some((least, greatest)) if self.mode == CopaMode::Paper => {
                self.watch_queue_by_the_paper(reading, least, greatest);
            }
            Some((least, greatest)) => self.watch_queue(reading, least, greatest),
            None => {}
        }
        match self.round {
            Some(round) if reading.time_us.saturating_sub(round.start_us) < reading.srtt_us => {}
            round => {
                if let Some(round) = round {
                    self.end_round(reading, round);
                }
                self.round = Some(Round {
                    start_us: reading.time_us,
                    cwnd: reading.cwnd,
                });
            }
        }
        self.setting.share = match self.contest {
            Some(contest) if contest.test_until_us.is_none() => contest.share,
            _ => self.share,
        };
        self.setting.ceiling = self.ceiling();
        self.setting
    }

    /// NSDI '18 §2.2: the queue is nearly empty when the queueing delay is below a tenth of its
    /// range. A Copa flow among its like sees that each five round trips. Where the range is but
    /// some packets, as with 1/δ of a few, two that one ACK lets out are more than a tenth; so the
    /// lower half is nearly empty as well, if this flow has no more than 1/δ packets there.
    fn watch_queue(&mut self, reading: &Reading, least: u64, greatest: u64) {
        let now = reading.time_us;
        let base = self.update_base(reading, least);
        let window = GREATEST_ROUNDS.saturating_mul(reading.srtt_us);
        let greatest = self.greatest.update(now, greatest, window);
        let range = greatest.saturating_sub(base);
        let own = self.share.max(TOGETHER);
        let own_us = (own * least as f64 / reading.cwnd_packets.max(1) as f64) as u64;
        if least.saturating_sub(base) <= own_us.min(range / 2).max(range / 10) {
            self.empty_at = now;
            self.settled = true;
            let test = self.contest.take().filter(|c| c.test_until_us.is_some());
            self.setting.restored = test.map_or(0, |contest| contest.former_cwnd);
        }
        if !self.settled {
            self.empty_at = now;
        }
        if self.mode == CopaMode::Default
            || now.saturating_sub(self.empty_at) <= self.detection_us(reading)
        {
            return;
        }
        self.competed_at = Some(now);
        let detection_us = DETECTION_ROUNDS.saturating_mul(reading.srtt_us.min(MEMORY_US));
        let first_test_us = (2 * detection_us).min(TEST_EACH_US);
        let contest = self
            .contest
            .get_or_insert(Contest::new(self.share, now, first_test_us));
        // What a flow by itself queues in competitive mode may be too much for its oscillation to
        // drain: so take that out, now and then, and see who is left.
        match contest.test_until_us {
            Some(until) if now >= until => {
                self.setting.restored = contest.former_cwnd;
                if contest.end_test(now, base) {
                    self.contest = None;
                    self.empty_at = now;
                }
            }
            Some(_) => contest.test_least_us = contest.test_least_us.min(least),
            None if contest.test_is_due(now) => {
                let path = reading.cwnd as f64 * base as f64 / reading.srtt_us.max(1) as f64;
                contest.test_until_us = Some(now.saturating_add(detection_us));
                contest.test_least_us = least;
                contest.test_cwnd = path as u64;
                contest.former_cwnd = reading.cwnd;
                self.drain();
            }
            None => {}
        }
    }

    /// For how long the queue may stay unemptied before the flow competes, µs. The paper's five round
    /// trips are shorter than the convergence of a newcomer, and flows that compete for that reason
    /// keep each other competing. Flows that fill the buffer stay, and make it overflow.
    fn detection_us(&self, reading: &Reading) -> u64 {
        let within = |at: Option<u64>, us: u64| {
            at.is_some_and(|at| reading.time_us.saturating_sub(at) <= us)
        };
        let srtt_us = reading.srtt_us.min(MEMORY_US);
        let alarmed = self.contest.is_some()
            || within(self.competed_at, RECENT_US)
            || within(self.lost_at, LOSS_ROUNDS.saturating_mul(srtt_us));
        let rounds = if alarmed {
            DETECTION_ROUNDS
        } else {
            LONG_DETECTION_ROUNDS
        };
        rounds.saturating_mul(srtt_us)
    }

    /// NSDI '18 §2.2 and nothing else: the queue is nearly empty below a tenth of its range.
    fn watch_queue_by_the_paper(&mut self, reading: &Reading, least: u64, greatest: u64) {
        let now = reading.time_us;
        let base = self.base.update(now, least, BASE_WINDOW_US);
        self.setting.base_us = base;
        let window = GREATEST_ROUNDS.saturating_mul(reading.srtt_us);
        let greatest = self.greatest.update(now, greatest, window);
        if least.saturating_sub(base) <= greatest.saturating_sub(base) / 10 {
            self.empty_at = now;
            self.contest = None;
        }
        let detection_us = DETECTION_ROUNDS.saturating_mul(reading.srtt_us);
        if now.saturating_sub(self.empty_at) > detection_us {
            self.contest
                .get_or_insert(Contest::new(self.share, now, u64::MAX));
        }
    }

    /// The bound of cwnd while a test or an overflow holds the flow back.
    fn ceiling(&self) -> u64 {
        let test = self.contest.filter(|c| c.test_until_us.is_some());
        let test = test.map_or(u64::MAX, |contest| contest.test_cwnd);
        self.overflow.map_or(test, |(cwnd, _)| cwnd.min(test))
    }

    /// Halves cwnd when an overflowing queue lost much in a round trip and the delay says nothing of
    /// it; lets cwnd grow by a packet a round trip until the delay does (RFC 5681 §3.1), or for
    /// [`OVERFLOW_ROUNDS`]. The paper has no answer, and cwnd would grow for ever.
    fn heed_overflow(&mut self, reading: &Reading, lost: u64) {
        let sent = reading.cwnd_packets;
        let delay_us = reading.srtt_us.saturating_sub(self.setting.base_us);
        let queued = sent as f64 * delay_us as f64 / reading.srtt_us.max(1) as f64;
        if self.mode == CopaMode::Paper || queued > self.setting.share.max(TOGETHER) {
            self.overflow = None;
            return;
        }
        if lost > 1 && lost.saturating_mul(OVERFLOW_PART) > sent {
            self.overflow = Some((reading.cwnd / 2, 0));
            self.recovering_until_us = reading.time_us.saturating_add(reading.srtt_us);
        } else {
            self.overflow = self
                .overflow
                .filter(|(_, rounds)| *rounds < OVERFLOW_ROUNDS)
                .map(|(cwnd, rounds)| {
                    (cwnd.saturating_add(reading.cwnd / sent.max(1)), rounds + 1)
                });
        }
    }

    /// RTTmin. Before it takes a greater one for true, the flow takes its packets out of the queue
    /// for some round trips: a queue that never empties looks like a longer path.
    fn update_base(&mut self, reading: &Reading, least: u64) -> u64 {
        let now = reading.time_us;
        let seen = self.base.update(now, least, BASE_WINDOW_US);
        let former = self.setting.base_us;
        let kept = match &self.contest {
            // While others fill the queue no RTT is without it, and 10 s are soon over.
            Some(contest) => now.saturating_sub(contest.began_us) < MEMORY_US,
            None if seen > former && self.base_until_us.is_none() => {
                let rounds = DRAIN_ROUNDS.saturating_mul(reading.srtt_us);
                self.base_until_us = Some(now.saturating_add(rounds));
                self.drain();
                true
            }
            None => self.base_until_us.is_some_and(|until| now < until),
        };
        let base = if kept { seen.min(former) } else { seen };
        if base == seen {
            self.base_until_us = None;
        }
        self.setting.base_us = base;
        base
    }

    /// Down, as fast as may be, until cwnd rises again.
    fn drain(&mut self) {
        self.setting.heading = false;
        self.setting.velocity = MAX_VELOCITY;
    }

    /// The greatest velocity for now.
    fn most_velocity(&self, reading: &Reading) -> u64 {
        if !self.is_gentle || !self.setting.heading || self.same > GENTLE_ROUNDS {
            return MAX_VELOCITY;
        }
        let packets = reading.cwnd_packets as f64 / GENTLE_PART;
        ((packets / self.setting.share) as u64).clamp(1, MAX_VELOCITY)
    }

    fn end_round(&mut self, reading: &Reading, round: Round) {
        let lost = std::mem::take(&mut self.lost);
        if let Some(contest) = &mut self.contest {
            // NSDI '18 §2.2: as NewReno does with cwnd, so competitive mode with 1/δ.
            if lost > 0 {
                contest.share = (contest.share / 2.0).max(self.share);
                self.recovering_until_us = reading.time_us.saturating_add(reading.srtt_us);
            } else if contest.test_until_us.is_none() {
                contest.share = (contest.share + 1.0).min(MAX_SHARE.max(self.share));
            }
        }
        self.heed_overflow(reading, lost);
        // NSDI '18 §2.1.
        let heading = match reading.cwnd.cmp(&round.cwnd) {
            std::cmp::Ordering::Equal => self.setting.heading,
            order => order.is_gt(),
        };
        if reading.slow_start || heading != self.setting.heading {
            self.settled |= heading && !reading.slow_start;
            self.same = 0;
            self.setting.velocity = 1;
        } else {
            self.same = self.same.saturating_add(1);
            if self.same >= STEADY_ROUNDS {
                self.setting.velocity =
                    (2 * self.setting.velocity).min(self.most_velocity(reading));
            }
        }
        self.setting.heading = heading;
    }
}

impl crate::parameter::Named for CopaMode {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("paper", Self::Paper),
        ("default", Self::Default),
    ];
}
