//! One flow's state machine.

use std::sync::Arc;

use fairwater_plane::{Control, Flow, FlowInfo, Report};

use super::Bbr3Config;
use super::bounds::{Latest, LongTerm, MaxBw, ShortTerm};
use super::cycle::{Cycle, Phase};
use super::datapath::{Extension, Feedback};
use crate::bbr::cwnd_gain;
use crate::bbr::datapath::{Datapath, PathSample};
use crate::bbr::model::{MinRtt, Plateau};
use crate::bbr::probe_rtt::ProbeRtt;
use crate::draws::Draws;
use crate::windowed::WindowedMax;

/// 4 ln 2 (BBR.StartupPacingGain), in thousandths.
pub(super) const STARTUP_GAIN: u64 = 2_770;

const MIN_RTT_WINDOW_US: u64 = 10_000_000;
const PROBE_RTT_INTERVAL_US: u64 = 5_000_000;
/// BBR.ExtraAckedFilterLen, round trips.
const EXTRA_ACKED_ROUNDS: u64 = 10;
/// ACKs of one round trip with losses that end Startup (BBRStartupFullLossCnt).
const STARTUP_LOSSES: u64 = 6;
/// What a round trip delivered counts for so much when the short-term model is reduced, in
/// thousandths, where the pacing gain was 1: the pacing margin of 1 % and the tolerated losses of
/// 2 % (BBR.LossThresh) are no congestion.
const TOLERANCE: u64 = 1_031;

#[derive(Debug, Clone, Copy)]
enum State {
    Startup,
    Drain { rounds: u64 },
    ProbeBw(Phase),
    ProbeRtt(ProbeRtt),
}

/// What a spurious recovery is to restore (BBR.undo_*).
#[derive(Debug, Clone, Copy, Default)]
struct Undo {
    startup: bool,
    up: bool,
    short: ShortTerm,
    long: LongTerm,
}

/// What is gathered until a round trip ends.
#[derive(Debug, Clone, Copy, Default)]
struct Round {
    latest: Latest,
    /// The greatest delivery rate that the path alone limited, bytes/s.
    path_bw: Option<u64>,
    lost: u64,
    losses: u64,
    limited: bool,
}

pub(super) struct Bbr3Flow {
    datapath: Arc<Datapath>,
    extension: Arc<Extension>,
    config: Bbr3Config,
    mss: u64,
    max_bw: MaxBw,
    min_rtt: MinRtt,
    extra_acked: WindowedMax,
    rounds: u64,
    round: Round,
    /// The round trip before had losses, too.
    lossy: bool,
    /// The least of [`Self::sent_share`] in the two round trips before and in this one: delivery
    /// rates of this one are of what was sent then.
    shares: [u64; 3],
    short: ShortTerm,
    long: LongTerm,
    plateau: Plateau,
    /// The path was filled once (BBR.full_bw_reached).
    full: bool,
    state: State,
    cycle: Cycle,
    undo: Undo,
    cwnd: u64,
    draws: Draws,
}

impl Flow for Bbr3Flow {
    fn on_mss(&mut self, mss: u32, control: &mut Control) {
        self.mss = u64::from(mss.max(1));
        self.datapath.set_mss(mss, control);
    }

    fn on_report(&mut self, report: &Report, control: &mut Control) {
        let reading = self.datapath.read(report);
        let feedback = self.extension.read(report);
        self.cwnd = feedback.cwnd;
        if feedback.undone {
            self.take_back(control);
        }
        self.gather(&reading, &feedback);
        let ended = reading.rounds > 0;
        let mut probe_ended = false;
        if ended {
            self.rounds = self.rounds.saturating_add(reading.rounds);
            probe_ended = self.cycle.rounds(reading.rounds);
            self.adapt(&feedback);
        }
        if feedback.excess && self.cycle.of_probe {
            self.was_too_high(&reading, &feedback, control);
        }
        self.advance(&reading, &feedback, probe_ended, control);
        let due = self.min_rtt.update(reading.time_us, reading.rtt_us);
        let measures = matches!(self.state, State::ProbeRtt(_));
        if due && self.config.probe_rtt && !reading.idled && !measures {
            self.state = State::ProbeRtt(ProbeRtt::default());
            self.cycle.stop();
            self.extension.watch(false, None, control);
            control.update(self.datapath.round_start, reading.time_us);
        }
        if ended {
            self.lossy = self.round.lost > 0;
            self.round = Round::default();
            let [_, before, now] = self.shares;
            self.shares = [before, now, self.sent_share()];
        } else {
            self.shares[2] = self.shares[2].min(self.sent_share());
        }
        self.instruct(control);
    }
}

