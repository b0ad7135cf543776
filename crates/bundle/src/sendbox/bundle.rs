//! One bundle at its sendbox: marks, estimates, modes, and the bundle as a flow of the plane. What queues the bundle's
//! packets tells how much waits, and obeys the rate and the hold.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use fairwater_datapath::{Controls, Datapath, FlowState, PeerId};
use fairwater_net::Time;
use fairwater_proto::{FlowId, FlowInfo};

use super::enforce::{Enforced, RateBounds, RecentMax};
use super::mode::{BackOff, Cause, Health, Mode, ModeChange, Reason};
use super::pass_through::PassThroughRate;
use super::{CrossTraffic, SendBundleConfig, signals};
use crate::elasticity::{Detector, Evidence, Observation};
use crate::estimate::{Estimates, Estimator};
use crate::message::{Channel, Message};
use crate::{BoundaryKey, BoxRole, EpochSize, Mark, OutgoingMessage, Refusal, Segment};

/// Segment size that algorithms reckon with: what is counted are IP packets, headers included.
const PACKET_BYTES: u32 = 1_500;

/// Time and round trips that are measured before an algorithm takes over, and matches within them.
const MIN_MEASURE_TIME: Duration = Duration::from_millis(500);
const MIN_MEASURE_RTTS: u32 = 4;
const MIN_MEASURE_MATCHES: u64 = 8;

/// The greatest rate that is taken for measured, bytes/s: 1 Tbit/s.
const MAX_RATE: f64 = 1.25e11;

/// How long a bundle waits for its program before it steps aside.
const GRACE: Duration = Duration::from_secs(2);

/// Time between messages of N when nothing changes, and while the receivebox is not known.
const EPOCH_MESSAGE_INTERVAL: Duration = Duration::from_secs(1);
/// The same without traffic: often enough that translators of addresses do not forget the boxes (RFC 4787 §4.3: 2
/// minutes at least), and rare enough that a box may have thousands of bundles.
const IDLE_MESSAGE_INTERVAL: Duration = Duration::from_secs(10);
const GREETING_INTERVAL: Duration = Duration::from_millis(200);
/// Messages after which a receivebox that does not answer is asked more rarely.
const MAX_FAST_GREETINGS: u32 = 25;

/// Dequeues are held only while matches come at least this many times as often as they usually do: a hold must not
/// wait for a boundary that was lost.
const HOLD_INTERVALS: u32 = 8;
const MIN_HOLD: Duration = Duration::from_millis(40);

/// A bundle that sends nothing for so long stays as it is until it sends again.
const IDLE: Duration = Duration::from_secs(1);

/// One bundle at its sendbox.
pub(super) struct SendBundle {
    number: u32,
    algorithm: String,
    channel: Channel,
    key: BoundaryKey,
    epoch: EpochSize,
    epoch_told_at: Option<Time>,
    /// Messages sent so far.
    greetings: u32,
    pub(super) estimator: Estimator,
    /// What waits, bytes.
    queued_bytes: u64,
    /// Bytes/s; `None` does not limit.
    rate: Option<u64>,
    hold_at: Option<u64>,
    pub(super) mode: Mode,
    entered: Time,
    /// Matches when the mode was entered.
    matches_before: u64,
    back_off: BackOff,
    pub(super) cross_traffic: CrossTraffic,
    /// `None` if another detector tells.
    pub(super) detector: Option<Detector>,
    /// Why the detector's verdict is as it is.
    evidence: Option<Evidence>,
    /// For detectors elsewhere.
    pass_through: Option<PassThroughRate>,
    /// Bytes/s at which the queue of a probe, or of the algorithm before, begins to drain in pass-through.
    rate_after_probe: Option<u64>,
    flow: Option<FlowId>,
    flow_since: Time,
    pub(super) controls: Option<Controls>,
    /// Of the last RTT, bytes/s.
    receive_rate: Option<f64>,
    received_lately: RecentMax,
    bounds: RateBounds,
    last_sent_at: Time,
    /// The latest tick, and packets sent up to then.
    ticked: (Time, u64),
    messages_due: bool,
}

/// What a bundle needs of its box.
pub(super) struct BoxParts<'a> {
    pub(super) datapath: &'a mut Datapath,
    pub(super) peer: PeerId,
    pub(super) messages: &'a mut VecDeque<OutgoingMessage>,
    pub(super) changes: &'a mut VecDeque<ModeChange>,
}

