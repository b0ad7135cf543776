//! ProbeRTT: little in flight for a while, to see the RTT without a queue.

use super::datapath::PathSample;

/// How long in-flight data is held down, µs.
const HOLD_US: u64 = 200_000;

/// One measurement: in flight falls to what is asked for, and stays there for 200 ms and a round
/// trip (Cardwell et al. 2016; draft-ietf-ccwg-bbr, "ProbeRTT Logic").
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ProbeRtt {
    /// Not before in flight has fallen.
    until_us: Option<u64>,
    round_passed: bool,
}

impl ProbeRtt {
    /// Whether in flight has not fallen yet.
    pub(super) fn waits(&self) -> bool {
        self.until_us.is_none()
    }

    /// Whether it is over. A pause is as good as a measurement.
    pub(super) fn is_over(&mut self, reading: &PathSample) -> bool {
        match self.until_us {
            None if reading.low_reached || reading.idled => {
                self.until_us = Some(reading.time_us.saturating_add(HOLD_US));
            }
            None => {}
            Some(_) if reading.rounds > 0 => self.round_passed = true,
            Some(_) => {}
        }
        self.round_passed && self.until_us.is_some_and(|at| reading.time_us >= at)
    }
}
