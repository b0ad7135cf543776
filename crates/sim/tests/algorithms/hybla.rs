//! Hybla: Caini and Firrincieli, 2004.

use crate::support::figure::{Figure, Panel};
use crate::support::{Dumbbell, each_seed, observed, series};

/// Mbit/s of one flow over a path that loses so many packets in a thousand.
fn rate(algorithm: &str, mbit: u64, rtt_ms: u64, per_mille: u32, seconds: f64, seed: u64) -> f64 {
    let mut network = Dumbbell::new(mbit, rtt_ms, seconds).plane(algorithm);
    network.loss_per_mille = per_mille;
    let outcome = observed(&network.config(seed), &[algorithm]);
    outcome.flows[0].delivered_bytes as f64 * 8e-6 / seconds
}

fn mean(rates: &[f64]) -> f64 {
    rates.iter().sum::<f64>() / rates.len() as f64
}

/// The rate does not depend on the RTT, from the reference's 25 ms on, where Reno's is its
/// inverse.
#[test]
fn flows_at_25_100_and_400_ms_are_equally_fast() {
    let at = |algorithm: &str, rtt_ms| {
        mean(&each_seed(1..=4, |seed| {
            rate(algorithm, 50, rtt_ms, 5, 60.0, seed)
        }))
    };
    let (hybla, reno) = (at("hybla", 25), at("reno", 25));
    assert!((hybla / reno - 1.0).abs() < 0.1, "{hybla}, {reno}");
    for rtt_ms in [50, 100, 200, 400] {
        let rate = at("hybla", rtt_ms);
        assert!(
            (0.85..1.35).contains(&(rate / hybla)),
            "{rate} at {rtt_ms} ms, {hybla} at 25 ms"
        );
    }
    let slow = at("reno", 400);
    assert!(slow < reno / 10.0, "{slow}, {reno}");
}

#[test]
fn the_figure_of_three_round_trips() {
    let run = |algorithm: &str, rtt_ms: u64| {
        let mut network = Dumbbell::new(50, rtt_ms, 40.0).plane(algorithm);
        network.loss_per_mille = 2;
        observed(&network.config(3), &[algorithm])
    };
    let throughput = |algorithm: &str, rtt_ms| {
        let outcome = run(algorithm, rtt_ms);
        series::throughput(&outcome.flows[0], 1.0)
    };
    Figure::new("hybla", "One flow over 50 Mbit/s that loses 0.2 %")
        .panel(
            Panel::new("throughput of hybla", "Mbit/s")
                .line("25 ms", throughput("hybla", 25))
                .line("100 ms", throughput("hybla", 100))
                .line("400 ms", throughput("hybla", 400)),
        )
        .panel(
            Panel::new("throughput of reno", "Mbit/s")
                .line("25 ms", throughput("reno", 25))
                .line("100 ms", throughput("reno", 100))
                .line("400 ms", throughput("reno", 400)),
        )
        .check();
}
