//! Delay control never empties the queue, nor do flows that fill the buffer: RTTmin is seen where
//! Nimbus makes room for it, as BBR does by ProbeRTT.

use super::Observed;
use super::pulse::PERIOD_US;

/// Time without an empty queue after which the queue is drained, µs: half of RTTmin's window.
const EACH_US: u64 = super::MEMORY_US / 2;
/// Less than this is no progress, µs.
const PROGRESS_US: u64 = 500;

/// What becomes of the rate after a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// It is controlled.
    Control,
    /// Half of it is sent: the queue empties.
    Halve,
    /// It is held until S and R are no more of packets of the time before.
    Hold,
}

/// Half is sent until that makes the RTT no shorter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drain {
    phase: Phase,
    /// When the queue was empty last, or as short as half the rate makes it, µs.
    empty_us: u64,
    least_us: u64,
    /// When the RTT fell last, or since when the rate is held, µs.
    since_us: u64,
}

impl Drain {
    pub(super) fn new(time_us: u64) -> Self {
        Self {
            phase: Phase::Control,
            empty_us: time_us,
            least_us: u64::MAX,
            since_us: time_us,
        }
    }

    /// A report of delay control's. What is sent less shows a round trip later, and pulses hide it
    /// for a while.
    pub(super) fn report(&mut self, empty: bool, seen: &Observed) -> Phase {
        let passed_us = |since: u64| seen.time_us.saturating_sub(since);
        let loop_us = seen.rtt_us.saturating_add(PERIOD_US);
        if empty {
            self.empty_us = seen.time_us;
        }
        match self.phase {
            Phase::Control if passed_us(self.empty_us) > EACH_US => {
                *self = Self {
                    phase: Phase::Halve,
                    least_us: seen.rtt_us,
                    since_us: seen.time_us,
                    ..*self
                };
            }
            Phase::Control => {}
            Phase::Halve => {
                if seen.rtt_us.saturating_add(PROGRESS_US) <= self.least_us {
                    self.least_us = seen.rtt_us;
                    self.since_us = seen.time_us;
                } else if passed_us(self.since_us) > loop_us {
                    self.phase = Phase::Hold;
                    self.since_us = seen.time_us;
                    self.empty_us = seen.time_us;
                }
            }
            Phase::Hold => {
                if passed_us(self.since_us) > loop_us {
                    self.phase = Phase::Control;
                }
            }
        }
        self.phase
    }

    /// Competition takes over.
    pub(super) fn stop(&mut self) {
        self.phase = Phase::Control;
    }
}
