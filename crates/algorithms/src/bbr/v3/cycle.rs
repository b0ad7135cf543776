//! When ProbeBW probes, and what became of the last probe.

use crate::draws::Draws;

/// The phases of ProbeBW.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Slower than the model, until the queue is empty and others have room.
    Down,
    /// At the model.
    Cruise,
    /// At the model without its short-term bounds, to fill the path before probing.
    Refill,
    /// Faster than the model, until it brings no more or loses too much.
    Up,
}

/// What the ACKs that come now tell of (BBR.ack_phase).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Acks {
    #[default]
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// The cycle of ProbeBW (draft-ietf-ccwg-bbr, "ProbeBW Algorithm Details").
#[derive(Debug)]
pub(super) struct Cycle {
    acks: Acks,
    began_us: u64,
    wait_us: u64,
    rounds_since_probe: u64,
    /// Round trips in which inflight_longterm grew in this probe.
    growing_rounds: u32,
    /// The last probe lost too much.
    pub(super) too_high: bool,
    /// The last probe stopped where the one before had lost too much.
    pub(super) precautionary: bool,
    /// Losses are of a probe, and it was not answered yet.
    pub(super) of_probe: bool,
}

impl Cycle {
    pub(super) fn new() -> Self {
        Self {
            acks: Acks::Init,
            began_us: 0,
            wait_us: 0,
            rounds_since_probe: 0,
            growing_rounds: 0,
            too_high: false,
            precautionary: false,
            of_probe: false,
        }
    }

    pub(super) fn down(&mut self, now_us: u64, wait_us: u64, draws: &mut Draws) {
        self.acks = Acks::ProbeStopping;
        self.began_us = now_us;
        // PickProbeWait.
        self.rounds_since_probe = draws.up_to(1);
        self.wait_us = wait_us + draws.up_to(1_000_000);
    }

    pub(super) fn refill(&mut self) {
        self.acks = Acks::Refilling;
        self.growing_rounds = 0;
        self.precautionary = false;
    }

    pub(super) fn up(&mut self) {
        self.acks = Acks::ProbeStarting;
        self.of_probe = true;
    }

    /// ProbeRTT begins.
    pub(super) fn stop(&mut self) {
        self.acks = Acks::ProbeStopping;
    }

    /// Round trips ended. Whether the samples of a probe ended with them.
    pub(super) fn rounds(&mut self, rounds: u64) -> bool {
        self.rounds_since_probe = self.rounds_since_probe.saturating_add(rounds);
        match self.acks {
            Acks::ProbeStarting => self.acks = Acks::ProbeFeedback,
            Acks::ProbeStopping => {
                self.acks = Acks::Init;
                self.of_probe = false;
                return true;
            }
            Acks::Init | Acks::Refilling | Acks::ProbeFeedback => {}
        }
        false
    }

    /// IsTimeToProbeBW: on the clock, or when Reno would have added a segment for each of the
    /// `target` that are wanted in flight.
    pub(super) fn is_time_to_probe(&self, now_us: u64, target: u64) -> bool {
        now_us > self.began_us.saturating_add(self.wait_us)
            || self.rounds_since_probe >= target.min(63)
    }

    /// By how many segments inflight_longterm grows in this round trip: 1, 2, 4 and so on.
    pub(super) fn growth(&mut self) -> u64 {
        let growth = 1 << self.growing_rounds;
        self.growing_rounds = (self.growing_rounds + 1).min(30);
        growth
    }
}
