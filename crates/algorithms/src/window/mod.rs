//! What window-based algorithms share: a datapath program that keeps the window, and its handles.

mod shape;

use std::sync::Arc;

use fairwater_plane::{AlgorithmError, Control, Field, Flow, FlowInfo, Programs, Report, Var};

use crate::parameter::Named;
pub(crate) use shape::{Avoidance, Decrease, Doubling, Marks, Shape};

const PROGRAM: &str = include_str!("program.ccp");

/// How often a flow reports when nothing urgent happens. Losses, timeouts and the end of a
/// recovery are reported at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Period {
    /// With each ACK.
    Ack,
    /// Once a round trip.
    #[default]
    Rtt,
    /// At this interval, µs, from 10 (a round trip in a rack, CCP §7.3) to 10,000,000.
    Micros(u64),
}

impl Period {
    /// Range of [`Period::Micros`].
    pub(crate) const MICROS: std::ops::RangeInclusive<u64> = 10..=10_000_000;

    /// The period, µs; 0 where it is not fixed.
    pub(crate) fn micros(self) -> u64 {
        match self {
            Self::Micros(us) => us,
            Self::Ack | Self::Rtt => 0,
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

impl Named for SlowStart {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("program-cwnd", Self::ProgramCwnd),
        ("program-rate", Self::ProgramRate),
        ("plane", Self::Plane),
    ];
}

impl Named for HyStart {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("off", Self::Off),
        ("classic", Self::Classic),
        ("plusplus", Self::PlusPlus),
    ];
    const ALIASES: &'static [(&'static str, Self)] =
        &[("false", Self::Off), ("true", Self::PlusPlus)];
}

/// The shared program's handles. Flows share them: a copy each would be most of what a flow takes.
#[derive(Debug)]
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
    threshold: Var,
    by_rate: Option<Var>,
    goal: Option<Var>,
    keep: Option<Var>,
    gain: Option<Var>,
    delays: Option<(Field, Field)>,
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

    /// One segment of growth for this many bytes, without a ceiling.
    pub(crate) const fn of(per_mss: u64) -> Self {
        Self {
            per_mss,
            ceiling: u64::MAX,
        }
    }
}

/// The window as one report shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WindowSample {
    /// The datapath's time, µs.
    pub(crate) time_us: u64,
    /// Bytes.
    pub(crate) cwnd: u64,
    /// Bytes; `u64::MAX` before the first reduction.
    pub(crate) ssthresh: u64,
    /// Bytes delivered since the last report while the window could grow.
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
    /// Sum (µs) and number of the RTT samples since the last report, if the variant reports them.
    pub(crate) delays: (u64, u64),
}

impl WindowSample {
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
    /// Compiles the shared program in this variant.
    pub(crate) fn load(
        programs: &mut Programs,
        name: &str,
        shape: Shape,
    ) -> Result<Self, AlgorithmError> {
        let p = programs.add_with(name, PROGRAM, &shape.constants())?;
        let variable = |there, name| {
            if there {
                p.variable(name).map(Some)
            } else {
                Ok(None)
            }
        };
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
            threshold: p.variable("threshold")?,
            by_rate: variable(shape.slow_start == SlowStart::ProgramRate, "by_rate")?,
            goal: variable(shape.slow_start == SlowStart::Plane, "goal")?,
            keep: variable(shape.decrease == Decrease::AsPlaneSays, "keep")?,
            gain: variable(shape.doubling == Doubling::AsPlaneSays, "gain")?,
            delays: if shape.delays {
                Some((p.field("rtt_sum_us")?, p.field("rtt_samples")?))
            } else {
                None
            },
        })
    }

    /// Sets what the program cannot know of a new flow. A flow that has left slow start before does not
    /// begin another: HyStart, which is for the first slow start alone, does not run either.
    pub(crate) fn begin(&self, info: &FlowInfo, control: &mut Control) {
        self.set_mss(info.mss, control);
        control.update(self.last_cwnd, info.cwnd);
        if let Some(ssthresh) = info.ssthresh {
            control.update(self.threshold, ssthresh);
            if let Some(by_rate) = self.by_rate {
                control.update(by_rate, 0_u64);
            }
        }
    }

    /// Tells the program the size of segments, bytes.
    pub(crate) fn set_mss(&self, mss: u32, control: &mut Control) {
        control.update(self.mss, mss.max(1));
    }

    pub(crate) fn read(&self, report: &Report) -> WindowSample {
        WindowSample {
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
    pub(crate) fn slow_start(&self, sample: &WindowSample, control: &mut Control) {
        if let Some(goal) = self.goal
            && sample.in_slow_start()
            && !sample.recovering
            && !sample.timeout
            && sample.acked > 0
        {
            control.update(goal, sample.cwnd.saturating_add(sample.acked));
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

/// A flow that the program controls alone.
pub(crate) struct Autonomous(pub(crate) Arc<Window>);

impl Flow for Autonomous {
    /// Nothing is left to decide; reports show that the flow lives, and what it does.
    fn on_report(&mut self, _: &Report, _: &mut Control) {}

    fn on_mss(&mut self, mss: u32, control: &mut Control) {
        self.0.set_mss(mss, control);
    }
}
