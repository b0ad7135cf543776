//! What version 3 has of its own in the program: handles, and what reports say.

use fairwater_plane::{AlgorithmError, Control, Field, ProgramHandle, Report, Var};

/// The handles.
#[derive(Debug)]
pub(super) struct Extension {
    latest: Field,
    delivered: Field,
    lost: Field,
    losses: Field,
    limited: Field,
    undone: Field,
    high_reached: Field,
    excess: Field,
    flight_before: Field,
    pub(super) bw_limit: Var,
    pub(super) ceiling: Var,
    pub(super) spare: Var,
    pub(super) high: Var,
    pub(super) probing: Var,
}

/// What a report says of rates, volumes and losses; bytes and bytes/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Feedback {
    /// The greatest delivery rate since the last report, whatever limited it.
    pub(super) latest_bw: u64,
    /// Delivered in a round trip that ended.
    pub(super) delivered: u64,
    /// Lost or marked since the last report.
    pub(super) lost: u64,
    /// ACKs that told of losses.
    pub(super) losses: u64,
    /// cwnd held the flow back.
    pub(super) limited: bool,
    /// The datapath took a reduction back.
    pub(super) undone: bool,
    /// In flight rose to what was asked for.
    pub(super) high_reached: bool,
    /// Too much was lost while probing.
    pub(super) excess: bool,
    /// The most in flight in the last round trip: in it was sent what is lost in this one.
    pub(super) flight_before: u64,
    /// cwnd.
    pub(super) cwnd: u64,
}

impl Extension {
    pub(super) fn of(p: &ProgramHandle) -> Result<Self, AlgorithmError> {
        Ok(Self {
            latest: p.field("latest")?,
            delivered: p.field("delivered")?,
            lost: p.field("lost")?,
            losses: p.field("losses")?,
            limited: p.field("limited")?,
            undone: p.field("undone")?,
            high_reached: p.field("high_reached")?,
            excess: p.field("excess")?,
            flight_before: p.field("flight_before")?,
            bw_limit: p.variable("bw_limit")?,
            ceiling: p.variable("ceiling")?,
            spare: p.variable("spare")?,
            high: p.variable("high")?,
            probing: p.variable("probing")?,
        })
    }

    pub(super) fn read(&self, report: &Report) -> Feedback {
        Feedback {
            latest_bw: report[self.latest],
            delivered: report[self.delivered],
            lost: report[self.lost],
            losses: report[self.losses],
            limited: report.is_set(self.limited),
            undone: report.is_set(self.undone),
            high_reached: report.is_set(self.high_reached),
            excess: report.is_set(self.excess),
            flight_before: report[self.flight_before],
            cwnd: report.cwnd(),
        }
    }

    /// A probe begins or ends: whether its losses are watched, and what in-flight volume is to be
    /// told of.
    pub(super) fn watch(&self, losses: bool, high: Option<u64>, control: &mut Control) {
        control.update(self.probing, losses);
        control.update(self.high, high.unwrap_or(0));
    }
}
