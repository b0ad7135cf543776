//! Hybla: Caini and Firrincieli, 2004, and the comparison of Mystique's Figure 2.

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

/// §3: the rate does not depend on the RTT, from the reference's 25 ms on, where Reno's is its
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

/// Mystique, ANRW 2018, Figure 2: without losses Hybla is the fastest; with 1 % BBR is, and Hybla's
/// rate does not fall with the RTT as others' do; over long paths with few losses Hybla is before
/// all: there from 200 ms on, here from 300.
#[test]
fn the_ordering_of_mystiques_figure_2() {
    const OTHERS: [&str; 4] = ["bbr", "illinois", "cubic", "reno"];
    let at = |algorithm: &str, rtt_ms, per_mille| {
        let runs = each_seed(1..=4, |seed| {
            rate(algorithm, 20, rtt_ms, per_mille, 10.0, seed)
        });
        mean(&runs)
    };
    // The table of docs/algorithms/hybla.md.
    for (per_mille, rtt_ms) in [
        (0, 50),
        (0, 200),
        (0, 300),
        (1, 200),
        (1, 300),
        (10, 50),
        (10, 200),
    ] {
        let row = ["hybla", "bbr", "illinois", "cubic", "reno"].map(|a| at(a, rtt_ms, per_mille));
        println!(
            "{:.1} %, {rtt_ms} ms: {row:.1?}",
            f64::from(per_mille) / 10.0
        );
    }
    for rtt_ms in [50, 100, 200, 300] {
        let hybla = at("hybla", rtt_ms, 0);
        for other in OTHERS {
            let rate = at(other, rtt_ms, 0);
            assert!(hybla > rate, "{other} {rate}, hybla {hybla} at {rtt_ms} ms");
        }
    }
    let hybla = at("hybla", 300, 1);
    for other in OTHERS {
        let rate = at(other, 300, 1);
        assert!(
            hybla > rate,
            "{other} {rate}, hybla {hybla} at 300 ms and 0.1 %"
        );
    }
    for rtt_ms in [50, 200] {
        let bbr = at("bbr", rtt_ms, 10);
        for other in ["hybla", "illinois", "cubic", "reno"] {
            let rate = at(other, rtt_ms, 10);
            assert!(
                bbr > rate,
                "{other} {rate}, bbr {bbr} at {rtt_ms} ms and 1 %"
            );
        }
    }
    assert!(at("hybla", 200, 10) > 0.95 * at("hybla", 50, 10));
    assert!(at("bbr", 200, 10) < at("bbr", 50, 10));
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
