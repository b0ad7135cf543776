//! S and R of a bundle: its sendbox measures both between boundary packets, over one round trip
//! (Bundler §4.5). Differences of single reports would say less: what was received comes in whole
//! epochs, whose lengths are random.

use std::collections::VecDeque;

use super::history::Rates;

/// Window of the reports kept, µs: the longest window of rates.
const SPAN_US: u64 = 1_000_000;

/// What one report told.
#[derive(Debug, Clone, Copy)]
struct Point {
    time_us: u64,
    /// Over which both rates were measured.
    rtt_us: u64,
    /// Bytes/s.
    sent: f64,
    received: f64,
    /// Bytes since the report before.
    delivered: f64,
    lost: f64,
}

/// The rates that a bundle's reports told.
#[derive(Debug, Clone, Default)]
pub(super) struct BundleRates(VecDeque<Point>);

impl BundleRates {
    /// A report: S and R as signals tell them, bytes/s, and bytes delivered and lost since the last.
    pub(super) fn report(
        &mut self,
        (time_us, rtt_us): (u64, u64),
        (sent, received): (u64, u64),
        (delivered, lost): (u64, u64),
    ) {
        let is_old = |point: &Point| time_us.saturating_sub(point.time_us) > SPAN_US;
        while self.0.front().is_some_and(is_old) {
            self.0.pop_front();
        }
        self.0.push_back(Point {
            time_us,
            rtt_us,
            sent: sent as f64,
            received: received as f64,
            delivered: delivered as f64,
            lost: lost as f64,
        });
    }

    /// The rates of what came within the last `window_us`, or within a round trip where that is longer;
    /// `None` before any were measured.
    pub(super) fn rates(&self, window_us: u64) -> Option<Rates> {
        let last = self.0.back()?;
        // The oldest of them reaches back by another round trip.
        let since_us = window_us.saturating_sub(last.rtt_us);
        let within = |us: u64| {
            let points = self.0.iter().rev();
            points.take_while(move |point| last.time_us.saturating_sub(point.time_us) <= us)
        };
        let mean = |of: fn(&Point) -> f64| {
            let (count, sum) =
                within(since_us).fold((0.0, 0.0), |(n, sum), p| (n + 1.0, sum + of(p)));
            sum / count
        };
        let total =
            |of: fn(&Point) -> f64| -> f64 { within(window_us.max(last.rtt_us)).map(of).sum() };
        let (sent, received) = (mean(|p| p.sent), mean(|p| p.received));
        let (delivered, lost) = (total(|p| p.delivered), total(|p| p.lost));
        (sent > 0.0 && received > 0.0).then(|| Rates {
            sent,
            received,
            lost: if lost > 0.0 {
                lost / (delivered + lost)
            } else {
                0.0
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports each 10 ms at an RTT of 50 ms, R as told.
    fn told(received: impl Fn(u64) -> u64) -> BundleRates {
        let mut rates = BundleRates::default();
        for number in 0..50 {
            let at = (number * 10_000, 50_000);
            rates.report(at, (1_000, received(number)), (90, 10));
        }
        rates
    }

    #[test]
    fn nothing_is_known_before_it_was_measured() {
        assert_eq!(BundleRates::default().rates(100_000), None);
        assert_eq!(told(|_| 0).rates(100_000), None);
    }

    #[test]
    fn a_window_of_a_round_trip_has_the_latest_rates() {
        let rates = told(|number| 1_000 + number);
        for window_us in [20_000, 50_000] {
            let seen = rates.rates(window_us).unwrap();
            assert_eq!((seen.sent, seen.received), (1_000.0, 1_049.0));
            assert!((seen.lost - 0.1).abs() < 1e-9);
        }
    }

    /// Rates of a round trip each, at ends from 100 ms before to now.
    #[test]
    fn a_longer_window_has_their_mean() {
        let seen = told(|number| number * 100).rates(150_000).unwrap();
        assert!((seen.received - 4_400.0).abs() < 1e-9, "{seen:?}");
    }
}
