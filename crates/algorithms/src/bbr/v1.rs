//! BBR v1: Cardwell, Cheng, Gunn, Yeganeh and Jacobson, "BBR: Congestion-Based Congestion Control",
//! ACM Queue 14(5), 2016; draft-cardwell-iccrg-bbr-congestion-control-00.

use std::sync::Arc;

use fairwater_plane::{Algorithm, AlgorithmError, Control, Flow, FlowInfo, Programs, Report, Var};

use super::cwnd_gain;
use super::datapath::{Datapath, PathSample, Shape, Version};
use super::model::{MinRtt, Plateau};
use super::probe_rtt::ProbeRtt;
use crate::draws::Draws;
use crate::parameter::{Configuration, ParameterField, ParameterSpec};
use crate::window::Period;
use crate::windowed::WindowedMax;

/// How a [`Bbr`] behaves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BbrConfig {
    /// cwnd in ProbeBW, in bandwidth-delay products of the model; from 1 to 10.
    pub cwnd_gain: f64,
    /// Whether the RTT is measured by ProbeRTT when nothing else has measured it for
    /// [`Self::min_rtt_window_us`].
    pub probe_rtt: bool,
    /// What stays in flight during ProbeRTT, in bandwidth-delay products of the model; from 0 to 0.9.
    /// At least four packets.
    pub probe_rtt_share: f64,
    /// How long the least RTT is remembered, µs; from 1 s to 10 min.
    pub min_rtt_window_us: u64,
    /// How long the greatest delivery rate is remembered, round trips; from 2 to 1000.
    pub bw_window_rounds: u64,
    /// How often flows report in ProbeBW; otherwise, and with [`Period::Rtt`], they report at the
    /// end of each round trip.
    pub report: Period,
}

impl Default for BbrConfig {
    fn default() -> Self {
        Self {
            cwnd_gain: cwnd_gain::USUAL,
            probe_rtt: true,
            probe_rtt_share: 0.0,
            min_rtt_window_us: 10_000_000,
            bw_window_rounds: 10,
            report: Period::default(),
        }
    }
}

impl Configuration for BbrConfig {
    const NAME: &'static str = "bbr";
    const SUMMARY: &'static str =
        "BBR v1 (Cardwell et al. 2016): paces at the bandwidth that it measures";
    const PARAMETERS: &'static [ParameterSpec<Self>] = &[
        ParameterSpec::new(
            "cwnd_gain",
            "cwnd while cruising, in bandwidth-delay products",
            |c| ParameterField::Decimal(&mut c.cwnd_gain, cwnd_gain::RANGE, "a number"),
        ),
        ParameterSpec::new(
            "probe_rtt",
            "whether the flow drains the queue periodically to measure the minimum RTT",
            |c| ParameterField::Boolean(&mut c.probe_rtt),
        ),
        ParameterSpec::new(
            "probe_rtt_share",
            "what stays in flight meanwhile, in bandwidth-delay products; at least four packets",
            |c| ParameterField::Decimal(&mut c.probe_rtt_share, 0.0..=0.9, "a number"),
        ),
        ParameterSpec::new(
            "min_rtt_window",
            "window of the minimum-RTT filter, and how often the minimum RTT is measured",
            |c| ParameterField::Micros(&mut c.min_rtt_window_us, 1_000_000..=600_000_000),
        ),
        ParameterSpec::new("bw_window", "window of the maximum-bandwidth filter", |c| {
            ParameterField::Number(
                &mut c.bw_window_rounds,
                2..=1_000,
                "a number of round trips",
            )
        }),
        ParameterSpec::report(|c| ParameterField::Period(&mut c.report)),
    ];

    fn build(self, programs: &mut Programs) -> Result<Box<dyn Algorithm>, AlgorithmError> {
        Ok(Box::new(Bbr::new(programs, self)?))
    }
}

/// Doubles the delivery rate each round trip: 2/ln 2, in thousandths (Cardwell et al. 2016).
const HIGH_GAIN: u64 = 2_890;
/// The inverse of it, which drains in one round trip what Startup has queued.
const DRAIN_GAIN: u64 = 346;

/// Window of the aggregation of ACKs, round trips: Linux keeps the maxima of two halves.
const EXTRA_ACKED_ROUNDS: u64 = 10;

/// BBR v1. The program folds samples, paces, goes round the cycle of gains, conserves packets after
/// losses; the plane filters over round trips and seconds and decides on states.
#[derive(Debug)]
pub struct Bbr {
    datapath: Arc<Datapath>,
    cycling: Var,
    phase: Var,
    config: BbrConfig,
}

impl Bbr {
    /// Compiles the program.
    ///
    /// # Errors
    /// [`AlgorithmError::OutOfRange`] for a number of the configuration out of its range.
    pub fn new(programs: &mut Programs, config: BbrConfig) -> Result<Self, AlgorithmError> {
        config.check()?;
        let shape = Shape {
            version: Version::One,
            ecn: false,
            period: config.report,
        };
        let (datapath, p) = Datapath::load(programs, "bbr", shape)?;
        Ok(Self {
            datapath: Arc::new(datapath),
            cycling: p.variable("cycling")?,
            phase: p.variable("phase")?,
            config,
        })
    }
}

