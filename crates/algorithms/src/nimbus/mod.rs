//! Nimbus (Goyal et al., "Elasticity detection: a building block for delay-sensitive congestion
//! control"; CCP §6.1; Bundler §4.3): delay control, but a TCP's where the cross traffic is
//! elastic, which its answer to pulses tells.

mod competitive;
mod delay;
mod elasticity;
mod link_estimate;
mod pressure;
mod pulse;

use std::collections::VecDeque;
use std::sync::Arc;

use fairwater_plane::{
    Algorithm, AlgorithmError, Control, Flow, FlowInfo, MAX_RATE, Programs, Report,
};

use crate::bundle::is_bundle;
use crate::parameter::{Configuration, ParameterField, ParameterSpec};
use crate::rate_control::drain::{Drain, Phase};
use crate::rate_control::{Counts, EMPTY_US, Handles, MEMORY_US, Meter};
use competitive::Competitor;
pub use competitive::NimbusCompetitive;
use delay::Delay;
pub use delay::NimbusDelay;
use elasticity::{Detector, Plan, THRESHOLD, WINDOW_US};
use link_estimate::LinkEstimate;
pub use pressure::NimbusConfirm;
use pressure::Pressure;
use pulse::Pulses;

/// How a [`Nimbus`] behaves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NimbusConfig {
    /// μ, the bottleneck's rate, bytes/s of IP packets, from 1 to [`MAX_RATE`]; `None` is the
    /// greatest rate at which packets were received.
    pub capacity: Option<u64>,
    /// What runs while cross traffic is inelastic.
    pub delay: NimbusDelay,
    /// What runs while cross traffic is elastic.
    pub competitive: NimbusCompetitive,
    /// Whether a flow competes only where delay control does not hold the queue.
    pub confirm: NimbusConfirm,
    /// d_t: the queueing delay that delay control aims at, µs, from 500 µs to 1 s.
    pub target_us: u64,
    /// Least rate as a share of μ, from 0.01 to 0.25: pulses are cut from it, and S and R need packets.
    /// More than 1/share flows at one bottleneck overcommit it.
    pub least_share: f64,
    /// Header bytes of each packet that the rates of the flow do not count, and `capacity` does:
    /// the flow's bytes are TCP payload. 0 where the datapath counts IP packets, as a bundle's;
    /// up to 1,000.
    pub header_bytes: u64,
    /// How often flows report, µs, from 2,000 to 25,000: two samples for each period of twice the
    /// pulses' frequency at least.
    pub report_us: u64,
}

impl Default for NimbusConfig {
    fn default() -> Self {
        Self {
            capacity: None,
            delay: NimbusDelay::default(),
            competitive: NimbusCompetitive::default(),
            confirm: NimbusConfirm::default(),
            target_us: 12_500,
            least_share: 0.125,
            header_bytes: 52,
            report_us: 10_000,
        }
    }
}

impl Configuration for NimbusConfig {
    const NAME: &'static str = "nimbus";
    const SUMMARY: &'static str =
        "Nimbus (Goyal et al.): delay control, or TCP's beside elastic traffic";
    const PARAMETERS: &'static [ParameterSpec<Self>] = &[
        ParameterSpec::<Self>::new("capacity", "rate of the bottleneck", |c| {
            ParameterField::OptionalRate(&mut c.capacity, 1..=MAX_RATE)
        })
        .by_default("the greatest rate seen"),
        ParameterSpec::<Self>::new("delay", "what runs while cross traffic is inelastic", |c| {
            ParameterField::Word(&mut c.delay)
        }),
        ParameterSpec::<Self>::new(
            "competitive",
            "what runs while cross traffic is elastic",
            |c| ParameterField::Word(&mut c.competitive),
        ),
        ParameterSpec::<Self>::new(
            "confirm",
            "whether it competes only where delay control does not hold the queue; `auto`: if \
             `capacity` is set, or for a bundle",
            |c| ParameterField::Word(&mut c.confirm),
        ),
        ParameterSpec::<Self>::new("target", "the queueing delay that is aimed at", |c| {
            ParameterField::Micros(&mut c.target_us, 500..=1_000_000)
        }),
        ParameterSpec::<Self>::new(
            "least",
            "least rate as a share of the bottleneck's; so many flows must not overcommit it",
            |c| ParameterField::Decimal(&mut c.least_share, 0.01..=0.25, "a number"),
        ),
        ParameterSpec::<Self>::new(
            "headers",
            "header bytes of a packet that `capacity` counts and the flow does not: 0 for a bundle",
            |c| ParameterField::Number(&mut c.header_bytes, 0..=1_000, "a number of bytes"),
        ),
        ParameterSpec::<Self>::new("report", "how often flows report", |c| {
            ParameterField::Micros(&mut c.report_us, 2_000..=25_000)
        }),
    ];

    fn build(self, programs: &mut Programs) -> Result<Box<dyn Algorithm>, AlgorithmError> {
        Ok(Box::new(Nimbus::new(programs, self)?))
    }
}

