//! BasicDelay: Goyal et al., "Elasticity detection", §4; Bundler §7.1 runs it at 1.25 base RTT.

use std::sync::Arc;

use fairwater_net::{Capacity, Limit, RateSchedule, Time};
use fairwater_sim::{Controller, Experiment, Native, Outcome, SizeCdf, Traffic};

use crate::support::figure::{Figure, Panel};
use crate::support::{BOTTLENECK, Dumbbell, each_seed, jain, observed, series};

/// Mbit/s and RTT without queues, ms.
const PATHS: [(u64, u64); 6] = [(24, 20), (24, 50), (24, 100), (96, 20), (96, 50), (96, 100)];

fn buffered(mbit: u64, rtt_ms: u64, seconds: f64) -> Dumbbell {
    let mut network = Dumbbell::new(mbit, rtt_ms, seconds);
    network.limit = Limit::Bytes(mbit * 125 * 300);
    network
}

/// Utilisation, and mean queueing delay in ms.
fn used(outcome: &Outcome) -> (f64, f64) {
    let edge = &outcome.edges[BOTTLENECK];
    (edge.utilisation, edge.queueing_us.unwrap().mean / 1e3)
}

/// The mean queue is the target, and the flow's two packets, and the link is full: also for 2.5 ms,
/// which is five packets at 24 Mbit/s.
#[test]
fn alone_it_fills_the_link_and_holds_the_target() {
    for (mbit, rtt_ms) in PATHS {
        for target_ms in [1.5, 2.5, 12.5] {
            let spec = format!("basicdelay:target={target_ms}ms");
            let network = buffered(mbit, rtt_ms, 30.0).plane("basicdelay");
            let outcome = observed(&network.warm_config(1, 0.3), &[&spec]);
            let (utilisation, waits) = used(&outcome);
            let what =
                format!("{mbit} Mbit/s, {rtt_ms} ms, {spec}: {utilisation:.3}, {waits:.2} ms");
            println!("{what}");
            assert!(utilisation > 0.99, "{what}");
            let packets_ms = 2.0 * 1500.0 * 8e-3 / mbit as f64;
            assert!((waits - target_ms - packets_ms).abs() < 0.1, "{what}");
        }
    }
}

#[test]
fn the_target_may_be_a_share_of_the_round_trip() {
    let network = buffered(96, 50, 30.0).plane("basicdelay");
    let outcome = observed(
        &network.warm_config(1, 0.3),
        &["basicdelay:target=500us,target_share=0.25"],
    );
    let (utilisation, waits) = used(&outcome);
    assert!(
        utilisation > 0.98 && (12.0..13.5).contains(&waits),
        "{waits}"
    );
}

/// From 96 to 24 Mbit/s and back, at 20 s and 40 s.
fn steps(rtt_ms: u64, seed: u64) -> Experiment {
    let network = buffered(96, rtt_ms, 60.0).plane("basicdelay");
    let mut config = network.config(seed);
    let schedule = RateSchedule::new(vec![
        (Time::ZERO, crate::support::rate(96)),
        (
            Time::from_millis(20_000 + 37 * seed),
            crate::support::rate(24),
        ),
        (
            Time::from_millis(40_000 + 37 * seed),
            crate::support::rate(96),
        ),
    ]);
    config.edges[BOTTLENECK].link.capacity = Capacity::Schedule(Arc::new(schedule.unwrap()));
    config
}

#[test]
fn it_settles_within_two_seconds_of_a_fall_to_a_quarter_of_the_capacity() {
    for (rtt_ms, settled_s, longest_ms) in [(20, 2.0, 5.0), (50, 2.0, 5.0), (100, 2.5, 10.0)] {
        each_seed(1..=3, |seed| {
            let outcome = observed(&steps(rtt_ms, seed), &["basicdelay"]);
            let waits = series::queueing(&outcome.edges[BOTTLENECK]);
            let late = series::between(&waits, 20.0 + settled_s + 0.037 * seed as f64, 40.0);
            let (_, most) = series::extremes(&late);
            let falls = series::between(&waits, 20.0, 22.2);
            let (_, peak) = series::extremes(&falls);
            let rates = series::throughput(&outcome.flows[0], 0.5);
            let low = series::mean(&series::between(&rates, 23.0, 40.0));
            let high = series::mean(&series::between(&rates, 45.0, 60.0));
            let what = format!(
                "{rtt_ms} ms, seed {seed}: peak {peak:.1} ms, then at most {most:.1} ms; {low:.1} and {high:.1} Mbit/s"
            );
            println!("{what}");
            assert!(most < longest_ms && low > 22.5 && high > 92.0, "{what}");
        });
    }
}

/// Beside requests that take half of the link, with their handshakes.
#[test]
fn beside_requests_it_takes_what_is_left() {
    for (mbit, rtt_ms) in PATHS {
        let points = vec![(3_000.0, 0.0), (14_000.0, 1.0)];
        let network = buffered(mbit, rtt_ms, 30.0).plane("basicdelay").flow(
            Controller::Native(Native::Cubic),
            Traffic::Requests {
                sizes: Arc::new(SizeCdf { points }),
                load: mbit as f64 * 125_000.0 / 2.0,
            },
        );
        let outcome = observed(&network.warm_config(1, 0.3), &["basicdelay"]);
        let (utilisation, waits) = used(&outcome);
        let what = format!("{mbit} Mbit/s, {rtt_ms} ms: {utilisation:.3}, {waits:.2} ms");
        println!("{what}");
        assert!(utilisation > 0.6 && waits < 7.0, "{what}");
    }
}

#[test]
fn several_share_the_link() {
    for flows in [2, 4, 12] {
        let mut network = buffered(96, 50, 90.0);
        for _ in 0..flows {
            network = network.plane("basicdelay");
        }
        let mut config = network.warm_config(1, 0.5);
        for (index, flow) in config.flows.iter_mut().enumerate() {
            flow.start = Time::from_millis(500 * index as u64);
        }
        let outcome = observed(&config, &["basicdelay"]);
        let (utilisation, waits) = used(&outcome);
        let what = format!(
            "{flows}: Jain {:.3}, {utilisation:.3}, {waits:.2} ms",
            jain(&outcome)
        );
        println!("{what}");
        assert!(
            utilisation > 0.99 && waits < 7.0 && jain(&outcome) > 0.93,
            "{what}"
        );
    }
}

#[test]
fn the_figure_of_the_capacity_step() {
    let outcome = observed(&steps(50, 0), &["basicdelay"]);
    Figure::new(
        "basicdelay",
        "BasicDelay at 2.5 ms: 50 ms, 96 Mbit/s, 24 Mbit/s from 20 s to 40 s",
    )
    .panel(
        Panel::new("throughput", "Mbit/s")
            .line("basicdelay", series::throughput(&outcome.flows[0], 0.2)),
    )
    .panel(
        Panel::new("queueing delay", "ms")
            .line("the queue", series::queueing(&outcome.edges[BOTTLENECK]))
            .level("the target", 2.5)
            .up_to(30.0),
    )
    .check();
}
