//! LEDBAT++: draft-irtf-iccrg-ledbat-plus-plus, RFC 6817.

use fairwater_net::{Limit, Time};
use fairwater_sim::{Experiment, FlowOutcome, Native};

use crate::support::figure::{Figure, Panel};
use crate::support::{BOTTLENECK, Dumbbell, each_seed, observed, series};

const MSS: u32 = 1448;
/// Of queueing delay, ms.
const TARGET: f64 = 60.0;
/// Mbit/s and RTT without queues, ms.
const PATHS: [(u64, u64); 5] = [(12, 10), (12, 40), (24, 20), (20, 100), (2, 40)];

/// With room for so many ms.
fn buffered(mbit: u64, rtt_ms: u64, buffer_ms: u64, seconds: f64) -> Dumbbell {
    let mut network = Dumbbell::new(mbit, rtt_ms, seconds);
    network.limit = Limit::Bytes(mbit * 125 * buffer_ms);
    network
}

fn share(flows: &[FlowOutcome], of: usize) -> f64 {
    let all: u64 = flows.iter().map(|f| f.delivered_bytes).sum();
    flows[of].delivered_bytes as f64 / all as f64
}

#[test]
fn alone_it_fills_the_link_and_keeps_the_queue_at_the_target() {
    for (mbit, rtt_ms) in PATHS {
        let network = buffered(mbit, rtt_ms, 300, 60.0).plane("ledbatpp");
        let outcome = observed(&network.warm_config(1, 0.2), &["ledbatpp"]);
        let edge = &outcome.edges[BOTTLENECK];
        assert!(
            edge.utilisation > 0.92,
            "{mbit} Mbit/s, {rtt_ms} ms: {edge:?}"
        );
        let median = edge.queueing_us.unwrap().p50 / 1e3;
        assert!(
            (0.9 * TARGET..1.05 * TARGET).contains(&median),
            "{mbit} Mbit/s, {rtt_ms} ms: {median} ms"
        );
        assert_eq!(edge.dropped, 0, "{mbit} Mbit/s, {rtt_ms} ms");
    }
}

/// The share beside CUBIC, whoever comes first, in a buffer of so many ms.
fn beside_cubic(mbit: u64, rtt_ms: u64, buffer_ms: u64, seed: u64) -> f64 {
    let network = buffered(mbit, rtt_ms, buffer_ms, 60.0);
    let network = network.plane("ledbatpp").native(Native::Cubic);
    let mut config = network.warm_config(seed, 0.2);
    let late = usize::from(seed.is_multiple_of(2));
    config.flows[late].start = Time::from_millis(1_000 + 377 * seed);
    share(&observed(&config, &["ledbatpp"]).flows, 0)
}

#[test]
fn it_yields_to_cubic_in_a_deep_buffer() {
    for (mbit, rtt_ms) in PATHS {
        let shares = each_seed(1..=4, |seed| beside_cubic(mbit, rtt_ms, 300, seed));
        assert!(
            shares.iter().all(|share| *share < 0.1),
            "{mbit} Mbit/s, {rtt_ms} ms: {shares:?}"
        );
    }
}

/// Where the buffer is full before the delay is at the target only losses tell it of others, and
/// it is Reno with a smaller gain.
#[test]
fn it_does_not_yield_as_much_where_the_buffer_is_shorter_than_the_target() {
    let shares = each_seed(1..=4, |seed| beside_cubic(12, 40, 30, seed));
    assert!(
        shares.iter().all(|share| (0.03..0.5).contains(share)),
        "{shares:?}"
    );
}

/// A second flow 20 s after the first; counted from 100 s on.
fn latecomer(mbit: u64, rtt_ms: u64, seed: u64) -> Experiment {
    let network = buffered(mbit, rtt_ms, 300, 200.0);
    let network = network.plane("ledbatpp").plane("ledbatpp");
    let mut config = network.warm_config(seed, 0.5);
    config.flows[1].start = Time::from_millis(20_000 + 377 * seed);
    config
}

#[test]
fn a_latecomer_gets_a_fair_share() {
    for (mbit, rtt_ms) in PATHS {
        let shares = each_seed(1..=3, |seed| {
            let config = latecomer(mbit, rtt_ms, seed);
            share(&observed(&config, &["ledbatpp"]).flows, 1)
        });
        assert!(
            shares.iter().all(|share| (0.35..0.65).contains(share)),
            "{mbit} Mbit/s, {rtt_ms} ms: {shares:?}"
        );
    }
}

/// RFC 6817's latecomer's advantage: it takes the queue of who came before for the base delay.
#[test]
fn without_slowdowns_the_latecomer_takes_all() {
    for (mbit, rtt_ms) in [(12, 40), (24, 20)] {
        let config = latecomer(mbit, rtt_ms, 1);
        let outcome = observed(&config, &["ledbatpp:slowdowns=false"]);
        let late = share(&outcome.flows, 1);
        assert!(late > 0.9, "{mbit} Mbit/s, {rtt_ms} ms: {late}");
        let median = outcome.edges[BOTTLENECK].queueing_us.unwrap().p50 / 1e3;
        assert!(
            median > 1.5 * TARGET,
            "{mbit} Mbit/s, {rtt_ms} ms: {median} ms"
        );
    }
}

/// The draft: a slowdown takes no more than a tenth of the time.
#[test]
fn it_is_slow_for_a_tenth_of_the_time() {
    for (mbit, rtt_ms) in PATHS {
        let network = buffered(mbit, rtt_ms, 300, 100.0).plane("ledbatpp");
        let outcome = observed(&network.config(1), &["ledbatpp"]);
        let cwnd = series::between(&series::cwnd(&outcome.flows[0], MSS), 20.0, 100.0);
        let usual = series::mean(&cwnd);
        let falls = series::falls(&cwnd, 0.3);
        assert!(falls.len() >= 2, "{mbit} Mbit/s, {rtt_ms} ms: {falls:?}");
        assert!(falls.iter().all(|fall| fall.to < 2.5), "{falls:?}");
        let slow = cwnd.iter().filter(|p| p.1 < 0.8 * usual).count() as f64;
        let part = slow / cwnd.len() as f64;
        assert!(
            (0.02..0.13).contains(&part),
            "{mbit} Mbit/s, {rtt_ms} ms: {part}"
        );
    }
}

#[test]
fn the_figure_of_the_latecomer() {
    let mut config = latecomer(12, 40, 1);
    config.duration /= 2;
    config.measure.from = Time::ZERO;
    let outcome = observed(&config, &["ledbatpp"]);
    Figure::new(
        "ledbatpp",
        "LEDBAT++: a second flow comes after 20 s, 12 Mbit/s, 40 ms, a deep buffer",
    )
    .panel(
        Panel::new("throughput", "Mbit/s")
            .line("first", series::throughput(&outcome.flows[0], 0.5))
            .line("second", series::throughput(&outcome.flows[1], 0.5))
            .level("half", 6.0),
    )
    .panel(
        Panel::new("queueing delay", "ms")
            .line("both", series::queueing(&outcome.edges[BOTTLENECK]))
            .level("target", TARGET),
    )
    .check();
}
