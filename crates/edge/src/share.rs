//! Shares: a group of flows divides the sum of its windows by weight (vCC §4, figure 12).
//!
//! Each active flow of a group has its own window, as its algorithm decides. While active flows differ in
//! weight, each gets its part of the sum by weight, and the sum stays what it was: the preferred flows get more than
//! their own windows, the others less. Else each keeps its own window. Flows of one group should share a
//! bottleneck: a part above a flow's own window is more than its own path was found to take.
//!
//! vCC holds the sum of the windows constant by configuration. Here it is what the algorithms find, so that
//! the group answers to the path as its flows would together.

use std::time::Duration;

use fairwater_lang::{Signal, Signals};
use fairwater_net::Time;

/// Least part of a flow whose own window is no less, segments: with one, a receiver that delays its ACKs
/// stalls it.
const MIN_SEGMENTS: u64 = 2;

/// RTT of a flow that has none yet (RFC 6298 §2.1).
const FIRST_RTT: Duration = Duration::from_secs(1);

/// Beyond any window of TCP, so that products of two do not overflow.
const MAX_WINDOW: u64 = u32::MAX as u64;

/// A flow of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Weight, from 1.
    pub weight: u16,
    /// The window that its algorithm decided, bytes.
    pub window: u64,
    /// Maximum segment size, bytes.
    pub mss: u32,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: Duration,
    /// When it sent data last.
    pub sent_at: Time,
    /// Whether data is out.
    pub is_out: bool,
}

impl Member {
    /// Whether it takes part: it sent data within the last RTT, or within two while data is out, as it sends
    /// at least once in the RTT of an ACK.
    #[must_use]
    pub fn is_active(&self, now: Time) -> bool {
        let rtt = if self.srtt.is_zero() {
            FIRST_RTT
        } else {
            self.srtt
        };
        let limit = if self.is_out { 2 * rtt } else { rtt };
        now.since(self.sent_at) < limit
    }

    /// The least part.
    fn floor(&self) -> u64 {
        self.window.min(MIN_SEGMENTS * u64::from(self.mss))
    }
}

/// The part of each flow of a group, bytes; `None` keeps its own window. The order of the flows does not
/// matter, the sum of the parts is less than that of the windows by at most one byte for each flow, and no part
/// is below two segments unless the flow's own window is.
#[must_use]
pub fn divide(now: Time, members: &[Member]) -> Vec<Option<u64>> {
    let active: Vec<bool> = members.iter().map(|each| each.is_active(now)).collect();
    let of_active = || members.iter().zip(&active).filter(|(_, active)| **active);
    let weights = of_active().map(|(member, _)| member.weight.max(1));
    if weights.clone().min() == weights.clone().max() {
        return vec![None; members.len()];
    }
    let mut rest: u128 = of_active()
        .map(|(member, _)| u128::from(member.window))
        .sum();
    let mut weight: u128 = weights.map(u128::from).sum();
    // Who would be below the least gets that, and the others divide what is left, until nobody is.
    let mut parts: Vec<Option<u64>> = vec![None; members.len()];
    loop {
        let part = |member: &Member| {
            let part = rest * u128::from(member.weight.max(1));
            u64::try_from(part.checked_div(weight).unwrap_or(0)).unwrap_or(u64::MAX)
        };
        let below: Vec<usize> = (0..members.len())
            .filter(|&at| active[at] && parts[at].is_none())
            .filter(|&at| part(&members[at]) < members[at].floor())
            .collect();
        if below.is_empty() {
            for at in 0..members.len() {
                if active[at] && parts[at].is_none() {
                    parts[at] = Some(part(&members[at]));
                }
            }
            return parts;
        }
        for at in below {
            let member = &members[at];
            parts[at] = Some(member.floor());
            rest = rest.saturating_sub(u128::from(member.floor()));
            weight = weight.saturating_sub(u128::from(member.weight.max(1)));
        }
    }
}

/// A part in whole segments, as a window of TCP has them. `rest` keeps what a flow did not get, for its next part, so
/// that its parts are right on average: of five segments, a half is a tenth.
#[must_use]
pub fn whole_segments(part: u64, mss: u32, rest: &mut u64) -> u64 {
    let mss = u64::from(mss.max(1));
    let due = part.saturating_add((*rest).min(mss - 1));
    *rest = due % mss;
    due - *rest
}

/// The part of a flow until the next division.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Portion {
    /// The part, and the flow's own window when it was found, bytes.
    pub(crate) part: u64,
    pub(crate) window: u64,
}

/// What is counted of a flow between two invocations, and so takes part in the rounding of the next.
const COUNTED: [Signal; 4] = [
    Signal::BytesAcked,
    Signal::PacketsAcked,
    Signal::BytesMisordered,
    Signal::PacketsMisordered,
];

/// What is measured of a flow and grows with its window.
const MEASURED: [Signal; 4] = [
    Signal::BytesInFlight,
    Signal::PacketsInFlight,
    Signal::RateIncoming,
    Signal::RateOutgoing,
];

/// What was lost in rounding of each count, in parts of [`Portion::part`].
pub(crate) type Remainders = [u64; COUNTED.len()];

impl Portion {
    /// Makes the signals those of a flow that uses its own window, not its part: algorithms reckon with what their
    /// window lets in. A flow with less in flight than half of its window does not grow (RFC 7661 §4.2), and what is
    /// in flight when a reduction is spread counts as the window that it is spread over (RFC 6937 §3).
    pub(crate) fn as_own(self, signals: &mut Signals, remainders: &mut Remainders) {
        let (part, window) = (self.part.min(MAX_WINDOW), self.window.min(MAX_WINDOW));
        if part == 0 || window == 0 {
            return;
        }
        for (signal, remainder) in COUNTED.into_iter().zip(remainders) {
            let whole = signals[signal].min(MAX_WINDOW) * window + (*remainder).min(part - 1);
            signals[signal] = whole / part;
            *remainder = whole % part;
        }
        for signal in MEASURED {
            let value = signals[signal];
            signals[signal] = match value > MAX_WINDOW {
                // A rate is at most 2⁴⁰ bytes/s.
                true => ((value >> 8).min(MAX_WINDOW) * window / part) << 8,
                false => value * window / part,
            };
        }
    }

    /// What limits the flow when its own window is this. A reduction takes effect at once, in proportion; growth
    /// waits for the next division.
    pub(crate) fn limit(self, window: u64) -> u64 {
        if window >= self.window {
            return self.part;
        }
        let part = u128::from(self.part) * u128::from(window);
        let part = part.checked_div(u128::from(self.window)).unwrap_or(0);
        u64::try_from(part).unwrap_or(u64::MAX)
    }
}