impl Bbr3Flow {
    pub(super) fn new(
        datapath: Arc<Datapath>,
        extension: Arc<Extension>,
        config: Bbr3Config,
        info: &FlowInfo,
    ) -> Self {
        Self {
            datapath,
            extension,
            config,
            mss: u64::from(info.mss.max(1)),
            max_bw: MaxBw::default(),
            min_rtt: MinRtt::new(MIN_RTT_WINDOW_US, PROBE_RTT_INTERVAL_US),
            extra_acked: WindowedMax::default(),
            rounds: 0,
            round: Round::default(),
            lossy: false,
            shares: [STARTUP_GAIN; 3],
            short: ShortTerm::default(),
            long: LongTerm::default(),
            plateau: Plateau::default(),
            full: false,
            state: State::Startup,
            cycle: Cycle::new(),
            undo: Undo::default(),
            cwnd: info.cwnd,
            draws: Draws::of(info),
        }
    }

    /// The model, up to this report.
    fn gather(&mut self, reading: &PathSample, feedback: &Feedback) {
        if let Some(rate) = reading.rate {
            self.max_bw.take(rate);
            self.round.path_bw = self.round.path_bw.max(Some(rate));
        }
        let window = if self.full { EXTRA_ACKED_ROUNDS } else { 1 };
        self.extra_acked
            .update(self.rounds, reading.extra_acked, window);
        if feedback.lost > 0 && self.round.lost == 0 {
            // SaveStateUponLoss.
            self.undo = Undo {
                startup: false,
                up: false,
                short: self.short,
                long: self.long,
            };
        }
        let round = &mut self.round;
        round.latest.bw = round.latest.bw.max(feedback.latest_bw);
        round.latest.inflight = round.latest.inflight.max(feedback.delivered);
        round.lost = round.lost.saturating_add(feedback.lost);
        round.losses = round.losses.saturating_add(feedback.losses);
        round.limited |= feedback.limited;
    }

    /// Once a round trip: bounds, and whether the path is full.
    fn adapt(&mut self, feedback: &Feedback) {
        let probing = matches!(
            self.state,
            State::Startup | State::ProbeBw(Phase::Refill | Phase::Up)
        );
        let round = self.round;
        if round.lost > 0 && !probing {
            let max_bw = self.max_bw.get();
            let slowest = self.shares.into_iter().fold(1_000, u64::min);
            let tolerance = TOLERANCE * 1_000 / slowest;
            self.short
                .reduce(round.latest, max_bw, self.cwnd, tolerance);
        }
        match self.state {
            State::Startup => {
                if let Some(bw) = round.path_bw {
                    self.full |= self.plateau.round(bw);
                }
                let excess = round.lost > feedback.flight_before / 50;
                if !self.full && self.lossy && excess && round.losses >= STARTUP_LOSSES {
                    self.undo.startup = true;
                    self.full = true;
                    self.long.0 = Some(self.bdp().max(round.latest.inflight));
                }
            }
            State::ProbeBw(Phase::Up) => {
                let bounded = self.long.0.is_some_and(|long| self.cwnd >= long);
                if round.limited && bounded {
                    // ProbeInflightLongtermUpward, once a round trip.
                    let growth = self.cycle.growth().saturating_mul(self.mss);
                    self.long.raise_by(growth);
                }
            }
            State::Drain { .. } | State::ProbeBw(_) | State::ProbeRtt(_) => {}
        }
    }

    /// HandleInflightTooHigh.
    fn was_too_high(&mut self, reading: &PathSample, feedback: &Feedback, control: &mut Control) {
        self.cycle.too_high = true;
        self.cycle.of_probe = false;
        if self.round.path_bw.is_some() {
            let target = self.bdp().min(self.cwnd);
            self.long.lower_to(feedback.flight_before, target);
        }
        if matches!(self.state, State::ProbeBw(Phase::Up)) {
            self.undo.up = true;
            self.down(reading.time_us, control);
        }
    }

