//! What window-based algorithms share: a datapath program that keeps the window, and its handles.

mod program;
mod shape;

use fairwater_plane::{AlgorithmError, Control, Field, Flow, FlowInfo, Programs, Report, Var};

use crate::spec::{Parameter, within};
pub(crate) use shape::{Avoidance, Decrease, Doubling, Marks, Shape};

/// How often a flow reports when nothing urgent happens. Losses, timeouts and the end of a
/// recovery are reported at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Period {
    /// With each ACK.
    Ack,
    /// Once a round trip.
    #[default]
    Rtt,
    /// Each so many µs, from 10 to 10,000,000: no less than a round trip in a rack (CCP §7.3).
    Micros(u64),
}

impl Period {
    /// What [`Period::Micros`] may be.
    pub(crate) const MICROS: std::ops::RangeInclusive<u64> = 10..=10_000_000;

    /// The period, µs; 0 where it is not fixed.
    pub(crate) fn micros(self) -> u64 {
        match self {
            Self::Micros(us) => us,
            Self::Ack | Self::Rtt => 0,
        }
    }

    pub(crate) fn check(self) -> Result<(), AlgorithmError> {
        match self {
            Self::Micros(us) => within(&[Parameter::REPORT], "report", &Self::MICROS, us, " µs"),
            Self::Ack | Self::Rtt => Ok(()),
        }
    }
}

/// Who runs slow start (CCP §4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SlowStart {
    /// The plane, at each report (CCP Figure 4).
    Plane,
    /// The program, by cwnd, at each ACK (CCP Figure 6): nearest to what kernels do.
    #[default]
    ProgramCwnd,
    /// The program, by doubling the rate each round trip (the excerpt of CCP §4.4).
    ProgramRate,
}

/// What ends the initial slow start before a loss does. Later slow starts end at ssthresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HyStart {
    /// Nothing.
    Off,
    /// HyStart as in Linux's CUBIC: late ACKs, or a long train of ACKs.
    Classic,
    /// HyStart++ (RFC 9406): late ACKs lead to five round trips of slower growth, then out.
    PlusPlus,
}

/// The shared program's handles.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    acked: Field,
    congested: Field,
    timeout: Field,
    undone: Field,
    mode: Field,
    before: Field,
    ssthresh: Field,
    rtt_us: Field,
    min_rtt_us: Field,
    mss: Var,
    per_mss: Var,
    ceiling: Var,
    last_cwnd: Var,
    goal: Option<Var>,
    keep: Option<Var>,
    gain: Option<Var>,
    delays: Option<(Field, Field)>,
    /// What begins at cwnd: rounds and windows, of which all is still to be acknowledged.
    left: [Option<Var>; 2],
}

/// How fast, and how far, cwnd grows in congestion avoidance until the plane says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Bytes to be acknowledged for cwnd to grow by one segment.
    pub(crate) per_mss: u64,
    /// Bytes that cwnd does not grow above.
    pub(crate) ceiling: u64,
}

impl Pace {
    /// No growth: what the program begins with.
    pub(crate) const NONE: Self = Self::of(u64::MAX);

    /// A segment for so many bytes, and no ceiling.
    pub(crate) const fn of(per_mss: u64) -> Self {
        Self {
            per_mss,
            ceiling: u64::MAX,
        }
    }
}

/// What a report says of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The datapath's time, µs.
    pub(crate) time_us: u64,
    /// Bytes.
    pub(crate) cwnd: u64,
    /// Bytes; `u64::MAX` before the first reduction.
    pub(crate) ssthresh: u64,
    /// Bytes delivered since the last report while the window might grow.
    pub(crate) acked: u64,
    /// cwnd before the last reduction, bytes.
    pub(crate) before: u64,
    /// A reduction began since the last report.
    pub(crate) congested: bool,
    /// The retransmission timer expired since the last report.
    pub(crate) timeout: bool,
    /// The datapath took the last reduction back.
    pub(crate) undone: bool,
    /// The flow is in fast recovery: the program alone moves cwnd.
    pub(crate) recovering: bool,
    /// The latest RTT sample, µs; `u64::MAX` before the first.
    pub(crate) rtt_us: u64,
    /// The least RTT of the connection, µs; `u64::MAX` before the first sample.
    pub(crate) min_rtt_us: u64,
    /// The RTT samples since the last report, where the shape has them: their sum, µs, and how
    /// many.
    pub(crate) delays: (u64, u64),
}

