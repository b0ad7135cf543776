//! Vegas, held to Brakmo and Peterson, IEEE JSAC 13(8), 1995.

use proptest::prelude::*;

use crate::support::driver::Driver;
use crate::support::path::{Path, Sample, run};

/// The least queue of each round trip from then on, in packets.
fn queues(samples: &[Sample], rate: u64, from_us: u64) -> Vec<f64> {
    let least = samples.iter().map(|s| s.rtt_us).min().unwrap();
    let late: Vec<_> = samples.iter().filter(|s| s.now_us > from_us).collect();
    let round = late.chunk_by(|a, b| a.now_us / least == b.now_us / least);
    let shortest = round.map(|acks| acks.iter().map(|s| s.rtt_us).min().unwrap());
    shortest
        .map(|rtt_us| (rtt_us - least) as f64 * rate as f64 / 1e6)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    /// Whatever the path, between α and β segments wait, and none is lost.
    #[test]
    fn between_alpha_and_beta_segments_wait(
        rate in 200_u64..8_000,
        rtt_ms in 2_u64..100,
        alpha in 1_u32..6,
        more in 1_u32..6,
        report in prop::sample::select(vec!["ack", "rtt", "10ms", "1s"]),
    ) {
        let bdp = rate * rtt_ms / 1_000;
        prop_assume!((4..100).contains(&bdp));
        let beta = alpha + more;
        let mut vegas = Driver::new(&format!("vegas:alpha={alpha},beta={beta},report={report}"));
        let path = Path::new(rate, rtt_ms * 1_000, 10_000);
        // One segment a round trip: as many round trips as slow start may have left to go.
        let settled_us = (bdp + 40) * rtt_ms * 1_500;
        let seconds = (settled_us as f64 / 1e6 + 2.0).min(25.0);
        let samples = run(path, &mut vegas, seconds);
        let waiting = queues(&samples, rate, (seconds * 1e6) as u64 - 1_000_000);
        let mean = waiting.iter().sum::<f64>() / waiting.len() as f64;
        prop_assert!(samples.iter().all(|s| s.lost_now == 0));
        prop_assert!(
            (f64::from(alpha) - 1.0..=f64::from(beta) + 1.0).contains(&mean),
            "{mean} packets wait at {rate}/s and {rtt_ms} ms, alpha {alpha}, beta {beta}"
        );
    }
}

/// Slow start doubles every other round trip, and ends when the queue begins to grow.
#[test]
fn slow_start_doubles_every_other_round_trip() {
    let samples = run(
        Path::new(40_000, 50_000, 100_000),
        &mut Driver::new("vegas"),
        0.7,
    );
    let at = |us: u64| samples.iter().rfind(|s| s.now_us < us).unwrap().cwnd;
    let windows: Vec<_> = (1..=12).map(|n| at(n * 50_000 + 45_000) as f64).collect();
    for pair in windows.windows(3) {
        let grown = pair[2] / pair[0];
        assert!((1.8..2.2).contains(&grown), "{windows:?}");
    }
}

/// To a loss, and to a timeout, Vegas is Reno.
#[test]
fn a_loss_halves_and_a_timeout_starts_again() {
    let mut path = Path::new(40_000, 50_000, 100_000);
    path.lose = Box::new(|n, now| n == 400 || (3_000_000..3_900_000).contains(&now));
    let samples = run(path, &mut Driver::new("vegas"), 8.0);
    let at = samples.iter().position(|s| s.lost_now > 0).unwrap();
    let before = samples[at - 1].cwnd;
    let settled = samples[at..].iter();
    let settled = settled
        .clone()
        .find(|s| s.now_us > samples[at].now_us + 60_000)
        .unwrap();
    assert!(settled.cwnd.abs_diff(before / 2) <= 1, "{}", settled.cwnd);
    let timeout = samples.iter().find(|s| s.timeout).unwrap();
    assert_eq!(timeout.cwnd, 1);
    assert!(samples.last().unwrap().cwnd > 20);
}

/// Delayed and compressed ACKs make RTT samples of a round trip differ by far more than the queue
/// that is looked for.
#[test]
fn aggregated_acks_do_not_pass_for_a_queue() {
    for gather_us in [500, 2_000, 5_000] {
        let mut path = Path::new(8_000, 20_000, 10_000);
        path.gather_us = gather_us;
        let samples = run(path, &mut Driver::new("vegas"), 10.0);
        let late: Vec<_> = samples.iter().filter(|s| s.now_us > 5_000_000).collect();
        let delivered = late.last().unwrap().delivered - late[0].delivered;
        assert!(
            delivered as f64 > 0.9 * 5.0 * 8_000.0,
            "{delivered} with ACKs each {gather_us} µs"
        );
    }
}

/// Lost answers of the plane change nothing: there are none.
#[test]
fn the_plane_is_not_needed() {
    let mut deaf = Driver::new("vegas");
    // What it says first is kept.
    let path = || Path::new(8_000, 20_000, 10_000);
    deaf.deafen();
    let windows = |driver: &mut Driver| -> Vec<u64> {
        run(path(), driver, 5.0).iter().map(|s| s.cwnd).collect()
    };
    assert_eq!(windows(&mut deaf), windows(&mut Driver::new("vegas")));
}