    fn advance(
        &mut self,
        reading: &PathSample,
        feedback: &Feedback,
        probe_ended: bool,
        control: &mut Control,
    ) {
        let now_us = reading.time_us;
        if probe_ended && let State::ProbeBw(_) = self.state {
            self.extension.watch(false, None, control);
            if self.round.path_bw.is_some() {
                self.max_bw.advance();
            }
            // The last probe stopped early, and nothing was lost: once more, in earnest.
            if self.cycle.precautionary && !self.cycle.too_high {
                return self.refill(now_us, control);
            }
        }
        match &mut self.state {
            State::Startup => {
                if self.full {
                    self.state = State::Drain { rounds: 0 };
                    control.update(self.datapath.low, self.inflight());
                }
            }
            State::Drain { rounds } => {
                *rounds = rounds.saturating_add(reading.rounds);
                if reading.low_reached || *rounds > 3 {
                    self.down(now_us, control);
                } else {
                    control.update(self.datapath.low, self.inflight());
                }
            }
            State::ProbeBw(phase) => {
                let phase = *phase;
                self.probe_bw(phase, reading, feedback, control);
            }
            State::ProbeRtt(probe) => {
                if probe.is_over(reading) {
                    self.min_rtt.measured(now_us);
                    self.short = ShortTerm::default();
                    if self.full {
                        self.down(now_us, control);
                        self.cruise(control);
                    } else {
                        self.state = State::Startup;
                    }
                }
            }
        }
    }

    /// UpdateProbeBWCyclePhase.
    fn probe_bw(
        &mut self,
        phase: Phase,
        reading: &PathSample,
        feedback: &Feedback,
        control: &mut Control,
    ) {
        let now_us = reading.time_us;
        match phase {
            Phase::Down | Phase::Cruise => {
                let target = self.inflight().min(self.cwnd) / self.mss;
                if self.cycle.is_time_to_probe(now_us, target) {
                    self.refill(now_us, control);
                } else if phase == Phase::Down {
                    if reading.low_reached {
                        self.cruise(control);
                    } else {
                        control.update(self.datapath.low, self.drained());
                    }
                }
            }
            Phase::Refill => {
                if reading.rounds > 0 {
                    self.up(now_us, control);
                }
            }
            Phase::Up => {
                // IsTimeToGoDown.
                let bounded = self.long.0.is_some_and(|long| self.cwnd >= long);
                if self.cycle.too_high && feedback.high_reached {
                    self.cycle.precautionary = true;
                } else if reading.rounds == 0 {
                    return;
                } else if self.round.limited && bounded {
                    self.plateau = Plateau::from(self.round.latest.bw);
                    return;
                } else if !self.round.path_bw.is_some_and(|bw| self.plateau.round(bw)) {
                    return;
                }
                self.cycle.too_high = false;
                self.down(now_us, control);
            }
        }
    }

    fn down(&mut self, now_us: u64, control: &mut Control) {
        self.state = State::ProbeBw(Phase::Down);
        self.round = Round {
            // Whether the path limited this round trip stays known.
            path_bw: self.round.path_bw,
            ..Round::default()
        };
        let wait_us = (self.config.probe_wait_s * 1e6) as u64;
        self.cycle.down(now_us, wait_us, &mut self.draws);
        control.update(self.extension.high, 0_u64);
        control.update(self.datapath.low, self.drained());
        control.update(self.datapath.round_start, now_us);
    }

    fn cruise(&mut self, control: &mut Control) {
        self.state = State::ProbeBw(Phase::Cruise);
        control.update(self.datapath.low, 0_u64);
    }

    fn refill(&mut self, now_us: u64, control: &mut Control) {
        self.state = State::ProbeBw(Phase::Refill);
        self.short = ShortTerm::default();
        self.cycle.refill();
        control.update(self.datapath.low, 0_u64);
        control.update(self.datapath.round_start, now_us);
    }

    fn up(&mut self, now_us: u64, control: &mut Control) {
        self.state = State::ProbeBw(Phase::Up);
        self.cycle.up();
        self.plateau = Plateau::from(self.round.latest.bw);
        let high = self.long.0.filter(|_| self.cycle.too_high);
        self.extension.watch(true, high, control);
        control.update(self.datapath.round_start, now_us);
    }

    /// HandleSpuriousLossDetection. The datapath has restored cwnd.
    fn take_back(&mut self, control: &mut Control) {
        self.round.lost = 0;
        self.plateau = Plateau::default();
        self.short.at_least(self.undo.short);
        self.long.at_least(self.undo.long);
        let measures = matches!(self.state, State::ProbeRtt(_));
        if std::mem::take(&mut self.undo.startup) {
            self.full = false;
            if !measures {
                self.state = State::Startup;
            }
        } else if std::mem::take(&mut self.undo.up) && !measures {
            self.state = State::ProbeBw(Phase::Refill);
            self.short = ShortTerm::default();
            self.cycle.refill();
        }
        // ProbeRTT goes on, and waits for what it asked for.
        if !measures {
            control.update(self.datapath.low, 0_u64);
        }
    }

