//! Saw-teeth of a window.

/// What a window falls by, at least, at the end of a tooth, as a part of its peak.
const FALL: f64 = 0.2;

/// What a window rises by, at least, for its fall to be over: what is lower still in recovery is no other tooth.
const RISE: f64 = 0.05;

/// How often the window fell from a peak.
pub(super) fn count(windows: impl IntoIterator<Item = f64>) -> usize {
    let mut count = 0;
    let mut is_falling = false;
    // The peak while it rises, the trough while it falls.
    let mut extreme = 0.0_f64;
    for window in windows {
        if is_falling {
            extreme = extreme.min(window);
            if window > extreme * (1.0 + RISE) {
                is_falling = false;
                extreme = window;
            }
        } else {
            extreme = extreme.max(window);
            if window < extreme * (1.0 - FALL) {
                count += 1;
                is_falling = true;
                extreme = window;
            }
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn falls_in_several_steps_are_one_tooth() {
        let tooth = |_| (56..80).map(f64::from).chain([60.0, 50.0, 40.0, 56.0]);
        assert_eq!(count((0..4).flat_map(tooth)), 4);
    }

    #[test]
    fn small_falls_and_a_flat_window_are_none() {
        assert_eq!(count((0..100).map(|step| 20.0 + f64::from(step % 3))), 0);
        assert_eq!(count([]), 0);
    }
}