/// Window of z for the spectrum, µs: half a pulse. A shorter window would show more of the pulses,
/// but also each packet.
const SHORT_US: u64 = 100_000;
/// Window of S and z for control, µs: whole pulses, which average out.
const LONG_US: u64 = pulse::PERIOD_US;
/// Consecutive values of η, one each 100 ms, that must agree before the control changes: those of
/// noise seldom do.
const CONFIRMATIONS: u32 = 10;
/// With more loss than this, delay control sends no more than what gets through: the buffer is
/// shorter than its target.
const LOSS_SHARE: f64 = 0.02;
/// Greatest rate, as a share of the bottleneck's: above 1, so that a queue can be built.
const MOST_SHARE: f64 = 1.1;
/// The same where the bottleneck's rate is only what was found so far.
const MOST_FOUND: f64 = 2.0;
/// While the queue is empty and μ is not set, the rate doubles in a round trip and a pulse, up to the
/// highest rate received so far; above that rate it grows by this share of itself instead.
const BEYOND: f64 = 0.25;

/// Nimbus.
#[derive(Debug)]
pub struct Nimbus {
    config: NimbusConfig,
    plan: Plan,
    handles: Arc<Handles>,
}

impl Nimbus {
    /// Compiles the program and plans the transform.
    ///
    /// # Errors
    /// [`AlgorithmError::OutOfRange`] for a capacity or a report period out of its range.
    pub fn new(programs: &mut Programs, config: NimbusConfig) -> Result<Self, AlgorithmError> {
        config.check()?;
        let handles = Handles::load(programs, "nimbus", config.report_us, config.target_us)?;
        Ok(Self {
            config,
            plan: Plan::new(config.report_us),
            handles: Arc::new(handles),
        })
    }

    /// A flow, for whoever wants to look into it: [`NimbusFlow::is_competitive`].
    pub fn flow(&self, info: &FlowInfo, control: &mut Control) -> NimbusFlow {
        self.handles.begin(info, control);
        let is_told = self.config.capacity.is_some();
        NimbusFlow {
            config: self.config,
            handles: Arc::clone(&self.handles),
            meter: Meter::new(info, self.config.report_us),
            pulses: Pulses::of(info),
            found: LinkEstimate::default(),
            detector: Detector::new(&self.plan),
            delay: Delay::new(self.config.delay, self.config.target_us),
            cross: 0.0,
            busy_us: info.now_us,
            empty_until_us: 0,
            doubts: 0,
            competitor: None,
            drain: Drain::new(info.now_us),
            pressure: self.confirms(info).then(|| Pressure::new(is_told)),
            gave_way_us: 0,
            rate: None,
            former: VecDeque::with_capacity(
                (WINDOW_US / self.config.report_us.max(1)) as usize + 2,
            ),
        }
    }

    /// Whether the flow competes only where delay control does not hold the queue.
    fn confirms(&self, info: &FlowInfo) -> bool {
        match self.config.confirm {
            NimbusConfirm::Auto => self.config.capacity.is_some() || is_bundle(info),
            NimbusConfirm::Always => true,
            NimbusConfirm::Never => false,
        }
    }
}

impl Algorithm for Nimbus {
    fn name(&self) -> &str {
        "nimbus"
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
        Box::new(self.flow(info, control))
    }

    /// It paces.
    fn idle_restart(&self) -> bool {
        false
    }

    /// It lays pulses over its rate, and sees by them whether cross traffic answers. What a window
    /// sends is clocked by ACKs: it answers to cross traffic itself, and its pulses come a round
    /// trip late and smeared over it.
    fn needs_rate(&self) -> bool {
        true
    }
}