    /// Tells the program of the model and of the state ("Summary of Control Behavior in the State
    /// Machine").
    pub(super) fn instruct(&self, control: &mut Control) {
        let usual = cwnd_gain::thousandths(self.config.cwnd_gain);
        let cwnd_gain = match self.state {
            State::ProbeBw(Phase::Up) => usual + 250,
            State::ProbeRtt(_) => 500,
            State::Startup | State::Drain { .. } | State::ProbeBw(_) => usual,
        };
        // BoundCwndForModel.
        let long = match self.state {
            State::Startup | State::Drain { .. } => None,
            State::ProbeBw(Phase::Down | Phase::Refill | Phase::Up) => self.long.0,
            State::ProbeBw(Phase::Cruise) | State::ProbeRtt(_) => self.long.with_headroom(self.mss),
        };
        // What bw_shortterm needs in flight is not taken from it: a flow that cwnd holds below its
        // rate delivers less still, and falls on.
        let least = self.bdp().saturating_add(self.budget());
        let short = self.short.inflight.map(|inflight| inflight.max(least));
        let ceiling = match (long, short) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => a.or(b).unwrap_or(u64::MAX),
        };
        let hold = match &self.state {
            State::ProbeRtt(probe) => {
                let hold = self.probe_rtt_cwnd();
                // The model may have changed since it was asked for.
                if probe.waits() {
                    control.update(self.datapath.low, hold);
                }
                hold
            }
            _ => 0,
        };
        let spare = match self.state {
            State::ProbeBw(Phase::Up) => 2 * self.mss,
            _ => 0,
        };
        let bw = Some(self.max_bw.get()).filter(|bw| *bw > 0);
        self.datapath.model(bw, self.min_rtt.get(), control);
        let cruises = matches!(self.state, State::ProbeBw(Phase::Cruise));
        control.update(self.extension.bw_limit, self.short.bw.unwrap_or(u64::MAX));
        control.update(self.extension.ceiling, ceiling);
        control.update(self.extension.spare, spare);
        let extra_acked = self.extra_acked.get().unwrap_or(0);
        control.update(self.datapath.extra_acked_is, extra_acked);
        control.update(self.datapath.pacing_gain, self.pacing_gain());
        control.update(self.datapath.cwnd_gain, cwnd_gain);
        control.update(self.datapath.hold, hold);
        control.update(self.datapath.steady, self.full);
        control.update(self.datapath.attentive, !cruises);
    }

    fn pacing_gain(&self) -> u64 {
        match self.state {
            State::Startup => STARTUP_GAIN,
            State::Drain { .. } => 500,
            State::ProbeBw(Phase::Down) => 900,
            State::ProbeBw(Phase::Cruise | Phase::Refill) | State::ProbeRtt(_) => 1_000,
            State::ProbeBw(Phase::Up) => 1_250,
        }
    }

    /// How much of the model is sent, in thousandths.
    fn sent_share(&self) -> u64 {
        match self.state {
            State::ProbeRtt(_) => 400,
            _ => self.pacing_gain(),
        }
    }

    /// The model's bandwidth, bytes/s: BBR.bw.
    fn bw(&self) -> u64 {
        self.max_bw.get().min(self.short.bw.unwrap_or(u64::MAX))
    }

    fn bdp(&self) -> u64 {
        self.min_rtt.volume(self.bw())
    }

    /// What offload and delayed ACKs keep in flight (BBR.offload_budget), bytes.
    fn budget(&self) -> u64 {
        3 * (self.bw() / 1_000).min(65_536).max(2 * self.mss)
    }

    /// Inflight(1.0): a BDP, and what keeps packets going at least.
    fn inflight(&self) -> u64 {
        self.min_rtt.volume(self.max_bw.get()).max(self.budget())
    }

    /// In flight no more than a BDP, and room for others: IsTimeToCruise.
    fn drained(&self) -> u64 {
        let headroom = self.long.with_headroom(self.mss);
        self.inflight().min(headroom.unwrap_or(u64::MAX))
    }

    /// ProbeRTTCwnd.
    fn probe_rtt_cwnd(&self) -> u64 {
        (self.bdp() / 2).max(4 * self.mss)
    }
}