impl Reading {
    /// Whether cwnd is below ssthresh.
    pub(crate) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// cwnd, or what a recovery that goes on will leave of it, bytes.
    pub(crate) fn cwnd_to_grow(&self) -> u64 {
        if self.recovering {
            self.ssthresh
        } else {
            self.cwnd
        }
    }
}

impl Window {
    /// Compiles the shared program in this shape.
    pub(crate) fn load(
        programs: &mut Programs,
        name: &str,
        shape: Shape,
    ) -> Result<Self, AlgorithmError> {
        shape.period.check()?;
        let p = programs.add(name, &shape.source())?;
        let variable = |there, name| {
            if there {
                p.variable(name).map(Some)
            } else {
                Ok(None)
            }
        };
        let rounds =
            shape.hystart != HyStart::Off || matches!(shape.avoidance, Avoidance::Vegas { .. });
        Ok(Self {
            acked: p.field("acked")?,
            congested: p.field("congested")?,
            timeout: p.field("timeout")?,
            undone: p.field("undone")?,
            mode: p.field("mode")?,
            before: p.field("before")?,
            ssthresh: p.field("ssthresh")?,
            rtt_us: p.field("rtt_us")?,
            min_rtt_us: p.field("min_rtt_us")?,
            mss: p.variable("mss")?,
            per_mss: p.variable("per_mss")?,
            ceiling: p.variable("ceiling")?,
            last_cwnd: p.variable("last_cwnd")?,
            goal: variable(shape.slow_start == SlowStart::Plane, "goal")?,
            keep: variable(shape.decrease == Decrease::AsPlaneSays, "keep")?,
            gain: variable(shape.doubling == Doubling::AsPlaneSays, "gain")?,
            delays: if shape.delays {
                Some((p.field("rtt_sum_us")?, p.field("rtt_samples")?))
            } else {
                None
            },
            left: [
                variable(rounds, "round_left")?,
                variable(matches!(shape.marks, Marks::Share(_)), "window_left")?,
            ],
        })
    }

    /// Tells the program what only the plane knows of a new flow.
    pub(crate) fn begin(&self, info: &FlowInfo, control: &mut Control) {
        control.update(self.mss, info.mss.max(1));
        control.update(self.last_cwnd, info.cwnd);
        for left in self.left.into_iter().flatten() {
            control.update(left, info.cwnd);
        }
    }

    pub(crate) fn read(&self, report: &Report) -> Reading {
        Reading {
            time_us: report.time_us(),
            cwnd: report.cwnd(),
            ssthresh: report[self.ssthresh],
            acked: report[self.acked],
            before: report[self.before],
            congested: report.is_set(self.congested),
            timeout: report.is_set(self.timeout),
            undone: report.is_set(self.undone),
            recovering: report[self.mode] == 1,
            rtt_us: report[self.rtt_us],
            min_rtt_us: report[self.min_rtt_us],
            delays: self
                .delays
                .map_or((0, 0), |(sum, n)| (report[sum], report[n])),
        }
    }

    /// Slow start in the plane (CCP Figure 4); nothing where the program runs it.
    pub(crate) fn slow_start(&self, reading: &Reading, control: &mut Control) {
        if let Some(goal) = self.goal
            && reading.in_slow_start()
            && !reading.recovering
            && !reading.timeout
            && reading.acked > 0
        {
            control.update(goal, reading.cwnd.saturating_add(reading.acked));
        }
    }

    /// Sets what a loss leaves of cwnd, in 1024th; nothing is sent when it is `present` already.
    pub(crate) fn keep(&self, keep: u64, present: &mut u64, control: &mut Control) {
        if let Some(var) = self.keep
            && keep != *present
        {
            control.update(var, keep);
            *present = keep;
        }
    }

    /// Sets how much cwnd grows in slow start, in 1024th of what is delivered.
    pub(crate) fn gain(&self, gain: u64, present: &mut u64, control: &mut Control) {
        if let Some(var) = self.gain
            && gain != *present
        {
            control.update(var, gain);
            *present = gain;
        }
    }

    /// Sets the pace of congestion avoidance; nothing is sent when it is `present` already.
    pub(crate) fn pace(&self, pace: Pace, present: &mut Pace, control: &mut Control) {
        if pace.per_mss != present.per_mss {
            control.update(self.per_mss, pace.per_mss);
        }
        if pace.ceiling != present.ceiling {
            control.update(self.ceiling, pace.ceiling);
        }
        *present = pace;
    }
}

/// A flow of which the program decides everything.
pub(crate) struct Autonomous;

impl Flow for Autonomous {
    /// Nothing is left to decide; reports show that the flow lives, and what it does.
    fn on_report(&mut self, _: &Report, _: &mut Control) {}
}
