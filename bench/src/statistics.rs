//! The median of several rounds, and how far they lie apart.

/// Rounds of one figure.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rounds(Vec<f64>);

impl Rounds {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
        self.0.sort_by(f64::total_cmp);
    }

    /// The middle value; the mean of the two middle ones of an even number; NaN without rounds.
    pub(crate) fn median(&self) -> f64 {
        let n = self.0.len();
        match n {
            0 => f64::NAN,
            _ if n % 2 == 1 => self.0[n / 2],
            _ => f64::midpoint(self.0[n / 2 - 1], self.0[n / 2]),
        }
    }

    pub(crate) fn least(&self) -> f64 {
        self.0.first().copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn most(&self) -> f64 {
        self.0.last().copied().unwrap_or(f64::NAN)
    }
}

impl std::fmt::Display for Rounds {
    /// `median (least – most)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = f.precision().unwrap_or(2);
        write!(
            f,
            "{:.digits$} ({:.digits$} – {:.digits$})",
            self.median(),
            self.least(),
            self.most()
        )
    }
}

/// The median, the 95th and the 99th percentile; `None` of nothing.
pub(crate) fn percentiles<T: Ord + Copy>(mut values: Vec<T>) -> Option<[T; 3]> {
    values.sort_unstable();
    let at = |percent: usize| values.get(values.len() * percent / 100).copied();
    Some([at(50)?, at(95)?, at(99)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let mut rounds = Rounds::default();
        assert!(rounds.median().is_nan());
        for value in [5.0, 1.0, 9.0] {
            rounds.push(value);
        }
        assert_eq!(rounds.median(), 5.0);
        rounds.push(6.0);
        assert_eq!(rounds.median(), 5.5);
        assert_eq!(format!("{rounds:.1}"), "5.5 (1.0 – 9.0)");
    }
}
