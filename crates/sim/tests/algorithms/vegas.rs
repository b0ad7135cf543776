//! Vegas: Brakmo and Peterson, IEEE JSAC 13(8), 1995, and the reproduction of CCP, whose Vegas on
//! CCP was not "passable" (its §3.3).

use std::time::Duration;

use fairwater_net::{Limit, LossConfig, Probability, QueueConfig};
use fairwater_sim::{Experiment, Outcome};

use crate::support::figure::{Figure, Panel};
use crate::support::{BOTTLENECK, Dumbbell, each_seed, observed, series};

const PACKET_BITS: f64 = 1500.0 * 8.0;
const MSS: u32 = 1448;

/// Packets that wait, on average over the time that counts.
fn waiting(outcome: &Outcome, mbit: u64) -> f64 {
    outcome.edges[BOTTLENECK].queueing_us.unwrap().mean * mbit as f64 / PACKET_BITS
}

/// Between α and β segments wait, on paths from a thin one to a long and fat one.
#[test]
fn a_few_segments_wait_and_the_link_is_full() {
    for (mbit, rtt_ms, spec, least, most) in [
        (96, 20, "vegas", 2.0, 4.0),
        (12, 40, "vegas", 2.0, 4.0),
        (5, 10, "vegas", 2.0, 4.0),
        (48, 100, "vegas:alpha=1,beta=3", 1.0, 3.0),
        (24, 30, "vegas:alpha=6,beta=9", 6.0, 9.0),
    ] {
        let network = Dumbbell::new(mbit, rtt_ms, 40.0).plane("vegas");
        let mut config = network.warm_config(1, 0.75);
        config.edges[BOTTLENECK].link.queue = QueueConfig::DropTail(Limit::Packets(1_000));
        let outcome = observed(&config, &[spec]);
        let queue = waiting(&outcome, mbit);
        let edge = &outcome.edges[BOTTLENECK];
        let context = format!("{spec}, {mbit} Mbit/s, {rtt_ms} ms: {queue:.2}, {edge:?}");
        assert!((least..=most).contains(&queue), "{context}");
        assert!(edge.utilisation > 0.99, "{context}");
        assert_eq!(outcome.flows[0].retransmissions, 0, "{context}");
    }
}

/// The paths of the reproduction's §3.1: what its Vegas was tried on.
fn reproduced(lossy: bool, seed: u64) -> Experiment {
    let mut network = Dumbbell::new(96, 20, 30.0).plane("vegas");
    if lossy {
        network.limit = Limit::Unlimited;
    }
    let mut config = network.warm_config(seed, 0.2);
    if lossy {
        // 0.01 %.
        let loss = Probability::from_ppb(100_000).unwrap();
        config.edges[BOTTLENECK].link.loss = LossConfig::Random(loss);
    }
    config
}

/// §3.3 of the reproduction does not say how its Vegas failed. What can fail on CCP is that the
/// plane learns one RTT sample a report, not the least of a round trip, and answers late. Here
/// neither matters: how often flows report and how late the plane is changes nothing.
#[test]
fn neither_seldom_reports_nor_a_late_plane_harm_it() {
    let runs = |spec: &str, delay_ms: u64| {
        let mut config = reproduced(false, 1);
        config.plane.delay = Duration::from_millis(delay_ms);
        let outcome = observed(&config, &[spec]);
        (
            outcome.edges[BOTTLENECK].utilisation,
            waiting(&outcome, 96),
            outcome.flows[0].retransmissions,
        )
    };
    for (spec, delay_ms) in [
        ("vegas:report=ack", 0),
        ("vegas:report=rtt", 0),
        ("vegas:report=10ms", 0),
        ("vegas:report=1s", 0),
        ("vegas:report=rtt", 10),
        ("vegas:report=rtt", 100),
    ] {
        let (utilisation, queue, resent) = runs(spec, delay_ms);
        let context = format!("{spec}, {delay_ms} ms late: {utilisation}, {queue}, {resent}");
        assert!(utilisation > 0.99 && resent == 0, "{context}");
        assert!((2.0..=4.0).contains(&queue), "{context}");
    }
}