impl SendBundle {
    /// A bundle whose probes have the box's `shift` in time.
    pub(super) fn new(config: &SendBundleConfig, shift: Duration) -> Self {
        let mode = if config.observe {
            Mode::Observe
        } else {
            Mode::Measure
        };
        Self {
            number: config.channel.bundle,
            algorithm: config.algorithm.clone(),
            channel: Channel::new(&config.channel, BoxRole::Sendbox, Some(config.receivebox)),
            key: config.channel.secret.boundary_key(),
            epoch: EpochSize::INITIAL,
            epoch_told_at: None,
            greetings: 0,
            estimator: Estimator::default(),
            queued_bytes: 0,
            rate: None,
            hold_at: None,
            mode,
            entered: Time::ZERO,
            matches_before: 0,
            back_off: BackOff::new(),
            cross_traffic: CrossTraffic::Inelastic,
            detector: config.detect.then(|| Detector::new(shift)),
            evidence: None,
            pass_through: None,
            rate_after_probe: None,
            flow: None,
            flow_since: Time::ZERO,
            controls: None,
            receive_rate: None,
            received_lately: RecentMax::default(),
            bounds: RateBounds {
                min: config.min_rate,
                assured: config.assured_rate,
            },
            last_sent_at: Time::ZERO,
            ticked: (Time::ZERO, 0),
            messages_due: false,
        }
    }

    pub(super) const fn queued_bytes(&self) -> u64 {
        self.queued_bytes
    }

    /// So much waits now.
    pub(super) const fn set_queued(&mut self, bytes: u64) {
        self.queued_bytes = bytes;
    }

    pub(super) const fn epoch(&self) -> EpochSize {
        self.epoch
    }

    pub(super) const fn boundary_key(&self) -> BoundaryKey {
        self.key
    }

    pub(super) const fn rate(&self) -> Option<u64> {
        self.rate
    }

    pub(super) const fn receivebox(&self) -> Option<SocketAddr> {
        self.channel.address()
    }

    /// Whether dequeues are held: too much is in flight.
    pub(super) fn is_held(&self, now: Time) -> bool {
        let Some(hold_at) = self.hold_at else {
            return false;
        };
        let Some((since, interval)) = self.estimator.match_times(now) else {
            return false;
        };
        self.in_flight(now) >= hold_at && since < (interval * HOLD_INTERVALS).max(MIN_HOLD)
    }

    /// Bytes in flight.
    pub(super) fn in_flight(&self, now: Time) -> u64 {
        let (bytes, _) = self.estimator.in_flight(now, self.epoch, self.receive_rate);
        bytes
    }

    /// A packet on the wire left. `is_app_limited` says that no packet waited behind it.
    pub(super) fn on_sent(&mut self, now: Time, segment: &Segment, is_app_limited: bool) {
        let boundary = segment
            .identity
            .as_ref()
            .map(|identity| (self.key.hash(identity), identity.fields()));
        self.estimator
            .on_sent(now, segment.ip_bytes, boundary, self.epoch, is_app_limited);
        self.last_sent_at = now;
    }

    /// Bytes and packets that an outside queue has sent so far.
    pub(super) fn on_sent_total(&mut self, now: Time, total: (u64, u64)) {
        if self.estimator.on_sent_total(total, self.epoch) {
            self.last_sent_at = now;
        }
    }

    /// A boundary packet left an outside queue.
    pub(super) fn on_boundary(&mut self, mark: Mark) {
        self.on_sent_total(mark.sent_at, (mark.bytes, mark.packets));
        // The outside queue may not know yet that N has grown.
        if self.epoch.begins_at(mark.boundary) {
            self.estimator.on_boundary(mark);
        }
    }

