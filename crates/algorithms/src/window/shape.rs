//! What the shared program looks like for one algorithm.

use super::program as text;
use super::{HyStart, Period, SlowStart};

/// What the text depends on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shape {
    /// What a loss leaves of cwnd.
    pub(crate) decrease: Decrease,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decrease {
    /// This decimal constant × cwnd.
    To(&'static str),
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
        decrease: Decrease::To("0.5"),
        slow_start: SlowStart::ProgramCwnd,
        doubling: Doubling::EachRoundTrip,
        hystart: HyStart::Off,
        marks: Marks::AsLoss,
        avoidance: Avoidance::Plane,
        delays: false,
        period: Period::Rtt,
    };

    /// The program's source.
    pub(crate) fn source(&self) -> String {
        let rate = self.slow_start == SlowStart::ProgramRate;
        let by_plane = self.slow_start == SlowStart::Plane;
        let by_share = matches!(self.marks, Marks::Share(_));
        let turns = matches!(self.avoidance, Avoidance::Vegas { .. });
        let when = |condition, part| if condition { part } else { "" };
        let parts = [
            text::DEFINITIONS,
            when(self.decrease == Decrease::AsPlaneSays, text::DEFINE_KEEP),
            when(self.doubling == Doubling::AsPlaneSays, text::DEFINE_GAIN),
            when(by_share, text::DEFINE_SHARE),
            when(self.delays, text::DEFINE_DELAYS),
            when(turns, text::DEFINE_TURNS),
            when(by_plane, text::DEFINE_GOAL),
            match self.hystart {
                HyStart::Off => "",
                HyStart::Classic => text::DEFINE_CLASSIC,
                HyStart::PlusPlus => text::DEFINE_PLUS_PLUS,
            },
            when(rate, text::DEFINE_RATE),
            ")\n",
            text::FOLD,
            when(self.delays, text::DELAYS),
            when(by_share, text::SHARE),
            text::RESPONSE,
            match self.hystart {
                HyStart::Off => "",
                HyStart::Classic => text::CLASSIC,
                HyStart::PlusPlus => text::PLUS_PLUS,
            },
            when(turns, text::TURNS),
            when(rate, text::SLOW_START_RATE),
            match self.slow_start {
                SlowStart::Plane => text::SLOW_START_PLANE,
                SlowStart::ProgramCwnd | SlowStart::ProgramRate => text::SLOW_START_CWND,
            },
            match self.avoidance {
                Avoidance::Plane | Avoidance::Vegas { .. } => "",
                Avoidance::Reno => text::RENO_PACE,
            },
            text::AVOIDANCE,
        ];
        let holes = [
            ("@reduced@", self.reduced()),
            ("@lost@", self.lost("Cwnd")),
            ("@lost before@", self.lost("Report.before")),
            ("@congestion@", self.congestion()),
            ("@above@", self.window().to_owned()),
            ("@growth@", self.growth()),
            ("@train@", when(!rate, text::ACK_TRAIN).to_owned()),
            ("@leave rate@", when(rate, text::LEAVE_RATE).to_owned()),
            ("@no goal@", when(by_plane, "(:= goal 0)").to_owned()),
            (
                "@window@",
                if rate {
                    text::WINDOW_OF_RATE
                } else {
                    "last_cwnd"
                }
                .to_owned(),
            ),
            (
                "@open@",
                if rate {
                    "(&& (! by_rate) (!= Report.mode 1))"
                } else {
                    "(!= Report.mode 1)"
                }
                .to_owned(),
            ),
            ("@share's weight@", self.weight()),
            ("@period@", self.report_when()),
        ];
        let vegas = self.thresholds();
        let all = holes.into_iter().chain(vegas);
        all.fold(parts.concat(), |text, (hole, part)| {
            text.replace(hole, &part)
        })
    }

    /// cwnd less what a loss takes.
    fn lost(&self, cwnd: &str) -> String {
        match self.decrease {
            Decrease::To(beta) => format!("(* {beta} {cwnd})"),
            Decrease::AsPlaneSays => format!("(/ (* keep {cwnd}) 1024)"),
        }
    }

    /// cwnd less what a loss or a mark takes.
    fn reduced(&self) -> String {
        match self.marks {
            Marks::Ignored | Marks::AsLoss => text::WHOLE_SEGMENTS,
            Marks::Share(_) => text::BY_SHARE,
        }
        .to_owned()
    }

    /// What is to be acknowledged before another reduction.
    fn window(&self) -> &'static str {
        match self.marks {
            Marks::AsLoss => text::BEYOND,
            Marks::Ignored | Marks::Share(_) => text::ALL,
        }
    }

    fn congestion(&self) -> String {
        match self.marks {
            Marks::Ignored => text::LOSS,
            Marks::AsLoss | Marks::Share(_) => text::LOSS_OR_MARK,
        }
        .to_owned()
    }

    fn growth(&self) -> String {
        match (self.doubling, self.hystart) {
            (Doubling::AsPlaneSays, _) => "(/ (* gain delivered) 1024)",
            (Doubling::EveryOther, _) => "(if hold 0 delivered)",
            (Doubling::EachRoundTrip, HyStart::PlusPlus) => "(if css (/ delivered 4) delivered)",
            (Doubling::EachRoundTrip, _) => "delivered",
        }
        .to_owned()
    }

    fn weight(&self) -> String {
        match self.marks {
            Marks::Share(weight) => format!("{weight:.6}"),
            Marks::Ignored | Marks::AsLoss => String::new(),
        }
    }

    fn thresholds(&self) -> Vec<(&'static str, String)> {
        let Avoidance::Vegas { alpha, beta, gamma } = self.avoidance else {
            return Vec::new();
        };
        let segments = |n: f64| format!("(* {n:.3} mss)");
        vec![
            ("@alpha@", segments(alpha)),
            ("@beta@", segments(beta)),
            ("@gamma@", segments(gamma)),
        ]
    }

    fn report_when(&self) -> String {
        match self.period {
            Period::Ack => "true".to_owned(),
            Period::Rtt => "(> Micros Flow.rtt_sample_us)".to_owned(),
            Period::Micros(us) => format!("(> Micros {us})"),
        }
    }
}
