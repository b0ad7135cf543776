//! NewReno, held to RFC 5681 and RFC 6582.

use proptest::prelude::*;

use crate::support::driver::Driver;
use crate::support::path::{Path, Sample, run};

/// A path whose queue never fills: the RTT stays 50 ms, whatever cwnd is.
fn wide() -> Path {
    Path::new(40_000, 50_000, 100_000)
}

/// cwnd just before and just after each reduction that a loss began.
fn reductions(samples: &[Sample]) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    for (at, pair) in samples.windows(2).enumerate() {
        if pair[1].lost_now > 0 && pair[1].cwnd < pair[0].cwnd {
            let settled = samples[at + 1..]
                .iter()
                .find(|s| s.now_us > pair[1].now_us + 120_000);
            let last = found
                .last()
                .is_none_or(|(t, _, _)| pair[1].now_us > t + 120_000);
            if let (Some(settled), true) = (settled, last) {
                found.push((pair[1].now_us, pair[0].cwnd, settled.cwnd));
            }
        }
    }
    found
        .into_iter()
        .map(|(_, before, after)| (before, after))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// RFC 5681 §3.1 eq. 4 and RFC 6582 §3.2: one window of data costs one halving, however
    /// many of its packets are lost.
    #[test]
    fn a_window_with_losses_halves_cwnd_once(first in 50_u64..600, losses in prop::collection::btree_set(0_u64..40, 1..12)) {
        let mut path = wide();
        path.lose = Box::new(move |n, _| n >= first && losses.contains(&(n - first)));
        let samples = run(path, &mut Driver::new("reno"), 1.0);
        let found = reductions(&samples);
        prop_assert_eq!(found.len(), 1, "{:?}", found);
        let (before, after) = found[0];
        // Two more round trips of congestion avoidance may have passed.
        prop_assert!((before / 2..=before / 2 + 3).contains(&after), "{} to {}", before, after);
    }
}

/// RFC 6582 §3.2: the window that was out when recovery began includes what the very ACK that
/// showed the loss SACKed, so a loss up to its end costs nothing more.
#[test]
fn a_loss_at_the_end_of_the_window_is_of_that_window() {
    for gather_us in [0, 300, 1_000, 3_000] {
        for end in 1..8 {
            let mut path = wide();
            path.gather_us = gather_us;
            let quiet = run(
                Path {
                    lose: Box::new(|n, _| n == 300),
                    ..path
                },
                &mut Driver::new("reno"),
                1.0,
            );
            let detected = quiet.iter().position(|s| s.lost_now > 0).unwrap();
            let sent = quiet[detected].delivered + quiet[detected].in_flight + 1;
            let mut path = wide();
            path.gather_us = gather_us;
            path.lose = Box::new(move |n, _| n == 300 || n == sent - end);
            let samples = run(path, &mut Driver::new("reno"), 1.0);
            let before = samples
                .iter()
                .take_while(|s| s.lost_now == 0)
                .last()
                .unwrap()
                .cwnd;
            let after = samples.last().unwrap().cwnd;
            assert!(
                after >= before / 2,
                "{gather_us} µs, {end} from the end: {before} to {after}"
            );
        }
    }
}

/// RFC 5681 §3.1: in congestion avoidance cwnd grows by one segment a round trip.
#[test]
fn congestion_avoidance_is_one_segment_a_round_trip() {
    for report in ["ack", "rtt", "10ms", "200ms"] {
        let mut path = wide();
        path.lose = Box::new(|n, _| n == 300);
        let samples = run(
            path,
            &mut Driver::new(&format!("reno:report={report}")),
            6.0,
        );
        let at = |us: u64| samples.iter().find(|s| s.now_us >= us).unwrap().cwnd as f64;
        let grown = at(5_500_000) - at(1_500_000);
        assert!(
            (grown - 80.0).abs() <= 3.0,
            "{report}: {grown} segments in 80 round trips"
        );
    }
}