impl Algorithm for Bbr {
    fn name(&self) -> &str {
        "bbr"
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
        self.datapath.begin(info, HIGH_GAIN, control);
        let window_us = self.config.min_rtt_window_us;
        Box::new(BbrFlow {
            datapath: Arc::clone(&self.datapath),
            cycling: self.cycling,
            phase: self.phase,
            config: self.config,
            mss: u64::from(info.mss.max(1)),
            bw: WindowedMax::default(),
            rounds: 0,
            extra_acked: WindowedMax::default(),
            min_rtt: MinRtt::new(window_us, window_us),
            plateau: Plateau::default(),
            full: false,
            state: State::Startup,
            draws: Draws::of(info),
        })
    }

    /// It paces: what the path bears is known after a pause, too.
    fn idle_restart(&self) -> bool {
        false
    }
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Looks for the bandwidth by doubling.
    Startup,
    /// Takes out of the queue what Startup put there.
    Drain,
    /// Goes round the cycle of gains.
    ProbeBw,
    /// Measures the RTT.
    ProbeRtt(ProbeRtt),
}

struct BbrFlow {
    datapath: Arc<Datapath>,
    cycling: Var,
    phase: Var,
    config: BbrConfig,
    mss: u64,
    bw: WindowedMax,
    /// Round trips that told of the path. Those of a pause, of ProbeRTT and of the recovery from a
    /// timeout do not, and age nothing.
    rounds: u64,
    extra_acked: WindowedMax,
    min_rtt: MinRtt,
    plateau: Plateau,
    full: bool,
    state: State,
    draws: Draws,
}

impl Flow for BbrFlow {
    fn on_mss(&mut self, mss: u32, control: &mut Control) {
        self.mss = u64::from(mss.max(1));
        self.datapath.set_mss(mss, control);
    }

    fn on_report(&mut self, report: &Report, control: &mut Control) {
        let reading = self.datapath.read(report);
        if let Some(rate) = reading.rate {
            self.rounds = self.rounds.saturating_add(reading.rounds);
            let window = self.config.bw_window_rounds;
            let bw = self.bw.update(self.rounds, rate, window);
            if reading.rounds > 0 && !self.full {
                self.full = self.plateau.round(bw);
            }
            let window = EXTRA_ACKED_ROUNDS;
            let extra = self
                .extra_acked
                .update(self.rounds, reading.extra_acked, window);
            control.update(self.datapath.extra_acked_is, extra);
        }
        let due = self.min_rtt.update(reading.time_us, reading.rtt_us);
        self.datapath
            .model(self.bw.get(), self.min_rtt.get(), control);
        self.advance(&reading, control);
        let measures = matches!(self.state, State::ProbeRtt(_));
        if due && self.config.probe_rtt && !reading.idled && !measures {
            self.probe_rtt(control);
        }
    }
}

impl BbrFlow {
    fn advance(&mut self, reading: &PathSample, control: &mut Control) {
        match &mut self.state {
            State::Startup if self.full => self.drain(control),
            State::Startup => {}
            State::Drain if reading.low_reached => self.probe_bw(control),
            // The bandwidth may have been overestimated, or the RTT be less than it was.
            State::Drain => control.update(self.datapath.low, self.bdp()),
            State::ProbeBw => {}
            State::ProbeRtt(probe) => {
                if probe.is_over(reading) {
                    self.min_rtt.measured(reading.time_us);
                    control.update(self.datapath.hold, 0_u64);
                    if self.full {
                        self.probe_bw(control);
                    } else {
                        self.startup(control);
                    }
                }
            }
        }
    }

    fn startup(&mut self, control: &mut Control) {
        self.state = State::Startup;
        self.gains(HIGH_GAIN, HIGH_GAIN, control);
    }

    fn drain(&mut self, control: &mut Control) {
        self.state = State::Drain;
        self.gains(DRAIN_GAIN, HIGH_GAIN, control);
        control.update(self.datapath.steady, true);
        control.update(self.datapath.low, self.bdp());
    }

    /// The cycle begins anywhere but where it drains, so that flows do not probe together
    /// (Cardwell et al. 2016, "Steady-state behavior").
    fn probe_bw(&mut self, control: &mut Control) {
        self.state = State::ProbeBw;
        let phase = match self.draws.up_to(6) {
            0 => 0,
            other => other + 1,
        };
        control.update(self.phase, phase);
        control.update(self.cycling, true);
        let gain = cwnd_gain::thousandths(self.config.cwnd_gain);
        control.update(self.datapath.cwnd_gain, gain);
        control.update(self.datapath.low, 0_u64);
        control.update(self.datapath.attentive, false);
    }

    fn probe_rtt(&mut self, control: &mut Control) {
        self.state = State::ProbeRtt(ProbeRtt::default());
        self.gains(1_000, HIGH_GAIN, control);
        let share = (self.config.probe_rtt_share * self.bdp() as f64) as u64;
        let least = 4 * self.mss;
        control.update(self.datapath.hold, share.max(least));
        // A transport that holds a rate alone sends hold/SRTT, which leaves somewhat more in flight.
        control.update(
            self.datapath.low,
            share.saturating_add(share / 4).max(least),
        );
    }

    /// Gains that stay until the plane changes them; each round trip is reported.
    fn gains(&self, pacing: u64, cwnd: u64, control: &mut Control) {
        control.update(self.cycling, false);
        control.update(self.datapath.pacing_gain, pacing);
        control.update(self.datapath.cwnd_gain, cwnd);
        control.update(self.datapath.low, 0_u64);
        control.update(self.datapath.attentive, true);
    }

    /// The bandwidth-delay product of the model, bytes; a packet at least.
    fn bdp(&self) -> u64 {
        let bw = self.bw.get().unwrap_or(0);
        self.min_rtt.volume(bw).max(self.mss)
    }
}