/// What the rules inside see of a report.
#[derive(Debug, Clone, Copy)]
struct Observed {
    time_us: u64,
    /// Since the last report.
    since_us: u64,
    /// The least RTT since the last report, and of [`MEMORY_US`].
    rtt_us: u64,
    base_us: u64,
    mss: f64,
    /// μ, S and z, bytes/s; the latter two over [`LONG_US`].
    capacity: f64,
    sent: f64,
    cross: f64,
    /// R, bytes/s, and the share of packets lost, over the same time.
    received: f64,
    lost_share: f64,
    /// Bytes since the last report.
    acked: f64,
    lost: f64,
}

/// A flow of [`Nimbus`].
#[derive(Debug)]
pub struct NimbusFlow {
    config: NimbusConfig,
    handles: Arc<Handles>,
    meter: Meter,
    pulses: Pulses,
    found: LinkEstimate,
    detector: Detector,
    delay: Delay,
    /// z as it was known last, bytes/s.
    cross: f64,
    /// When z was known last, µs.
    busy_us: u64,
    /// Until then z is not known anew, µs.
    empty_until_us: u64,
    /// How many times in a row η spoke for the other control.
    doubts: u32,
    /// While cross traffic is elastic.
    competitor: Option<Competitor>,
    drain: Drain,
    /// `None` where the spectrum alone decides.
    pressure: Option<Pressure>,
    /// When delay control took over, µs.
    gave_way_us: u64,
    /// The rate without pulses, bytes/s; `None` in slow start.
    rate: Option<f64>,
    /// The rates of the last 5 s.
    former: VecDeque<(u64, f64)>,
}

impl NimbusFlow {
    /// Whether it takes the cross traffic to be elastic, and competes.
    #[must_use]
    pub fn is_competitive(&self) -> bool {
        self.competitor.is_some()
    }

    /// η as of its last computation; `None` in the first 5 s.
    #[must_use]
    pub fn elasticity(&self) -> Option<f64> {
        self.detector.elasticity()
    }

    /// The rate without pulses, bytes/s, after what was seen.
    fn control(&mut self, rate: f64, seen: &Observed) -> f64 {
        let loop_us = seen.rtt_us.saturating_add(pulse::PERIOD_US);
        let unknown = self.config.capacity.is_none() && self.is_idle(seen);
        let next = match &mut self.competitor {
            Some(competitor) => competitor.rate(seen),
            // What the link carries is not known while it is not full.
            None if unknown => {
                let growth = if rate < seen.capacity { 1.0 } else { BEYOND };
                rate * (1.0 + growth * (seen.since_us as f64 / loop_us as f64).min(1.0))
            }
            None => self.delay.rate(rate, seen),
        };
        let next = match self.competitor {
            None if seen.lost_share > LOSS_SHARE => next.min(seen.received),
            _ => next,
        };
        let found = self.config.capacity.is_none() && (unknown || self.is_competitive());
        let most = if found { MOST_FOUND } else { MOST_SHARE };
        if next.is_finite() {
            next.clamp(
                self.config.least_share * seen.capacity,
                most * seen.capacity,
            )
        } else {
            rate
        }
    }

    /// Whether the queue was empty of late.
    fn is_empty(&self, seen: &Observed) -> bool {
        seen.time_us < self.empty_until_us
    }

    /// Changes to the other control where η says so; to competition, if that must be confirmed, only where
    /// delay control does not hold the queue.
    fn switch(&mut self, elasticity: f64, rate: f64, seen: &Observed) {
        let elastic = elasticity >= THRESHOLD;
        if self.found.on_trial(seen.time_us) {
            return;
        }
        let other = elastic != self.is_competitive();
        // Of a test, η still knows the competition before.
        let early = seen.time_us.saturating_sub(self.gave_way_us) < WINDOW_US;
        let confirmed = |pressure: &Pressure| !early && pressure.is_long();
        if !other || (elastic && !self.pressure.as_ref().is_none_or(confirmed)) {
            self.doubts = 0;
            return;
        }
        self.doubts += 1;
        if self.doubts < CONFIRMATIONS {
            return;
        }
        self.doubts = 0;
        if elastic {
            self.compete(rate, seen);
        } else {
            self.give_way(rate, seen);
        }
    }

