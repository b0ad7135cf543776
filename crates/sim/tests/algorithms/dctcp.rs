//! DCTCP: RFC 8257, and the queue that Alizadeh et al., SIGCOMM 2010, promise.

use std::time::Duration;

use fairwater_net::{Limit, QueueConfig, StepConfig, Time};
use fairwater_sim::{Ecn, Experiment, Outcome};

use crate::support::figure::{Figure, Panel};
use crate::support::{BOTTLENECK, Dumbbell, each_seed, jain, observed, series};

/// Of a packet on the link.
const PACKET: u64 = 1500;
const MSS: u32 = 1448;

/// So many flows over a queue that marks above `k` packets and holds a thousand, started within
/// ten round trips; the last three quarters count.
fn marking(algorithm: &str, flows: u32, mbit: u64, rtt: Duration, k: u64, seed: u64) -> Experiment {
    let mut network = Dumbbell::new(mbit, 1, 0.3);
    network.rtt = rtt;
    for _ in 0..flows {
        network = network.plane(algorithm);
    }
    let mut config = network.warm_config(seed, 0.25);
    config.edges[BOTTLENECK].link.queue = QueueConfig::Step(StepConfig {
        limit: Limit::Packets(1000),
        threshold: Limit::Packets(k),
    });
    for flow in &mut config.flows {
        flow.start_jitter = 10 * rtt;
    }
    config.measure.interval = Some(Duration::from_micros(100));
    config
}

/// Packets in the bottleneck's queue at the end of each interval from then on.
fn queue(outcome: &Outcome, from: Time) -> series::Series {
    let samples = outcome.edges[BOTTLENECK].samples.iter();
    let samples = samples.filter(|s| s.at >= from);
    samples
        .map(|s| (s.at.as_secs_f64(), s.queued_bytes as f64 / PACKET as f64))
        .collect()
}

/// §3.3 of the paper: the queue swings about K, by little; §4.1 finds it so with two flows and with
/// twenty. Where windows are near their least, two segments, each flow may add as many.
#[test]
fn the_queue_is_held_near_the_threshold_by_two_flows_and_by_twenty() {
    for (mbit, rtt_us, k) in [(1_000, 250, 20), (10_000, 200, 65), (1_000, 1_000, 40)] {
        for flows in [2, 20] {
            let runs = each_seed([1, 7, 23], |seed| {
                let rtt = Duration::from_micros(rtt_us);
                let config = marking("dctcp", flows, mbit, rtt, k, seed);
                let outcome = observed(&config, &["dctcp"]);
                (queue(&outcome, config.measure.from), outcome)
            });
            for (queue, outcome) in runs {
                let context = format!("{flows} flows, {mbit} Mbit/s, {rtt_us} µs, K = {k}");
                let edge = &outcome.edges[BOTTLENECK];
                let mean = series::mean(&queue);
                let (_, most) = series::extremes(&queue);
                assert_eq!(edge.dropped, 0, "{context}");
                assert!(edge.utilisation > 0.98, "{context}: {}", edge.utilisation);
                let near = mean / k as f64;
                assert!((0.7..1.3).contains(&near), "{context}: a mean of {mean}");
                let bound = k + 2 * u64::from(flows) + 4;
                assert!(most <= bound as f64, "{context}: {most}");
                assert!(jain(&outcome) > 0.9, "{context}: {}", jain(&outcome));
            }
        }
    }
}

/// What DCTCP is for: at the same marks, a Reno that answers them as RFC 3168 says halves.
#[test]
fn reno_at_the_same_marks_empties_the_queue() {
    let least = |algorithm: &str| {
        let mut config = marking(algorithm, 2, 1_000, Duration::from_micros(1_000), 20, 3);
        for flow in &mut config.flows {
            flow.tcp.ecn = Ecn::Accurate;
        }
        let outcome = observed(&config, &[algorithm]);
        let empty = queue(&outcome, config.measure.from);
        let share = empty.iter().filter(|p| p.1 < 1.0).count() as f64 / empty.len() as f64;
        (share, outcome.edges[BOTTLENECK].utilisation)
    };
    let ((dctcp, full), (reno, part)) = (least("dctcp"), least("reno"));
    assert!(dctcp < 0.02 && full > 0.98, "{dctcp}, {full}");
    assert!(reno > 0.2 && part < 0.9, "{reno}, {part}");
}

/// RFC 8257 §3: its flows negotiate ECN although nothing configures it, others do not.
#[test]
fn its_flows_have_ecn_without_being_told() {
    let marked = |algorithm: &str| {
        let config = marking(algorithm, 1, 1_000, Duration::from_micros(500), 20, 1);
        observed(&config, &[algorithm]).flows[0].marked
    };
    assert!(marked("dctcp") > 0);
    assert_eq!(marked("reno"), 0);
}

#[test]
fn the_figure_of_the_queue() {
    let rtt = Duration::from_micros(250);
    let run = |algorithm: &str, flows| {
        let mut config = marking(algorithm, flows, 1_000, rtt, 20, 1);
        config.duration = Duration::from_millis(60);
        config.measure.from = Time::ZERO;
        for flow in &mut config.flows {
            flow.tcp.ecn = Ecn::Dctcp;
        }
        observed(&config, &[algorithm])
    };
    let (two, twenty, reno) = (run("dctcp", 2), run("dctcp", 20), run("reno", 2));
    let waiting = |outcome| queue(outcome, Time::ZERO);
    Figure::new(
        "dctcp",
        "1 Gbit/s, 250 µs, a queue that marks above 20 packets",
    )
    .panel(
        Panel::new("queue", "packets")
            .line("2 of dctcp", waiting(&two))
            .line("20 of dctcp", waiting(&twenty))
            .level("K", 20.0)
            .up_to(80.0),
    )
    .panel(
        Panel::new("queue, marks answered by half", "packets")
            .line("2 of reno", waiting(&reno))
            .level("K", 20.0)
            .up_to(80.0),
    )
    .panel(
        Panel::new("cwnd", "segments")
            .line("dctcp, one of 2", series::cwnd(&two.flows[0], MSS))
            .line("dctcp, the other", series::cwnd(&two.flows[1], MSS))
            .line("reno, one of 2", series::cwnd(&reno.flows[0], MSS)),
    )
    .check();
}