    /// A message of the receivebox came at `at`, by the kernel's stamp if there is one, and is read `now`.
    pub(super) fn on_message(
        &mut self,
        (at, now): (Time, Time),
        from: SocketAddr,
        bytes: &[u8],
        box_of: &mut BoxParts<'_>,
    ) -> Result<(), Refusal> {
        let accepted = self.channel.open(from, bytes, &mut None)?;
        if accepted.is_new_peer {
            self.estimator.on_receivebox_restart();
            self.messages_due = true;
        }
        match accepted.message {
            Message::Epoch(_) => return Err(Refusal::Kind),
            Message::Greeting(_) => {}
            Message::Feedback(feedback) => {
                if self
                    .estimator
                    .is_contradiction(accepted.number, feedback.counters)
                {
                    return Err(Refusal::Counters);
                }
                if feedback.epoch != self.epoch {
                    self.messages_due |= self
                        .epoch_told_at
                        .is_none_or(|told| now.since(told) >= GREETING_INTERVAL);
                }
                if self.estimator.on_feedback(at, accepted.number, &feedback) {
                    let estimates = self.estimator.estimates();
                    self.receive_rate = estimates.receive_rate;
                    if let (Some(detector), Some(rtt)) = (&mut self.detector, estimates.rtt) {
                        detector.on_rtt(at, rtt);
                    }
                    if let Some(rate) = estimates.receive_rate {
                        self.received_lately.on_sample(at, rate);
                    }
                    self.invoke(now, &estimates, box_of);
                }
            }
        }
        self.tell_epoch(now, box_of);
        Ok(())
    }

    /// 10 ms have passed.
    pub(super) fn on_tick(&mut self, now: Time, box_of: &mut BoxParts<'_>) {
        self.estimator.expire(now);
        if !self.is_idle(now) {
            let estimates = self.estimator.estimates();
            self.adapt_epoch(now, &estimates);
            self.detect(now, &estimates);
            self.recover(now, &estimates, box_of);
            self.follow_mode(now, &estimates, box_of);
            self.invoke(now, &estimates, box_of);
            self.enforce(&estimates);
        }
        self.tell_epoch(now, box_of);
    }

    /// Whether nothing was sent for a while, and nothing waits.
    fn is_idle(&self, now: Time) -> bool {
        self.queued_bytes == 0 && now.since(self.last_sent_at) > IDLE
    }

    /// The clock has jumped, or the box stood still.
    pub(super) fn on_clock_jump(&mut self, now: Time) {
        self.estimator.on_clock_jump(now);
        self.matches_before = self.estimator.matches();
        self.entered = now;
    }

    /// Follows the detector of buffer-filling cross traffic, if the box has one.
    fn detect(&mut self, now: Time, estimates: &Estimates) {
        let Some(detector) = &mut self.detector else {
            return;
        };
        let evidence = detector.on_tick(Observation {
            now,
            receive_rate: estimates.receive_rate,
            is_backlogged: self.queued_bytes > 0,
            limits: matches!(self.mode, Mode::Control | Mode::PassThrough),
        });
        if evidence.is_some() {
            self.evidence = evidence;
        }
        self.cross_traffic = detector.verdict();
    }

    /// What is sent while a probe of the detector runs, bytes/s.
    fn probe_rate(&self) -> Option<u64> {
        let rate = self.detector.as_ref()?.probe_rate()?;
        Some((rate as u64).max(self.bounds.min))
    }

    /// The algorithm's rate, unless the detector needs another to tell who fills the network's queue, bytes/s.
    fn controlled_rate(&self, rate: u64) -> u64 {
        let least = self.detector.as_ref().and_then(Detector::least_rate);
        match (self.probe_rate(), least) {
            (Some(probe), Some(_)) => probe,
            (Some(probe), None) => rate.min(probe),
            (None, least) => rate.max(least.unwrap_or(0.0) as u64),
        }
    }

    fn health(&self, now: Time, estimates: Estimates) -> Health {
        Health {
            estimates,
            silent_for: self.estimator.silent_for(now),
            since_mark: self.estimator.since_mark(),
            worst_fields: self.estimator.worst_fields(),
        }
    }

    fn adapt_epoch(&mut self, now: Time, estimates: &Estimates) {
        let (bytes, packets) = self.estimator.sent();
        let (then, before) = std::mem::replace(&mut self.ticked, (now, packets));
        let (Some(min_rtt), Some(rate)) = (estimates.min_rtt, estimates.send_rate) else {
            // Nothing was matched yet: at a high rate there may be too many boundaries to match any.
            let rate = (packets - before) as f64 / now.since(then).as_secs_f64().max(1e-3);
            let epoch = self.epoch.adapted(Duration::ZERO, rate);
            if epoch > self.epoch {
                self.epoch = epoch;
                self.messages_due = true;
            }
            return;
        };
        let mean_bytes = bytes as f64 / packets.max(1) as f64;
        let epoch = self.epoch.adapted(min_rtt, rate / mean_bytes.max(1.0));
        if epoch != self.epoch {
            self.epoch = epoch;
            self.messages_due = true;
        }
    }

