//! The windowed estimates against all samples, kept.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::windowed::{WindowedMax, WindowedMin};

/// Samples as (time since the one before, value).
fn samples() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let gap = prop_oneof![4 => 0..20_u64, 1 => 0..300_u64];
    let value = prop_oneof![4 => 0..50_u64, 1 => any::<u64>()];
    vec((gap, value), 1..200)
}

/// The samples of the window that ends at the `index`th.
fn in_window(all: &[(u64, u64)], index: usize, window: u64) -> Vec<u64> {
    let now = all[index].0;
    let recent = all[..=index].iter().filter(|(at, _)| now - at <= window);
    recent.map(|(_, value)| *value).collect()
}

fn at_times(gaps: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let times = gaps.iter().scan(0, |now, (gap, value)| {
        *now += gap;
        Some((*now, *value))
    });
    times.collect()
}

proptest! {
    #[test]
    fn the_estimate_is_of_the_window_and_at_least_as_good_as_the_newest(
        gaps in samples(),
        window in 1..200_u64,
    ) {
        let all = at_times(&gaps);
        let (mut max, mut min) = (WindowedMax::default(), WindowedMin::default());
        for (index, (at, value)) in all.iter().enumerate() {
            let (most, least) = (max.update(*at, *value, window), min.update(*at, *value, window));
            let recent = in_window(&all, index, window);
            prop_assert!(recent.contains(&most) && most >= *value);
            prop_assert!(recent.contains(&least) && least <= *value);
            prop_assert_eq!(max.get(), Some(most));
        }
    }

    /// As long as the window holds every sample, nothing is estimated.
    #[test]
    fn within_one_window_it_is_exact(gaps in samples()) {
        let all = at_times(&gaps);
        let (mut max, mut min) = (WindowedMax::default(), WindowedMin::default());
        for (index, (at, value)) in all.iter().enumerate() {
            let recent = in_window(&all, index, u64::MAX);
            prop_assert_eq!(Some(&max.update(*at, *value, u64::MAX)), recent.iter().max());
            prop_assert_eq!(Some(&min.update(*at, *value, u64::MAX)), recent.iter().min());
        }
    }

    /// A series that only gets worse is where the true best moves at each step: with a sample in
    /// each step of the window, the estimate lags by half a window at most.
    #[test]
    fn on_a_falling_series_it_lags_by_half_a_window_at_most(
        window in 8..100_u64,
        length in 1..500_u64,
    ) {
        let mut max = WindowedMax::default();
        for now in 0..length {
            let value = 1_000 - now;
            let exact = 1_000 - now.saturating_sub(window);
            let estimate = max.update(now, value, window);
            prop_assert!(estimate <= exact && exact - estimate <= window / 2 + 1);
        }
    }
}