/// The *drop* path of the reproduction: to losses Vegas is Reno, but it has no queue to live on
/// after a halving.
#[test]
fn on_the_lossy_path_it_is_reno_without_the_queue() {
    let runs = each_seed(1..=5, |seed| {
        let rate = |spec: &str| {
            let mut config = reproduced(true, seed);
            config.flows[0].controller = fairwater_sim::Controller::Plane(spec.to_owned());
            let outcome = observed(&config, &[spec]);
            let edge = &outcome.edges[BOTTLENECK];
            (edge.utilisation, edge.queueing_us.unwrap().mean)
        };
        (rate("vegas"), rate("reno"))
    });
    for ((vegas, waits), (reno, longer)) in &runs {
        assert!(*vegas > 0.8 * reno, "{runs:?}");
        assert!(*waits < 1_000.0 && waits < longer, "{runs:?}");
    }
}

#[test]
fn the_figure_of_the_queue() {
    let network = Dumbbell::new(12, 40, 20.0);
    let vegas = observed(&network.clone().plane("vegas").config(1), &["vegas"]);
    let reno = observed(&network.plane("reno").config(1), &["reno"]);
    Figure::new(
        "vegas",
        "Vegas alone, and Reno: 12 Mbit/s, 40 ms, a buffer of one BDP",
    )
    .panel(
        Panel::new("cwnd", "segments")
            .line("vegas", series::cwnd(&vegas.flows[0], MSS))
            .line("reno", series::cwnd(&reno.flows[0], MSS)),
    )
    .panel(
        Panel::new("queueing delay", "ms")
            .line("vegas", series::queueing(&vegas.edges[BOTTLENECK]))
            .line("reno", series::queueing(&reno.edges[BOTTLENECK]))
            .level("four segments", 4.0),
    )
    .check();
}

/// A buffer of six bandwidth-delay products: paths where whatever slow start leaves in the queue
/// drains at one segment a round trip, and passes for the path's RTT with whoever comes later.
const DEEP: [(u64, u64); 6] = [(20, 50), (8, 80), (50, 30), (96, 20), (12, 120), (100, 60)];

fn deep(mbit: u64, rtt_ms: u64, seconds: f64) -> Dumbbell {
    let mut network = Dumbbell::new(mbit, rtt_ms, seconds);
    network.limit = Limit::Bytes(6 * mbit * 1_000 * rtt_ms / 8);
    network
}

/// When slow start ends, the queue that it built is given back at once (the paper's §III.C; Linux:
/// `cwnd = min(cwnd, target_cwnd + 1)`).
#[test]
fn slow_start_leaves_no_queue_behind() {
    for (mbit, rtt_ms) in DEEP {
        let network = deep(mbit, rtt_ms, 40.0 * rtt_ms as f64 / 1e3).plane("vegas");
        // Slow start takes at most twenty round trips.
        let outcome = observed(&network.warm_config(1, 0.75), &["vegas"]);
        let queue = waiting(&outcome, mbit);
        let context = format!("{mbit} Mbit/s, {rtt_ms} ms: {queue:.1} packets wait");
        assert!(queue < 8.0, "{context}");
        assert_eq!(outcome.flows[0].retransmissions, 0, "{context}");
        let used = outcome.edges[BOTTLENECK].utilisation;
        assert!(used > 0.85, "{context}, {used}");
    }
}

/// Two flows, the second later: whenever it comes, both have their share.
#[test]
fn a_second_flow_gets_its_share() {
    for (mbit, rtt_ms) in DEEP {
        let shares = each_seed(1..=4, |seed| {
            let mut network = deep(mbit, rtt_ms, 60.0).plane("vegas").plane("vegas");
            let later = Duration::from_millis(2_000 + 137 * seed);
            network.flows[1].start = fairwater_net::Time::ZERO + later;
            let outcome = observed(&network.warm_config(seed, 0.5), &["vegas"]);
            let rates = outcome.flows.iter().map(|f| f.delivered_bytes as f64);
            let (least, sum) = rates.fold((f64::MAX, 0.0), |(l, s), r| (r.min(l), s + r));
            least / sum
        });
        assert!(
            shares.iter().all(|share| *share > 0.2),
            "{mbit} Mbit/s, {rtt_ms} ms: the lesser share is {shares:?}, by seed from 1"
        );
    }
}