    /// Changes the control by how long the queue is, whatever η says.
    fn heed_pressure(&mut self, rate: f64, seen: &Observed) {
        let queue_us = seen.rtt_us.saturating_sub(seen.base_us);
        let is_competitive = self.is_competitive();
        let Some(pressure) = &mut self.pressure else {
            return;
        };
        pressure.report(seen.time_us, seen.since_us, queue_us, self.config.target_us);
        let loop_us = seen.rtt_us.saturating_add(pulse::PERIOD_US);
        if is_competitive {
            if pressure.test_is_due(seen.time_us) {
                self.doubts = 0;
                self.give_way(rate, seen);
                self.drain.begin(seen.time_us, seen.rtt_us);
            }
        } else if pressure.fails(seen.time_us, loop_us) {
            self.doubts = 0;
            self.compete(rate, seen);
        } else if seen.time_us.saturating_sub(self.gave_way_us) > WINDOW_US {
            pressure.holds();
        }
    }

    fn compete(&mut self, rate: f64, seen: &Observed) {
        // What delay control has lost since the traffic changed is taken back.
        let before = self.former.front().map_or(rate, |(_, rate)| *rate);
        let mut competitor = Competitor::new(self.config.competitive);
        competitor.begin(before.max(rate), seen);
        self.competitor = Some(competitor);
        if let Some(pressure) = &mut self.pressure {
            pressure.compete(seen.time_us);
        }
        self.drain.stop();
    }

    fn give_way(&mut self, rate: f64, seen: &Observed) {
        self.competitor = None;
        self.found.end_trial();
        if let Some(pressure) = &mut self.pressure {
            pressure.give_way();
        }
        self.gave_way_us = seen.time_us;
        self.delay.begin(rate, seen);
    }

    /// Where μ is not set, what was received is a lower bound of it: the flow competes until it
    /// has seen a whole spectrum, or that the link is its own.
    fn try_for_a_share(&mut self, rate: f64, cross: Option<f64>, seen: &Observed) {
        if self.competitor.is_none() {
            let target_us = self.config.target_us;
            if self.pressure.is_none() && self.found.delay_control_fails(target_us, seen) {
                self.found.begin_trial(seen.time_us);
                self.compete(rate, seen);
            }
            return;
        }
        let has_the_link = self.found.has_the_link(cross, seen);
        if self.found.on_trial(seen.time_us) && (has_the_link || self.is_idle(seen)) {
            self.doubts = 0;
            self.give_way(rate, seen);
        }
    }

    /// Whether the queue has been empty for longer than a round trip and a pulse.
    fn is_idle(&self, seen: &Observed) -> bool {
        let loop_us = seen.rtt_us.saturating_add(pulse::PERIOD_US);
        seen.time_us.saturating_sub(self.busy_us) > loop_us
    }

    fn remember(&mut self, time_us: u64, rate: f64) {
        let old = |(at, _): &(u64, f64)| time_us.saturating_sub(*at) > WINDOW_US;
        while self.former.front().is_some_and(old) || self.former.len() == self.former.capacity() {
            self.former.pop_front();
        }
        self.former.push_back((time_us, rate));
    }

    /// What a report tells; `None` while no RTT is known and in slow start.
    fn observe(&mut self, report: &Report) -> Option<Observation> {
        let counts = self.meter.report(&self.handles, report)?;
        let Counts {
            time_us, rtt_us, ..
        } = counts;
        let mss = self.meter.mss;
        let long = self.meter.rates(LONG_US);
        let short = self.meter.rates(SHORT_US);
        // Of less than a whole pulse, so that pulses find out what the link carries.
        if let Some(rates) = short {
            let whole_us = SHORT_US.saturating_add(rtt_us.saturating_mul(2));
            self.found
                .received(time_us, rates.received, counts.lost > 0, whole_us);
        }
        if counts.slow_start {
            return None;
        }
        let now = short.or(long).map(|rates| rates.received);
        let by_window = report.cwnd() as f64 * 1e6 / rtt_us as f64;
        let found = now.unwrap_or(0.0).max(by_window / 2.0);
        let rate = self.rate.unwrap_or(found);
        let capacity = match self.config.capacity {
            Some(capacity) => capacity as f64 * mss / (mss + self.config.header_bytes as f64),
            None => self.found.rate().max(rate / 2.0),
        }
        .clamp(1.0, MAX_RATE as f64);
        let seen = Observed {
            time_us,
            since_us: counts.since_us,
            rtt_us,
            base_us: counts.base_us,
            mss,
            capacity,
            sent: long.map_or(rate, |r| r.sent),
            cross: long.map_or(capacity - rate, |r| r.cross(capacity)),
            received: long.map_or(rate, |r| r.received),
            lost_share: long.map_or(0.0, |r| r.lost),
            acked: counts.acked as f64,
            lost: counts.lost as f64,
        };
        Some(Observation {
            seen,
            rate,
            short_cross: short.map(|rates| rates.cross(capacity)),
        })
    }

