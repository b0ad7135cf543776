//! What a flow did over the model path, summed up.

use super::path::Sample;

/// Those of later than this many seconds.
pub(crate) fn after(samples: &[Sample], s: f64) -> Vec<Sample> {
    let from = (s * 1e6) as u64;
    samples
        .iter()
        .filter(|x| x.now_us > from)
        .copied()
        .collect()
}

pub(crate) fn mean(samples: &[Sample], value: impl Fn(&Sample) -> f64) -> f64 {
    samples.iter().map(value).sum::<f64>() / samples.len() as f64
}

/// Delivered packets a second.
pub(crate) fn throughput(samples: &[Sample]) -> f64 {
    let (first, last) = (samples[0], samples[samples.len() - 1]);
    (last.delivered - first.delivered) as f64 * 1e6 / (last.now_us - first.now_us) as f64
}
