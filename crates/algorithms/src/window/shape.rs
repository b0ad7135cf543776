//! What the shared program looks like for one algorithm.

use fairwater_plane::ConstantValue;

use super::{HyStart, Period, SlowStart};

/// The variant of the program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shape {
    /// What a loss leaves of cwnd.
    pub(crate) decrease: Decrease,
    /// Whether a reduction is spread over the round trip (RFC 6937).
    pub(crate) prr: bool,
    /// Who runs slow start.
    pub(crate) slow_start: SlowStart,
    /// How much cwnd grows in it.
    pub(crate) doubling: Doubling,
    /// What ends the initial slow start before a loss does.
    pub(crate) hystart: HyStart,
    /// What ECN marks do.
    pub(crate) marks: Marks,
    /// How cwnd moves in congestion avoidance.
    pub(crate) avoidance: Avoidance,
    /// Whether the plane learns the mean of all RTT samples between reports.
    pub(crate) delays: bool,
    /// How often the program reports when nothing urgent happens.
    pub(crate) period: Period,
}

/// What a loss leaves of cwnd.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Decrease {
    /// This factor × cwnd.
    To(f64),
    /// As many 1024th of cwnd as the plane has said last, a half at first.
    AsPlaneSays,
}

/// How much cwnd grows in slow start, per byte delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doubling {
    /// One byte (RFC 5681 §3.1).
    EachRoundTrip,
    /// In every other round trip one, in the others none (Brakmo and Peterson).
    EveryOther,
    /// As many 1024th of a byte as the plane has said last.
    AsPlaneSays,
}

/// What ECN marks do to the window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Marks {
    /// Nothing.
    Ignored,
    /// What a loss does (RFC 3168 §6.1.2).
    AsLoss,
    /// They cut cwnd by half of their share α, a moving average in which a round trip has this
    /// weight (RFC 8257 §3.3).
    Share(f64),
}

impl Marks {
    /// For algorithms that answer marks as losses, or not at all.
    pub(crate) fn as_loss(ecn: bool) -> Self {
        if ecn { Self::AsLoss } else { Self::Ignored }
    }
}

/// How cwnd moves in congestion avoidance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Avoidance {
    /// It grows at the pace that the plane sets.
    Plane,
    /// It grows by one segment for each cwnd acknowledged (RFC 5681 §3.1).
    Reno,
    /// Once a round trip it moves by a segment, to keep between `alpha` and `beta` segments in the
    /// queue; more than `gamma` of them end slow start (Brakmo and Peterson).
    Vegas { alpha: f64, beta: f64, gamma: f64 },
}

impl Shape {
    /// NewReno, but for the pace.
    pub(crate) const RENO: Self = Self {
        decrease: Decrease::To(0.5),
        prr: true,
        slow_start: SlowStart::ProgramCwnd,
        doubling: Doubling::EachRoundTrip,
        hystart: HyStart::Off,
        marks: Marks::AsLoss,
        avoidance: Avoidance::Plane,
        delays: false,
        period: Period::Rtt,
    };

    /// The values of the program's compile-time constants.
    pub(crate) fn constants(&self) -> Vec<(&'static str, ConstantValue)> {
        let mut constants = vec![
            (
                "slow_start_by_rate",
                (self.slow_start == SlowStart::ProgramRate).into(),
            ),
            (
                "slow_start_in_plane",
                (self.slow_start == SlowStart::Plane).into(),
            ),
            (
                "gain_in_plane",
                (self.doubling == Doubling::AsPlaneSays).into(),
            ),
            ("hystart_classic", (self.hystart == HyStart::Classic).into()),
            (
                "hystart_plus_plus",
                (self.hystart == HyStart::PlusPlus).into(),
            ),
            ("mark_is_loss", (self.marks == Marks::AsLoss).into()),
            ("prr", self.prr.into()),
            ("reno_pace", (self.avoidance == Avoidance::Reno).into()),
            ("report_delays", self.delays.into()),
            ("report_each_ack", (self.period == Period::Ack).into()),
            ("report_period_us", self.period.micros().into()),
        ];
        match self.decrease {
            Decrease::To(factor) => constants.push(("loss_factor", factor.into())),
            Decrease::AsPlaneSays => constants.push(("loss_factor_in_plane", true.into())),
        }
        if let Marks::Share(weight) = self.marks {
            constants.extend([("mark_share", true.into()), ("mark_weight", weight.into())]);
        }
        if let Avoidance::Vegas { alpha, beta, gamma } = self.avoidance {
            constants.extend([
                ("vegas", true.into()),
                ("vegas_alpha", alpha.into()),
                ("vegas_beta", beta.into()),
                ("vegas_gamma", gamma.into()),
            ]);
        }
        constants
    }
}