    /// Sends at the rate, and at a pulse's more or less.
    fn send(&self, rate: f64, phase: Phase, seen: &Observed, srtt_us: u64, control: &mut Control) {
        let capacity = seen.capacity;
        let half_us = self.config.report_us / 2;
        let pulse = self
            .pulses
            .at(seen.time_us.saturating_add(half_us), rate, capacity);
        let base = match phase {
            Phase::Halve => rate / 2.0,
            _ => rate,
        };
        let sending = (base + pulse).clamp(seen.mss, MAX_RATE as f64);
        control.set_rate(sending as u64);
        // The rate limits the flow, except after an RTO: its single segment stays until an ACK.
        if seen.acked > 0.0 {
            let srtt_us = srtt_us.min(MEMORY_US) as f64;
            let window = 2.0 * (rate + capacity / 4.0) * srtt_us / 1e6 + 10.0 * seen.mss;
            control.set_cwnd((window as u64).max(1));
        }
    }
}

/// What a report and those before it tell.
struct Observation {
    seen: Observed,
    /// The flow's rate until now, bytes/s.
    rate: f64,
    /// z over [`SHORT_US`], bytes/s, where it is known.
    short_cross: Option<f64>,
}

impl Flow for NimbusFlow {
    /// The windows that the controls inside keep stay as many bytes.
    fn on_mss(&mut self, mss: u32, control: &mut Control) {
        let new = f64::from(mss.max(1));
        let factor = self.meter.mss / new;
        self.delay.scale(factor);
        if let Some(competitor) = &mut self.competitor {
            competitor.scale(factor);
        }
        self.meter.mss = new;
        self.handles.set_mss(mss, control);
    }

    fn on_report(&mut self, report: &Report, control: &mut Control) {
        let Some(observation) = self.observe(report) else {
            return;
        };
        let Observation {
            seen,
            mut rate,
            short_cross,
        } = observation;
        let (time_us, capacity) = (seen.time_us, seen.capacity);
        if self.rate.is_none() {
            self.delay.begin(rate, &seen);
            if self.config.capacity.is_none() {
                self.found.begin_trial(time_us);
                self.compete(rate, &seen);
            }
        }
        // While the queue was empty, S and R say nothing of z.
        let empty = seen.rtt_us <= seen.base_us.saturating_add(EMPTY_US);
        if empty {
            self.empty_until_us = time_us.saturating_add(SHORT_US);
        }
        if !self.is_empty(&seen) {
            self.busy_us = time_us;
            self.cross = short_cross.unwrap_or(seen.cross);
        }
        if let Some(elasticity) = self.detector.sample(time_us, self.cross, capacity) {
            self.switch(elasticity, rate, &seen);
        }
        self.heed_pressure(rate, &seen);
        if self.config.capacity.is_none() {
            self.try_for_a_share(rate, short_cross, &seen);
        }
        let phase = match self.competitor {
            None => {
                let loop_us = seen.rtt_us.saturating_add(pulse::PERIOD_US);
                self.drain.report(empty, (time_us, seen.rtt_us), loop_us)
            }
            Some(_) => Phase::Control,
        };
        if phase == Phase::Control {
            rate = self.control(rate, &seen);
        } else if self.pressure.is_some() {
            // The flow itself has emptied the queue: that is no reason to grow.
            self.busy_us = time_us;
        }
        if report.is_set(self.handles.timeout) {
            rate = (rate / 2.0).max(self.config.least_share * capacity);
        }
        self.rate = Some(rate);
        self.remember(time_us, rate);
        self.send(rate, phase, &seen, report[self.handles.srtt_us], control);
    }
}
