//! What was sampled, as series over time.

use fairwater_sim::{EdgeOutcome, FlowOutcome, Sample};

/// Values at times: (seconds, value), the times rising.
pub(crate) type Series = Vec<(f64, f64)>;

fn of_flow(flow: &FlowOutcome, value: impl Fn(&Sample) -> f64) -> Series {
    let at = |sample: &Sample| (sample.at.as_secs_f64(), value(sample));
    flow.samples.iter().map(at).collect()
}

/// cwnd, in segments of so many bytes.
pub(crate) fn cwnd(flow: &FlowOutcome, mss: u32) -> Series {
    of_flow(flow, |s| s.cwnd as f64 / f64::from(mss))
}

/// The pacing rate, Mbit/s; 0 is none.
pub(crate) fn rate(flow: &FlowOutcome) -> Series {
    of_flow(flow, |s| s.rate as f64 * 8e-6)
}

/// The smoothed RTT, ms.
pub(crate) fn srtt(flow: &FlowOutcome) -> Series {
    of_flow(flow, |s| s.srtt_us as f64 / 1e3)
}

/// What the receiver got in order, Mbit/s, over each `window_s` seconds.
pub(crate) fn throughput(flow: &FlowOutcome, window_s: f64) -> Series {
    let mut series = Series::new();
    let (mut from, mut bytes) = (0.0, 0);
    for sample in &flow.samples {
        bytes += sample.delivered_bytes;
        let at = sample.at.as_secs_f64();
        if at - from > window_s * 0.999 {
            series.push((at, bytes as f64 * 8e-6 / (at - from)));
            (from, bytes) = (at, 0);
        }
    }
    series
}

/// The time that packets waited in an edge's queue, ms: the mean of each interval's, where any
/// packet left.
pub(crate) fn queueing(edge: &EdgeOutcome) -> Series {
    let waited = edge.samples.iter();
    let waited = waited.filter_map(|s| Some((s.at.as_secs_f64(), s.queueing_us? / 1e3)));
    waited.collect()
}

/// The part from one second to another.
pub(crate) fn between(series: &[(f64, f64)], from_s: f64, to_s: f64) -> Series {
    let inside = |at: f64| (from_s..to_s).contains(&at);
    series.iter().copied().filter(|p| inside(p.0)).collect()
}

/// The mean of the values; 0 of none.
pub(crate) fn mean(series: &[(f64, f64)]) -> f64 {
    series.iter().map(|p| p.1).sum::<f64>() / series.len().max(1) as f64
}

/// The least and the greatest of the values.
pub(crate) fn extremes(series: &[(f64, f64)]) -> (f64, f64) {
    let none = (f64::INFINITY, f64::NEG_INFINITY);
    let values = series.iter().map(|p| p.1);
    values.fold(none, |(least, most), v| (least.min(v), most.max(v)))
}

/// A fall of a value: of a window, after a loss.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fall {
    /// The second at which it was over.
    pub(crate) at_s: f64,
    /// The greatest value since the fall before.
    pub(crate) from: f64,
    /// What it fell to, before it rose again.
    pub(crate) to: f64,
}

/// Each fall to less than so much of what the value had reached.
pub(crate) fn falls(series: &[(f64, f64)], share: f64) -> Vec<Fall> {
    let mut falls: Vec<Fall> = Vec::new();
    let (mut peak, mut falling) = (0.0_f64, false);
    let mut before = f64::INFINITY;
    for &(at_s, value) in series {
        if falling && value > before {
            (peak, falling) = (value, false);
        }
        if value < peak * share {
            if !falling {
                let fall = Fall {
                    at_s,
                    from: peak,
                    to: value,
                };
                falls.push(fall);
            }
            falling = true;
        }
        if let Some(fall) = falls.last_mut().filter(|f| falling && value < f.to) {
            (fall.at_s, fall.to) = (at_s, value);
        }
        peak = peak.max(value);
        before = value;
    }
    falls
}