    fn tell_epoch(&mut self, now: Time, box_of: &mut BoxParts<'_>) {
        let is_new = !self.channel.knows_peer() && self.greetings < MAX_FAST_GREETINGS;
        let interval = match (is_new, self.is_idle(now)) {
            (true, _) => GREETING_INTERVAL,
            (false, true) => IDLE_MESSAGE_INTERVAL,
            (false, false) => EPOCH_MESSAGE_INTERVAL,
        };
        let is_due = self
            .epoch_told_at
            .is_none_or(|told| now.since(told) >= interval);
        if !is_due && !self.messages_due {
            return;
        }
        self.messages_due = false;
        self.epoch_told_at = Some(now);
        self.greetings = self.greetings.saturating_add(1);
        let Some(to) = self.channel.address() else {
            return;
        };
        box_of.messages.push_back(OutgoingMessage {
            bundle: self.number,
            to,
            bytes: self.channel.seal(&Message::Epoch(self.epoch)),
        });
    }

    /// Runs the bundle's program on its signals.
    fn invoke(&mut self, now: Time, estimates: &Estimates, box_of: &mut BoxParts<'_>) {
        let Some(flow) = self.flow else {
            return;
        };
        let queued = self.queued_bytes;
        let signals = signals::take(now, &mut self.estimator, estimates, queued, self.epoch);
        // The flow is this bundle's own, so it exists.
        let _ = box_of.datapath.invoke(flow, &signals);
        let status = box_of.datapath.flow(flow);
        self.controls = status
            .filter(|status| status.state == FlowState::Running)
            .map(|status| status.controls)
            .filter(|controls| *controls != Controls::RELEASED);
        if self.mode == Mode::Control {
            self.enforce(estimates);
        }
    }

    fn set_rate(&mut self, rate: Option<u64>) {
        self.rate = rate.map(|rate| rate.max(1));
    }

    /// Applies what the mode asks for.
    fn enforce(&mut self, estimates: &Estimates) {
        let enforced = match (self.mode, self.controls) {
            (Mode::Control, Some(controls)) => {
                let lately = self.received_lately.get();
                Enforced::of(controls, estimates, lately, self.epoch, self.bounds)
            }
            _ => None,
        };
        let rate = match self.mode {
            // After a restart of the receivebox there is no RTT for a moment.
            Mode::Control => enforced.map_or(self.rate, |enforced| {
                Some(self.controlled_rate(enforced.rate))
            }),
            Mode::PassThrough => self.rate,
            Mode::Observe | Mode::Measure | Mode::Released(_) => self.draining_rate(),
        };
        if self.mode != Mode::PassThrough {
            // A rate above the algorithm's needs a window above its own.
            let raised = enforced.filter(|enforced| rate > Some(enforced.rate));
            let window = raised.and(rate).zip(estimates.mean_rtt).map(|(rate, rtt)| {
                let bytes = rate as f64 * rtt.as_secs_f64();
                (bytes as u64).saturating_add(self.epoch.packets() * u64::from(PACKET_BYTES))
            });
            let hold_at = enforced.map(|enforced| enforced.hold_at);
            self.hold_at = hold_at.map(|at| at.max(window.unwrap_or(0)));
            self.set_rate(rate);
        }
    }

    /// The rate in a mode that does not limit: none, once the queue of the mode before is empty. Until then it grows,
    /// so that the queue does not move to the network at once and yet no traffic is held back for long.
    fn draining_rate(&self) -> Option<u64> {
        let rate = self.rate.filter(|_| self.queued_bytes != 0)?;
        Some(rate.saturating_add(rate / 32 + 1))
    }

    fn follow_mode(&mut self, now: Time, estimates: &Estimates, box_of: &mut BoxParts<'_>) {
        let health = self.health(now, *estimates);
        let fault = health.fault(false);
        match (self.mode, fault) {
            (Mode::Observe, _) => {}
            // What is found after silence tells more than the silence did.
            (Mode::Released(Cause::Silence(_)), Some(cause))
                if !matches!(cause, Cause::Silence(_)) =>
            {
                self.release(now, cause, box_of);
            }
            (Mode::Released(_), _) => {
                let is_clear = health.fault(true).is_none();
                if let Some(hold) = self.back_off.may_return(now, is_clear) {
                    self.change(now, Mode::Measure, Reason::Recovered(hold), box_of);
                }
            }
            (_, Some(cause)) => self.release(now, cause, box_of),
            (Mode::Measure, None) => self.take_over(now, estimates, box_of),
            (Mode::Control, None) => self.follow_control(now, estimates, box_of),
            (Mode::PassThrough, None) => self.follow_pass_through(now, estimates, box_of),
        }
    }

