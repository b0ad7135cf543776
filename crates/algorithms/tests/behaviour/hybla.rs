//! Hybla, held to Caini and Firrincieli, 2004.

use crate::support::driver::Driver;
use crate::support::path::{Path, Sample, run};

/// A path whose queue never fills.
fn wide(rtt_us: u64) -> Path {
    Path::new(40_000, rtt_us, 100_000)
}

fn at(samples: &[Sample], us: u64) -> f64 {
    samples.iter().find(|s| s.now_us >= us).unwrap().cwnd as f64
}

/// In congestion avoidance cwnd grows by ρ² segments a round trip, so the rate by as much
/// each second whatever the RTT.
#[test]
fn the_rate_rises_alike_at_each_rtt() {
    for rtt_us in [25_000, 60_000, 100_000, 200_000, 400_000] {
        let mut path = wide(rtt_us);
        path.lose = Box::new(|n, _| n == 30);
        let samples = run(path, &mut Driver::new("hybla"), 9.0);
        let grown = (at(&samples, 8_500_000) - at(&samples, 4_500_000)) / rtt_us as f64 * 1e6;
        // One segment each 25 ms, over 25 ms: 40 × 40 a second, each second.
        let expected = 4.0 * 1_600.0;
        assert!(
            (grown / expected - 1.0).abs() < 0.06,
            "{rtt_us} µs: {grown} segments/s more in four seconds, not {expected}"
        );
    }
}

/// In slow start by 2^ρ - 1 for each segment, so that all double in 25 ms; here up to ρ = 3.
#[test]
fn slow_start_takes_as_long_at_each_rtt() {
    for (rtt_us, factor) in [(25_000, 2.0), (50_000, 4.0), (75_000, 8.0), (100_000, 8.0)] {
        let samples = run(wide(rtt_us), &mut Driver::new("hybla"), 0.34);
        // The first report tells the RTT; its answer comes some ACKs into the next round trip.
        let before = |rounds: u64| {
            let end_us = rounds * rtt_us;
            samples.iter().rfind(|s| s.now_us < end_us).unwrap().cwnd as f64
        };
        let grown = before(3) / before(2);
        assert!(
            (grown / factor - 1.0).abs() < 0.15,
            "{rtt_us} µs: {grown} times in a round trip, not {factor}"
        );
    }
}

/// A path shorter than the reference is Reno's.
#[test]
fn short_paths_are_renos() {
    let lossy = |spec: &str| {
        let mut path = wide(10_000);
        path.lose = Box::new(|n, _| n % 1_500 == 700);
        let samples = run(path, &mut Driver::new(spec), 5.0);
        samples.iter().map(|s| s.cwnd).collect::<Vec<_>>()
    };
    let (hybla, reno) = (lossy("hybla"), lossy("reno"));
    let mean = |w: &[u64]| w.iter().sum::<u64>() as f64 / w.len() as f64;
    assert!((mean(&hybla) / mean(&reno) - 1.0).abs() < 0.03);
}
