//! Flows that something else than cwnd limits, and flows that pause.

use crate::support::driver::Driver;
use crate::support::path::{Path, bulk, run};

const ALGORITHMS: [&str; 4] = [
    "reno",
    "cubic",
    "reno:slow_start=plane",
    "cubic:slow_start=plane",
];

/// RFC 7661 §4.2 and RFC 9438 §5.8: a window that is not used does not grow.
#[test]
fn an_application_limited_flow_keeps_its_window() {
    for spec in ALGORITHMS {
        let mut path = Path::new(40_000, 50_000, 10_000);
        path.application = |now_us| now_us / 1_000;
        let samples = run(path, &mut Driver::new(spec), 20.0);
        let flight = samples.iter().map(|s| s.in_flight).max().unwrap();
        let cwnd = samples.iter().map(|s| s.cwnd).max().unwrap();
        let late = samples
            .iter()
            .filter(|s| s.now_us > 5_000_000)
            .map(|s| s.in_flight)
            .max();
        assert!((45..=60).contains(&late.unwrap()), "{spec}: {late:?}");
        assert!(
            cwnd <= 2 * flight + 2,
            "{spec}: {cwnd} for {flight} in flight"
        );
    }
}

/// RFC 5681 §4.1: the datapath restarts an idle flow from the initial window, and the algorithm
/// goes on from there, by slow start to its ssthresh.
#[test]
fn an_idle_flow_goes_on_from_the_restart_window() {
    for spec in ALGORITHMS {
        let mut path = Path::new(40_000, 50_000, 10_000);
        path.lose = Box::new(|n, _| n == 400);
        path.application = |now_us| match now_us {
            2_000_000..5_000_000 => 0,
            _ => bulk(now_us),
        };
        let samples = run(path, &mut Driver::new(spec), 7.0);
        let before = samples.iter().rfind(|s| s.now_us < 2_000_000).unwrap().cwnd;
        let restart: Vec<_> = samples.iter().filter(|s| s.now_us > 5_000_000).collect();
        let first = restart[0];
        assert!(
            (10..=11).contains(&first.cwnd),
            "{spec}: restarted at {}",
            first.cwnd
        );
        let second = restart
            .iter()
            .find(|s| s.now_us > first.now_us + 120_000)
            .unwrap();
        assert!(
            second.cwnd > 30 && second.cwnd < before,
            "{spec}: {} of {before}",
            second.cwnd
        );
    }
}

/// RFC 9438 §5.8: the time that a flow pauses does not move it along the curve.
#[test]
fn a_pause_does_not_advance_the_curve() {
    let mut path = Path::new(40_000, 100_000, 10_000);
    path.idle_restart = false;
    path.lose = Box::new(|n, _| n == 400);
    path.application = |now_us| match now_us {
        2_000_000..22_000_000 => 0,
        _ => bulk(now_us),
    };
    let samples = run(
        path,
        &mut Driver::new("cubic:hystart=off,reno_friendly=false"),
        23.0,
    );
    let before = samples.iter().rfind(|s| s.now_us < 2_000_000).unwrap().cwnd;
    let after = samples.last().unwrap().cwnd;
    assert!(
        after < before + before / 4,
        "{before} before the pause, {after} a second after it"
    );
}
