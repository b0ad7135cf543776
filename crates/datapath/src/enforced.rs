//! What a transport enforces that holds a window alone, or a rate alone.
//!
//! A program sets both. A window alone is at most rate × minimum RTT, so that no more is sent in a
//! round trip than the rate lets out; a rate alone is at most cwnd / SRTT, so that no more is sent
//! in a round trip than the window lets out. Where a program sets one of the two, and leaves the
//! other open, this is the one rule in both directions.

use fairwater_lang::MAX_RATE;
use fairwater_proto::Abilities;

use crate::Controls;

/// Window of the minimum-RTT filter, µs: an RTT counts for this long at most, and for half of it
/// at least (`BBR.MinRTTFilterLen` of draft-ietf-ccwg-bbr is as long).
const MIN_RTT_WINDOW_US: u64 = 10_000_000;

/// SRTT before the first sample, µs (draft-cardwell-iccrg-bbr-congestion-control-00 §4.2.1,
/// BBRInitPacingRate).
const NOMINAL_SRTT_US: u64 = 1_000;

/// The only control that a transport holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnlyControl {
    Window,
    Rate,
}

impl OnlyControl {
    /// `None` if the transport holds both controls, or none.
    pub(crate) const fn of(abilities: Abilities) -> Option<Self> {
        match (abilities.window, abilities.rate) {
            (true, false) => Some(Self::Window),
            (false, true) => Some(Self::Rate),
            _ => None,
        }
    }
}

/// What a transport with one control knows of a flow, and was told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Enforced {
    min_rtt: MinRtt,
    /// What is in force.
    pub(crate) controls: Controls,
}

impl Enforced {
    /// The window that the transport begins with, bytes, without a rate.
    pub(crate) const fn new(cwnd: u64) -> Self {
        Self {
            min_rtt: MinRtt::new(),
            controls: Controls { cwnd, rate: 0 },
        }
    }

    /// Takes in the latest RTT sample, µs.
    pub(crate) fn on_rtt(&mut self, now_us: u64, rtt_us: u64) {
        self.min_rtt.on_sample(now_us, rtt_us);
    }

    /// What stands for the controls that the program or the fallback set.
    pub(crate) fn of(
        &self,
        only: OnlyControl,
        set: Controls,
        (mss, srtt_us): (u64, u64),
    ) -> Controls {
        match only {
            OnlyControl::Window => Controls {
                cwnd: match (set.rate, self.min_rtt.get()) {
                    (0, _) | (_, None) => set.cwnd,
                    // A window below one segment would let nothing out.
                    (rate, Some(min_rtt_us)) => set.cwnd.min(bytes(rate, min_rtt_us).max(mss)),
                },
                rate: 0,
            },
            OnlyControl::Rate => {
                let srtt_us = if srtt_us == 0 {
                    NOMINAL_SRTT_US
                } else {
                    srtt_us
                };
                let window = per_second(set.cwnd, srtt_us).clamp(1, MAX_RATE);
                Controls {
                    rate: if set.rate == 0 {
                        window
                    } else {
                        set.rate.min(window)
                    },
                    ..set
                }
            }
        }
    }
}

/// Bytes that a rate, bytes/s, lets out in a time, µs.
fn bytes(rate: u64, time_us: u64) -> u64 {
    let bytes = u128::from(rate) * u128::from(time_us) / 1_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Rate of a number of bytes in a time of µs, bytes/s.
fn per_second(bytes: u64, time_us: u64) -> u64 {
    let rate = u128::from(bytes) * 1_000_000 / u128::from(time_us.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// The minimum of the RTT samples of the present and the previous half of the window.
#[derive(Debug, Clone, Copy)]
struct MinRtt {
    /// Minimum of the previous half, and of the present one, µs; `u64::MAX` without a sample.
    halves: [u64; 2],
    /// When the present half began, µs.
    since_us: u64,
}

impl MinRtt {
    const fn new() -> Self {
        Self {
            halves: [u64::MAX; 2],
            since_us: 0,
        }
    }

    fn on_sample(&mut self, now_us: u64, rtt_us: u64) {
        let [_, present] = self.halves;
        let elapsed_us = now_us.saturating_sub(self.since_us);
        if elapsed_us >= MIN_RTT_WINDOW_US {
            self.halves = [u64::MAX, rtt_us];
            self.since_us = now_us;
        } else if elapsed_us >= MIN_RTT_WINDOW_US / 2 {
            self.halves = [present, rtt_us];
            self.since_us = now_us;
        } else {
            self.halves[1] = present.min(rtt_us);
        }
    }

    fn get(&self) -> Option<u64> {
        let [previous, present] = self.halves;
        Some(previous.min(present)).filter(|min_us| *min_us != u64::MAX)
    }
}
