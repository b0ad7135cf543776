//! Numbers of samples.

/// The mean; `None` of nothing.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value;
        count += 1.0;
    }
    (count > 0.0).then(|| sum / count)
}

/// The least value that this share, 0 to 1, of all does not exceed; `None` of nothing.
pub(crate) fn quantile(mut values: Vec<f64>, share: f64) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let rank = (values.len() as f64 * share).ceil().max(1.0);
    values.get(rank as usize - 1).copied()
}

/// Bytes by which a window rises before a fall counts as over: two segments.
const RISE: f64 = 2.0 * 1448.0;

/// What each fall by more than a fifth leaves of the window. `windows` are in bytes, in time.
pub(crate) fn falls_of(windows: &[f64]) -> Vec<f64> {
    let mut falls = Vec::new();
    let Some(first) = windows.first().copied() else {
        return falls;
    };
    let (mut peak, mut low) = (first, first);
    for value in windows.iter().copied() {
        if low < 0.8 * peak && value > low + RISE {
            falls.push(low / peak);
            (peak, low) = (value, value);
        }
        low = low.min(value);
        if low >= 0.8 * peak && value > peak {
            (peak, low) = (value, value);
        }
    }
    falls
}

/// Times, s, between the beginnings of one dip below half of the median and the next.
pub(crate) fn gaps_between_dips(samples: &[(f64, f64)]) -> Vec<f64> {
    let Some(median) = quantile(samples.iter().map(|(_, value)| *value).collect(), 0.5) else {
        return Vec::new();
    };
    let is_low = |value: f64| value < 0.5 * median;
    let mut starts = Vec::new();
    for pair in samples.windows(2) {
        if let [(_, before), (at, now)] = pair
            && is_low(*now)
            && !is_low(*before)
        {
            starts.push(*at);
        }
    }
    starts.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// Greatest distance of two empirical distributions (the Kolmogorov-Smirnov statistic), 0 to 1. Each
/// value counts as often as `weight` of its run says; both are sorted by value.
pub(crate) fn ks(a: &[(f64, usize)], b: &[(f64, usize)], weights: &[f64]) -> Option<f64> {
    let total = |all: &[(f64, usize)]| all.iter().map(|(_, run)| weights[*run]).sum::<f64>();
    let (total_a, total_b) = (total(a), total(b));
    if total_a <= 0.0 || total_b <= 0.0 {
        return None;
    }
    let (mut i, mut j) = (0, 0);
    let (mut below_a, mut below_b, mut greatest) = (0.0, 0.0, 0.0_f64);
    while i < a.len() || j < b.len() {
        let next = match (a.get(i), b.get(j)) {
            (Some((x, _)), Some((y, _))) => x.min(*y),
            (Some((x, _)), None) | (None, Some((x, _))) => *x,
            (None, None) => break,
        };
        while let Some((x, run)) = a.get(i)
            && *x <= next
        {
            below_a += weights[*run];
            i += 1;
        }
        while let Some((y, run)) = b.get(j)
            && *y <= next
        {
            below_b += weights[*run];
            j += 1;
        }
        greatest = greatest.max((below_a / total_a - below_b / total_b).abs());
    }
    Some(greatest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_is_halved_twice_is_one_fall() {
        let segments = |values: &[f64]| values.iter().map(|v| v * 1448.0).collect::<Vec<_>>();
        let saw = segments(&[
            40.0, 50.0, 60.0, 45.0, 30.0, 20.0, 15.0, 16.0, 18.0, 60.0, 30.0, 33.0,
        ]);
        let falls = falls_of(&saw);
        assert_eq!(falls.len(), 2);
        assert_eq!(falls, [0.25, 0.5]);
        assert!(falls_of(&segments(&[10.0, 9.0, 10.0])).is_empty());
    }

    #[test]
    fn dips_are_counted_from_their_beginnings() {
        let samples: Vec<_> = (0..40)
            .map(|n| (f64::from(n), if n % 10 < 2 { 1.0 } else { 10.0 }))
            .collect();
        assert_eq!(gaps_between_dips(&samples), [10.0, 10.0]);
        assert!(gaps_between_dips(&[]).is_empty());
    }

    #[test]
    fn the_distance_of_distributions_is_of_their_steps() {
        let of = |values: &[f64]| values.iter().map(|v| (*v, 0)).collect::<Vec<_>>();
        let ks = |a: &[f64], b: &[f64]| ks(&of(a), &of(b), &[1.0]);
        assert_eq!(ks(&[1.0, 2.0], &[1.0, 2.0]), Some(0.0));
        assert_eq!(ks(&[1.0, 2.0], &[3.0, 4.0]), Some(1.0));
        assert_eq!(ks(&[1.0, 2.0, 3.0, 4.0], &[2.0, 3.0, 4.0, 5.0]), Some(0.25));
        assert_eq!(ks(&[], &[1.0]), None);
    }
}
