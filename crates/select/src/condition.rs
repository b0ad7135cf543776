//! Conditions on a flow's measures, each with hysteresis of its own.

use std::fmt;
use std::time::Duration;

use fairwater_net::Probability;

use super::Measures;
use super::windowed::Counts;

/// What thresholds are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Measure {
    /// RTT, µs.
    Rtt,
    /// Least RTT of the path, µs.
    MinRtt,
    /// RTT above the least RTT, µs.
    Queueing,
    /// Share of the packets in the window that were lost, parts per billion.
    Loss,
}

impl Measure {
    /// The value now; `None` if it is not known, so that conditions stay as they are.
    fn value(self, measures: &Measures, counts: Counts, least_packets: u64) -> Option<u64> {
        let known = |us: u64| (us > 0).then_some(us);
        match self {
            Self::Rtt => known(measures.rtt_us),
            Self::MinRtt => known(measures.min_rtt_us),
            Self::Queueing => {
                Some(known(measures.rtt_us)?.saturating_sub(known(measures.min_rtt_us)?))
            }
            Self::Loss => {
                let all = counts.acked.saturating_add(counts.lost);
                (all > 0 && all >= least_packets).then(|| counts.loss_ppb())
            }
        }
    }

    fn shown(self, value: u64) -> String {
        match self {
            Self::Loss => format!("{}%", value as f64 / 1e7),
            _ => format!("{:?}", Duration::from_micros(value)),
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rtt => "RTT",
            Self::MinRtt => "least RTT",
            Self::Queueing => "queueing delay",
            Self::Loss => "loss",
        })
    }
}

/// What a clause asks of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Condition {
    /// A packet was lost in the window, or none was.
    Lost(bool),
    /// A packet was marked in the window, or none was.
    Marked(bool),
    /// The measure is below the threshold.
    Below(Measure, u64),
    /// The measure is above the threshold.
    Above(Measure, u64),
}

impl Condition {
    /// Whether it holds now. A threshold that held is left only beyond `margin` behind it, and one that did
    /// not hold is reached only beyond `margin` before it; `held` is `None` the first time.
    pub(super) fn holds(
        self,
        measures: &Measures,
        counts: Counts,
        least_packets: u64,
        margin: Probability,
        held: Option<bool>,
    ) -> Option<bool> {
        let (measure, threshold) = match self {
            Self::Lost(lost) => return Some((counts.lost > 0) == lost),
            Self::Marked(marked) => return Some((counts.marked > 0) == marked),
            Self::Below(measure, threshold) | Self::Above(measure, threshold) => {
                (measure, threshold)
            }
        };
        let Some(value) = measure.value(measures, counts, least_packets) else {
            return held;
        };
        let part = u128::from(threshold) * u128::from(margin.ppb()) / 1_000_000_000;
        let part = u64::try_from(part).unwrap_or(u64::MAX);
        let is_below = matches!(self, Self::Below(..));
        // Up for what is above while it does not hold, and for what is below while it does.
        let threshold = match held {
            None => threshold,
            Some(held) if held == is_below => threshold.saturating_add(part),
            Some(_) => threshold.saturating_sub(part),
        };
        Some(if is_below {
            value < threshold
        } else {
            value > threshold
        })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(true) => f.write_str("packets were lost"),
            Self::Lost(false) => f.write_str("no packet was lost"),
            Self::Marked(true) => f.write_str("packets were marked"),
            Self::Marked(false) => f.write_str("no packet was marked"),
            Self::Below(measure, value) => write!(f, "{measure} below {}", measure.shown(*value)),
            Self::Above(measure, value) => write!(f, "{measure} above {}", measure.shown(*value)),
        }
    }
}
