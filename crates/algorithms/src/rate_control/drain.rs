//! Delay control never empties the queue, nor do flows that fill the buffer: the flow itself makes
//! room to see RTTmin, as BBR does by ProbeRTT.

/// Time without an empty queue after which the queue is drained, µs: half of RTTmin's window.
const EACH_US: u64 = super::MEMORY_US / 2;
/// Less than this is no progress, µs.
const PROGRESS_US: u64 = 500;

/// What becomes of the rate after a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It is controlled.
    Control,
    /// Half of it is sent: the queue empties.
    Halve,
    /// It is held until S and R are no more of packets of the time before.
    Hold,
}

/// Half is sent until that makes the RTT no shorter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drain {
    phase: Phase,
    /// When the queue was empty last, or as short as half the rate makes it, µs.
    empty_us: u64,
    least_us: u64,
    /// When the RTT fell last, or since when the rate is held, µs.
    since_us: u64,
}

impl Drain {
    pub(crate) fn new(time_us: u64) -> Self {
        Self {
            phase: Phase::Control,
            empty_us: time_us,
            least_us: u64::MAX,
            since_us: time_us,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// A report of delay control's at `time_us`, with the least RTT since the last. What is sent
    /// less shows after `loop_us`.
    pub(crate) fn report(
        &mut self,
        empty: bool,
        (time_us, rtt_us): (u64, u64),
        loop_us: u64,
    ) -> Phase {
        let passed_us = |since: u64| time_us.saturating_sub(since);
        if empty {
            self.empty_us = time_us;
        }
        match self.phase {
            Phase::Control if passed_us(self.empty_us) > EACH_US => {
                self.begin(time_us, rtt_us);
            }
            Phase::Control => {}
            Phase::Halve => {
                if rtt_us.saturating_add(PROGRESS_US) <= self.least_us {
                    self.least_us = rtt_us;
                    self.since_us = time_us;
                } else if passed_us(self.since_us) > loop_us {
                    self.phase = Phase::Hold;
                    self.since_us = time_us;
                    self.empty_us = time_us;
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

    /// Drains the queue now.
    pub(crate) fn begin(&mut self, time_us: u64, rtt_us: u64) {
        *self = Self {
            phase: Phase::Halve,
            least_us: rtt_us,
            since_us: time_us,
            ..*self
        };
    }

    /// Competition takes over.
    pub(crate) fn stop(&mut self) {
        self.phase = Phase::Control;
    }
}
