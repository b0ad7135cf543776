//! The greatest or least sample of late, in constant space.
//!
//! Kathleen Nichols' estimate, as in Linux's `lib/win_minmax.c`: the best sample of the window, the
//! best that came after it, and the best after that one. When the first grows too old the second
//! takes its place. The result is always a sample of the window and never worse than the newest;
//! it may miss the true best only after an older best has expired.
//!
//! Keys are whatever the window is counted in (µs, round trips) and never decrease.

/// The greatest sample of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WindowedMax(Estimate);

/// The least sample of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WindowedMin(Estimate);

impl WindowedMax {
    /// Takes a sample, and yields the greatest that is at most `window` old, in the key's unit.
    /// The window may change from call to call.
    pub(crate) fn update(&mut self, key: u64, value: u64, window: u64) -> u64 {
        self.0.update(key, value, window, |new, old| new >= old)
    }

    /// The greatest sample as of the last update; `None` before the first.
    pub(crate) fn get(&self) -> Option<u64> {
        self.0.best().map(|sample| sample.value)
    }
}

impl WindowedMin {
    /// Takes a sample, and yields the least that is at most `window` old, in the key's unit. The
    /// window may change from call to call.
    pub(crate) fn update(&mut self, key: u64, value: u64, window: u64) -> u64 {
        self.0.update(key, value, window, |new, old| new <= old)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sample {
    key: u64,
    value: u64,
}

impl Sample {
    fn age(self, now: u64) -> u64 {
        now.saturating_sub(self.key)
    }
}

/// The best sample, the best since it, and the best since that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Estimate(Option<[Sample; 3]>);

impl Estimate {
    fn best(&self) -> Option<Sample> {
        self.0.map(|[first, ..]| first)
    }

    fn update(
        &mut self,
        key: u64,
        value: u64,
        window: u64,
        as_good: impl Fn(u64, u64) -> bool,
    ) -> u64 {
        let new = Sample { key, value };
        let [mut first, mut second, mut third] = self.0.unwrap_or([new; 3]);
        if as_good(value, first.value) || third.age(key) > window {
            (first, second, third) = (new, new, new);
        } else if as_good(value, second.value) {
            (second, third) = (new, new);
        } else if as_good(value, third.value) {
            third = new;
        }
        if first.age(key) > window {
            (first, second, third) = (second, third, new);
            if first.age(key) > window {
                (first, second, third) = (second, third, new);
            }
        } else if second.key == first.key && first.age(key) > window / 4 {
            // A quarter of the window without a second choice: take one of this quarter.
            (second, third) = (new, new);
        } else if third.key == second.key && first.age(key) > window / 2 {
            third = new;
        }
        self.0 = Some([first, second, third]);
        first.value
    }
}