    fn follow_control(&mut self, now: Time, estimates: &Estimates, box_of: &mut BoxParts<'_>) {
        if self.controls.is_none() {
            // It may have begun anew just now.
            if now.since(self.flow_since) > GRACE || self.flow.is_none() {
                self.release(now, Cause::Plane, box_of);
            }
        } else if self.cross_traffic == CrossTraffic::Elastic {
            // The algorithm has given way by now: what it gave up is there for the end hosts to take back.
            let measured = estimates.receive_rate.unwrap_or(0.0);
            let rate = self.received_lately.get().max(measured);
            self.pass_through = self.detector.is_none().then(|| PassThroughRate::new(rate));
            self.rate_after_probe = Some(rate as u64);
            self.hold_at = None;
            self.close(box_of);
            self.change(
                now,
                Mode::PassThrough,
                Reason::Elastic(self.evidence),
                box_of,
            );
        }
    }

    fn follow_pass_through(&mut self, now: Time, estimates: &Estimates, box_of: &mut BoxParts<'_>) {
        self.pass(now);
        if self.cross_traffic == CrossTraffic::Inelastic {
            let (Some(rate), Some(rtt)) = (estimates.receive_rate, estimates.mean_rtt) else {
                return;
            };
            // The algorithm starts again at the rate that is measured now, and takes over once its program runs.
            if self.start(now, (self.most_lately(rate), rtt), estimates, box_of) {
                let reason = Reason::Inelastic(self.evidence);
                self.change(now, Mode::Control, reason, box_of);
            }
        } else if self.flow.is_some() {
            // The verdict changed back before the program ran.
            self.close(box_of);
        }
    }

    /// The rate in pass-through. The detector here needs no queue at the sendbox but while it probes, so the end hosts
    /// compete as they would without a box; other detectors pulse on a queue that is held for them.
    fn pass(&mut self, now: Time) {
        let queued = self.queued_bytes;
        let floor = self.bounds.min;
        let probe_rate = self.probe_rate();
        let rate = match (&mut self.pass_through, probe_rate) {
            (_, Some(rate)) => {
                self.rate_after_probe.get_or_insert(rate + rate / 4);
                Some(rate)
            }
            (Some(controller), None) => Some(controller.update(now, queued, floor)),
            (None, None) => match self.rate_after_probe.take() {
                Some(rate) => Some(rate.max(floor)),
                None => self.draining_rate(),
            },
        };
        self.set_rate(rate);
    }

    /// Changes to the algorithm at the measured rate once enough was measured: no slow start over flows that run
    /// already.
    fn take_over(&mut self, now: Time, estimates: &Estimates, box_of: &mut BoxParts<'_>) {
        let (Some(rate), Some(rtt)) = (estimates.receive_rate, estimates.mean_rtt) else {
            return;
        };
        let matches = self.estimator.matches() - self.matches_before;
        let time = (rtt * MIN_MEASURE_RTTS).max(MIN_MEASURE_TIME);
        if matches < MIN_MEASURE_MATCHES || now.since(self.entered) < time {
            return;
        }
        if self.start(now, (self.most_lately(rate), rtt), estimates, box_of) {
            self.change(now, Mode::Control, Reason::Measured(rate, rtt), box_of);
        }
    }