/// The sawtooth's mean window under one loss in each 1/p packets is √(3/2p) (Mathis et al. 1997).
#[test]
fn the_mean_window_follows_the_loss_rate() {
    for every in [400_u64, 2_000, 6_000] {
        let mut path = wide();
        path.lose = Box::new(move |n, _| n % every == every - 1);
        let samples = run(path, &mut Driver::new("reno"), 60.0);
        let late: Vec<_> = samples.iter().filter(|s| s.now_us > 10_000_000).collect();
        let delivered = late.last().unwrap().delivered - late[0].delivered;
        let mean = delivered as f64 * 0.050 / 50.0;
        let expected = (1.5 * every as f64).sqrt();
        assert!(
            (mean / expected - 1.0).abs() < 0.08,
            "1/{every}: {mean}, not {expected}"
        );
    }
}

/// RFC 6937: the window shrinks with what is delivered, and nothing is sent in a burst.
#[test]
fn the_reduction_is_spread_over_the_round_trip() {
    let mut path = wide();
    path.lose = Box::new(|n, _| n == 500);
    let samples = run(path, &mut Driver::new("reno"), 0.6);
    let at = samples.iter().position(|s| s.lost_now > 0).unwrap();
    let before = samples[at - 1].cwnd;
    let recovery: Vec<_> = samples[at..]
        .iter()
        .take_while(|s| s.now_us <= samples[at].now_us + 40_000)
        .collect();
    for pair in recovery.windows(2) {
        assert!(pair[1].cwnd <= pair[0].cwnd && pair[0].cwnd - pair[1].cwnd <= 1);
        assert!(pair[1].cwnd >= before / 2);
    }
    let lowest = samples[at..].iter().map(|s| s.cwnd).min().unwrap();
    assert_eq!(lowest, before / 2);
}

/// RFC 5681 §3.1: a timeout leads to one segment and slow start up to half of the old window;
/// from there congestion avoidance.
#[test]
fn a_timeout_restarts_from_one_segment() {
    let mut path = wide();
    path.lose = Box::new(|n, now| n == 300 || (1_000_000..1_900_000).contains(&now));
    let samples = run(path, &mut Driver::new("reno"), 6.0);
    let at = samples.iter().position(|s| s.timeout).unwrap();
    let before = samples[at - 1].cwnd;
    assert_eq!(samples[at].cwnd, 1);
    let restarted = samples
        .iter()
        .find(|s| s.now_us > 1_900_000 && s.cwnd > 1)
        .unwrap()
        .now_us;
    let at = |us: u64| samples.iter().find(|s| s.now_us >= us).unwrap().cwnd;
    // From 1 to W/2 by doubling takes log2(W/2) round trips, then one segment each.
    let doublings = ((before / 2) as f64).log2().ceil() as u64;
    let reached = restarted + (doublings + 1) * 50_000;
    assert!(
        at(reached).abs_diff(before / 2) <= 3,
        "{} of {before}",
        at(reached)
    );
    let later = at(reached + 1_000_000);
    assert!(
        (before / 2 + 17..=before / 2 + 24).contains(&later),
        "{later} of {before}"
    );
}

/// RFC 5681 §3.1: a second timeout of the same window does not reduce ssthresh again.
#[test]
fn backed_off_timeouts_reduce_ssthresh_once() {
    let mut path = wide();
    path.lose = Box::new(|n, now| n == 300 || (1_000_000..4_000_000).contains(&now));
    let samples = run(path, &mut Driver::new("reno"), 8.0);
    assert!(samples.iter().filter(|s| s.timeout).count() >= 2);
    let before = samples
        .iter()
        .take_while(|s| !s.timeout)
        .last()
        .unwrap()
        .cwnd;
    let after = samples.iter().find(|s| s.now_us > 6_400_000).unwrap().cwnd;
    assert!(after >= before / 2, "{after} after {before}");
}

/// RFC 5681 §3.1 eq. 4: ssthresh is never below two segments.
#[test]
fn the_window_survives_heavy_loss() {
    let mut path = Path::new(1_000, 20_000, 20);
    path.lose = Box::new(|n, _| n % 3 == 0);
    let samples = run(path, &mut Driver::new("reno"), 20.0);
    assert!(samples.iter().all(|s| s.cwnd >= 1));
    assert!(samples.last().unwrap().delivered > 100);
}
