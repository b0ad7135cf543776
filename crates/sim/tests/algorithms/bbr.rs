//! BBR v1: Cardwell et al., ACM Queue 14(5), 2016; CCP §4.3.

use std::sync::Arc;
use std::time::Duration;

use fairwater_net::{Capacity, Limit, Rate, RateSchedule, Time};
use fairwater_sim::Experiment;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::support::figure::{Figure, Panel};
use crate::support::{BOTTLENECK, Dumbbell, each_seed, observed, series};

/// The edge that acknowledgements take.
const BACK: usize = 1;

fn buffered(mbit: u64, rtt_ms: u64, bdps: u64, seconds: f64) -> Dumbbell {
    let mut network = Dumbbell::new(mbit, rtt_ms, seconds).plane("bbr");
    network.limit = Limit::Bytes(mbit * 125 * rtt_ms * bdps);
    network
}

/// Within 5 % of full: what random loss takes before the bottleneck cannot be had.
pub(crate) fn one_percent_of_loss_costs_next_to_nothing_under(name: &str) {
    let reporting = format!("{name}:report=10ms");
    for (mbit, rtt_ms, spec) in [
        (12, 40, name),
        (48, 20, name),
        (8, 100, name),
        (24, 10, &reporting),
    ] {
        let shares = each_seed(1..=4, |seed| {
            let mut network = Dumbbell::new(mbit, rtt_ms, 22.0).plane(name);
            network.loss_per_mille = 10;
            let mut config = network.config(seed);
            config.measure.from = Time::from_millis(2_000);
            observed(&config, &[spec]).edges[BOTTLENECK].utilisation
        });
        assert!(
            shares.iter().all(|share| *share >= 0.95),
            "{spec} {mbit} Mbit/s, {rtt_ms} ms: {shares:?}"
        );
    }
}

#[test]
fn one_percent_of_loss_costs_next_to_nothing() {
    one_percent_of_loss_costs_next_to_nothing_under("bbr");
}

/// CCP Figure 3: the probes for bandwidth are seen in the queueing delay, those for the RTT in dips
/// of throughput each ten seconds.
#[test]
fn probes_are_seen_in_rate_and_delay() {
    let outcome = observed(&buffered(48, 20, 2, 32.0).config(1), &["bbr"]);
    let (flow, edge) = (&outcome.flows[0], &outcome.edges[BOTTLENECK]);
    let rate = series::rate(flow);
    let steady = series::between(&rate, 2.0, 10.0);
    let cruise = series::mean(&steady);
    // Eight phases of 20 ms and more: five or six cycles a second.
    let ups: Vec<f64> = steady
        .windows(2)
        .filter(|w| w[0].1 < 1.15 * cruise && w[1].1 > 1.2 * cruise)
        .map(|w| w[1].0)
        .collect();
    assert!(
        (36..=52).contains(&ups.len()),
        "{} cycles in 8 s",
        ups.len()
    );
    let queue = series::queueing(edge);
    for pair in ups.windows(2) {
        let (_, most) = series::extremes(&series::between(&queue, pair[0], pair[0] + 0.06));
        assert!((3.0..8.0).contains(&most), "{most} ms after {} s", pair[0]);
        let (least, _) = series::extremes(&series::between(&queue, pair[0] + 0.08, pair[1]));
        assert!(least < 1.0, "{least} ms left after {} s", pair[0]);
    }
    let dips = series::falls(&series::throughput(flow, 0.1), 0.3);
    let dips: Vec<f64> = dips.iter().map(|d| d.at_s).filter(|at| *at > 2.0).collect();
    assert_eq!(dips.len(), 3, "{dips:?}");
}

/// Times in which ACKs are held back, and come in one burst: long enough for timeouts that were
/// not needed, in odd rhythms.
fn hold_acks_back(config: &mut Experiment, seed: u64, until_s: f64) {
    let mut draws = ChaCha8Rng::seed_from_u64(seed);
    let (open, shut) = (Rate::from_bps(1_000_000_000), Rate::from_bps(1));
    let mut steps = vec![(Time::ZERO, open.unwrap())];
    let mut at = Time::from_millis(2_000);
    while at.as_secs_f64() < until_s {
        steps.push((at, shut.unwrap()));
        at = at + Duration::from_millis(draws.random_range(200..1_200));
        steps.push((at, open.unwrap()));
        let calm = if draws.random_ratio(1, 2) { 800 } else { 80 };
        at = at + Duration::from_millis(draws.random_range(1..calm));
    }
    let schedule = RateSchedule::new(steps).unwrap();
    config.edges[BACK].link.capacity = Capacity::Schedule(Arc::new(schedule));
}

/// CC-Fuzz (Ray and Seshan, HotNets 2022) found BBR to stall for good when late ACKs after spurious
/// timeouts end its round trips early, so that the bandwidth is forgotten. Ours take an RTT at
/// least, and those of a recovery from a timeout age nothing: when the adversary stops, the flow
/// goes on.
#[test]
fn acks_that_come_late_and_in_bursts_do_not_stall_it() {
    each_seed(1..=8, |seed| {
        let mut config = buffered(24, 40, 1, 22.0).config(seed);
        hold_acks_back(&mut config, seed, 16.0);
        let outcome = observed(&config, &["bbr:probe_rtt=off"]);
        let flow = &outcome.flows[0];
        let mean = |from, to| {
            let throughput = series::throughput(flow, 0.1);
            series::mean(&series::between(&throughput, from, to))
        };
        // The adversary does harm.
        assert!(flow.timeouts >= 2, "{} timeouts", flow.timeouts);
        assert!(mean(3.0, 16.0) < 16.0, "{} Mbit/s", mean(3.0, 16.0));
        // 50 round trips after it stops all is well again: 23.2 Mbit/s of payload are all there are.
        let after = mean(18.0, 22.0);
        assert!(after > 22.0, "{after} Mbit/s");
    });
}

#[test]
fn the_figure_of_the_probes() {
    let outcome = observed(&buffered(48, 20, 2, 24.0).config(1), &["bbr"]);
    let (flow, edge) = (&outcome.flows[0], &outcome.edges[BOTTLENECK]);
    Figure::new(
        "bbr",
        "BBR v1 alone: 48 Mbit/s, 20 ms, a buffer of two BDPs (CCP Figure 3)",
    )
    .panel(
        Panel::new("throughput", "Mbit/s")
            .line("bbr", series::throughput(flow, 0.1))
            .up_to(60.0),
    )
    .panel(
        Panel::new("pacing rate", "Mbit/s")
            .line("bbr", series::rate(flow))
            .up_to(80.0),
    )
    .panel(
        Panel::new("queueing delay", "ms")
            .line("bbr", series::queueing(edge))
            .up_to(6.0),
    )
    .between(8.0, 12.0)
    .check();
}
