//! The shared program's handles, and what its reports say.

use fairwater_plane::{
    AlgorithmError, Control, Field, FlowInfo, ProgramHandle, Programs, Report, Var,
};

use crate::bundle::is_bundle;
use crate::window::Period;

const PROGRAM: &str = include_str!("program.ccp");

/// The variant of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) version: Version,
    /// Whether ECN marks count as losses do.
    pub(super) ecn: bool,
    /// How often the program reports when nothing urgent happens.
    pub(super) period: Period,
}

/// Which BBR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Three,
}

/// The handles.
#[derive(Debug)]
pub(super) struct Datapath {
    rounds: Field,
    sampled: Field,
    rate: Field,
    min_rtt_us: Field,
    idled: Field,
    extra_acked: Field,
    low_reached: Field,
    mss: Var,
    pub(super) round_start: Var,
    rtt_known: Var,
    last_cwnd: Var,
    unbounded: Var,
    bw: Var,
    rtt_us: Var,
    pub(super) extra_acked_is: Var,
    pub(super) pacing_gain: Var,
    pub(super) cwnd_gain: Var,
    pub(super) steady: Var,
    pub(super) attentive: Var,
    pub(super) low: Var,
    pub(super) hold: Var,
}

/// What a report says of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PathSample {
    /// The datapath's time, µs.
    pub(super) time_us: u64,
    /// Round trips that ended since the last report.
    pub(super) rounds: u64,
    /// The greatest delivery rate since the last report, bytes/s; `None` when no sample tells of
    /// the path.
    pub(super) rate: Option<u64>,
    /// The least RTT since the last report, µs.
    pub(super) rtt_us: Option<u64>,
    /// The flow goes on after a pause.
    pub(super) idled: bool,
    /// The most that was acknowledged beyond the model's bandwidth, bytes.
    pub(super) extra_acked: u64,
    /// In flight fell to what was asked for.
    pub(super) low_reached: bool,
}

impl Datapath {
    /// Compiles the program in this shape.
    pub(super) fn load(
        programs: &mut Programs,
        name: &str,
        shape: Shape,
    ) -> Result<(Self, ProgramHandle), AlgorithmError> {
        let constants = [
            ("three", (shape.version == Version::Three).into()),
            ("ecn", shape.ecn.into()),
            ("report_each_ack", (shape.period == Period::Ack).into()),
            ("report_period_us", shape.period.micros().into()),
        ];
        let p = programs.add_with(name, PROGRAM, &constants)?;
        let datapath = Self {
            rounds: p.field("rounds")?,
            sampled: p.field("sampled")?,
            rate: p.field("rate")?,
            min_rtt_us: p.field("min_rtt_us")?,
            idled: p.field("idled")?,
            extra_acked: p.field("extra_acked")?,
            low_reached: p.field("low_reached")?,
            mss: p.variable("mss")?,
            round_start: p.variable("round_start")?,
            rtt_known: p.variable("rtt_known")?,
            last_cwnd: p.variable("last_cwnd")?,
            unbounded: p.variable("unbounded")?,
            bw: p.variable("bw")?,
            rtt_us: p.variable("rtt_us")?,
            extra_acked_is: p.variable("extra_acked")?,
            pacing_gain: p.variable("pacing_gain")?,
            cwnd_gain: p.variable("cwnd_gain")?,
            steady: p.variable("steady")?,
            attentive: p.variable("attentive")?,
            low: p.variable("low")?,
            hold: p.variable("hold")?,
        };
        Ok((datapath, p))
    }

    /// Tells the program what only the plane knows of a new flow, and paces the initial window:
    /// by `gain`, thousandths, over the RTT, or over 1 ms where none is known
    /// (draft-cardwell-iccrg-bbr-congestion-control-00 §4.2.1, BBRInitPacingRate).
    pub(super) fn begin(&self, info: &FlowInfo, gain: u64, control: &mut Control) {
        self.set_mss(info.mss, control);
        control.update(self.last_cwnd, info.cwnd);
        if is_bundle(info) {
            control.update(self.unbounded, u64::MAX);
        }
        control.update(self.round_start, info.now_us);
        control.update(self.pacing_gain, gain);
        let known = !matches!(info.srtt_us, 0 | u64::MAX);
        let rtt_us = if known { info.srtt_us } else { 1_000 };
        control.update(self.rtt_known, known);
        control.set_rate(rate(gain, info.cwnd.saturating_mul(1_000_000) / rtt_us));
    }

    /// Tells the program the size of segments, bytes.
    pub(super) fn set_mss(&self, mss: u32, control: &mut Control) {
        control.update(self.mss, mss.max(1));
    }

    /// Tells the program of the model, where there is one.
    pub(super) fn model(&self, bw: Option<u64>, rtt_us: Option<u64>, control: &mut Control) {
        if let Some(bw) = bw {
            control.update(self.bw, bw);
        }
        if let Some(rtt_us) = rtt_us {
            control.update(self.rtt_us, rtt_us);
        }
    }

    pub(super) fn read(&self, report: &Report) -> PathSample {
        let rtt_us = report[self.min_rtt_us];
        PathSample {
            time_us: report.time_us(),
            rounds: report[self.rounds],
            rate: report.is_set(self.sampled).then(|| report[self.rate]),
            rtt_us: (rtt_us < u64::MAX).then_some(rtt_us),
            idled: report.is_set(self.idled),
            extra_acked: report[self.extra_acked],
            low_reached: report.is_set(self.low_reached),
        }
    }
}

/// `gain` thousandths of a bandwidth, within the rates that datapaths accept, bytes/s.
fn rate(gain: u64, bw: u64) -> u64 {
    const MOST: u64 = 1_000_000_000_000;
    (bw.saturating_mul(gain) / 1_000).clamp(1_448, MOST)
}