    /// Starts the algorithm at this rate, bytes/s, and RTT; whether its program runs by now.
    fn start(
        &mut self,
        now: Time,
        (rate, rtt): (f64, Duration),
        estimates: &Estimates,
        box_of: &mut BoxParts<'_>,
    ) -> bool {
        if self.flow.is_none() {
            let rate = rate.min(MAX_RATE).max(self.bounds.min as f64);
            let path = estimates.min_rtt.unwrap_or(rtt);
            let cwnd = (rate * path.as_secs_f64()) as u64;
            let cwnd = cwnd.max(u64::from(PACKET_BYTES));
            let unknown = FlowInfo::default();
            let info = FlowInfo {
                // What tells algorithms that the flow is a bundle.
                remote: self.channel.address().unwrap_or(unknown.remote),
                mss: PACKET_BYTES,
                cwnd,
                rate: rate as u64,
                ssthresh: Some(cwnd),
                srtt_us: signals::micros(rtt),
                now_us: now.as_nanos() / 1_000,
                ..unknown
            };
            let started = box_of.datapath.start(box_of.peer, &self.algorithm, &info);
            let Ok(flow) = started else {
                self.release(now, Cause::Plane, box_of);
                return false;
            };
            // What happened before is not the algorithm's.
            let _ = self.estimator.take_progress();
            self.flow = Some(flow);
            self.flow_since = now;
        } else if self.controls.is_some() {
            return true;
        } else if now.since(self.flow_since) > GRACE {
            self.release(now, Cause::Plane, box_of);
        }
        false
    }

    /// Traffic of requests does not fill the path all the time: the most that came is what the path carries at least.
    /// What waits there already is not kept waiting.
    fn most_lately(&self, rate: f64) -> f64 {
        self.received_lately.get().max(rate)
    }

    /// The queue that others had filled is empty again. An algorithm that gave way to it begins anew, at the rate that
    /// the bundle may have at least.
    fn recover(&mut self, now: Time, estimates: &Estimates, box_of: &mut BoxParts<'_>) {
        let Some(detector) = self
            .detector
            .as_mut()
            .filter(|_| self.mode == Mode::Control)
        else {
            return;
        };
        let (Some(rate), Some(controls)) = (detector.take_recovery(), self.controls) else {
            return;
        };
        let lately = self.received_lately.get();
        let enforced = Enforced::of(controls, estimates, lately, self.epoch, self.bounds);
        let is_less = |enforced: Enforced| (enforced.rate as f64) < rate;
        if let (true, Some(rtt)) = (enforced.is_some_and(is_less), estimates.mean_rtt) {
            self.close(box_of);
            self.set_rate(Some(rate as u64));
            self.start(now, (rate, rtt), estimates, box_of);
        }
    }

    fn release(&mut self, now: Time, cause: Cause, box_of: &mut BoxParts<'_>) {
        self.close(box_of);
        let hold = self.back_off.on_fault(now);
        self.change(
            now,
            Mode::Released(cause),
            Reason::Fault(cause, hold),
            box_of,
        );
    }

    /// Takes the parameters that may change while the bundle runs. What is queued stays.
    pub(super) fn reconfigure(
        &mut self,
        now: Time,
        config: &SendBundleConfig,
        box_of: &mut BoxParts<'_>,
    ) {
        self.bounds = RateBounds {
            min: config.min_rate,
            assured: config.assured_rate,
        };
        let is_other = self.algorithm != config.algorithm;
        self.algorithm.clone_from(&config.algorithm);
        let to = match (self.mode, config.observe) {
            (Mode::Observe, false) => Mode::Measure,
            (mode, true) if mode != Mode::Observe => Mode::Observe,
            // The other algorithm starts at the rate that is measured now.
            (Mode::Control | Mode::PassThrough | Mode::Measure, false) if is_other => Mode::Measure,
            _ => return,
        };
        self.close(box_of);
        if self.mode != to {
            self.change(now, to, Reason::Reconfigured, box_of);
        }
    }

    /// Ends the bundle's flow of the plane, if there is one.
    pub(super) fn close(&mut self, box_of: &mut BoxParts<'_>) {
        self.controls = None;
        self.hold_at = None;
        if let Some(flow) = self.flow.take() {
            let closed = box_of.datapath.close(flow);
            debug_assert!(closed.is_ok(), "{closed:?}");
        }
    }

    fn change(&mut self, now: Time, to: Mode, reason: Reason, box_of: &mut BoxParts<'_>) {
        let from = std::mem::replace(&mut self.mode, to);
        if let (Mode::Measure | Mode::Released(_), Some(rate)) = (to, self.rate) {
            self.set_rate(Some(rate.saturating_mul(2)));
        }
        if to == Mode::Measure {
            self.received_lately = RecentMax::default();
        }
        self.entered = now;
        self.matches_before = self.estimator.matches();
        box_of.changes.push_back(ModeChange {
            at: now,
            bundle: self.number,
            from,
            to,
            reason,
        });
    }
}
