//! The history of the base delay.

use std::collections::VecDeque;

/// RFC 6817 §3.4.1: BASE_HISTORY, the minutes remembered.
const MINUTES: usize = 10;
const MINUTE_US: u64 = 60_000_000;

/// The least delay of each of the last ten minutes (RFC 6817 §2.4.2): a route that has become
/// longer is believed after ten minutes, one that has become shorter at once.
#[derive(Debug, Default)]
pub(super) struct BaseDelay {
    /// The minute, by the datapath's time, and its least delay in µs; the oldest first.
    minima: VecDeque<(u64, u64)>,
}

impl BaseDelay {
    /// Takes a sample in, and yields the base delay, µs; `u64::MAX` when there has been none.
    pub(super) fn observe(&mut self, time_us: u64, delay_us: u64) -> u64 {
        if delay_us < u64::MAX {
            let minute = time_us / MINUTE_US;
            match self.minima.back_mut() {
                Some((last, least)) if *last >= minute => *least = delay_us.min(*least),
                _ => self.minima.push_back((minute, delay_us)),
            }
            if self.minima.len() > MINUTES {
                self.minima.pop_front();
            }
            while self
                .minima
                .front()
                .is_some_and(|(first, _)| minute.saturating_sub(*first) >= MINUTES as u64)
            {
                self.minima.pop_front();
            }
        }
        self.minima
            .iter()
            .map(|(_, least)| *least)
            .min()
            .unwrap_or(u64::MAX)
    }
}
