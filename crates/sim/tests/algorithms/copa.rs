//! Copa: Arun and Balakrishnan, NSDI '18; CCP §6.2.

use std::time::Duration;

use fairwater_net::{Capacity, DeliveryTrace, Jitter, Limit, Time};
use fairwater_sim::{Controller, Experiment, Native, Outcome};

use crate::support::figure::{Figure, Panel};
use crate::support::{BOTTLENECK, Dumbbell, each_seed, observed, series};

const MSS: u32 = 1448;
/// The edge by which ACKs come back.
const BACK: usize = 1;

/// What delays ACKs on their way back, and lets them come together.
#[derive(Debug, Clone, Copy)]
enum Compression {
    /// ACKs come in bursts, each so many ms.
    Bursts(u64),
    /// ACKs wait for up to so many ms, and for those before them.
    Jitter(u64),
}

impl Compression {
    fn apply(self, config: &mut Experiment) {
        match self {
            Self::Bursts(ms) => {
                let trace = format!("{ms}\n").repeat(100);
                config.edges[BACK].link.capacity =
                    Capacity::Trace(DeliveryTrace::parse(&trace).unwrap().into());
            }
            Self::Jitter(ms) => {
                config.edges[BACK].link.jitter = Some(Jitter {
                    max: Duration::from_millis(ms),
                    reorders: false,
                });
            }
        }
    }
}

/// CCP §6.2's table: 8.2 Mbit/s at 11 ms of queueing delay on 12 Mbit/s and 25 ms, where an
/// implementation that ACK compression misled had 1.3 Mbit/s.
#[test]
fn compressed_acks_do_not_mislead_it() {
    for compression in [
        Compression::Bursts(5),
        Compression::Bursts(10),
        Compression::Bursts(15),
        Compression::Bursts(20),
        Compression::Jitter(2),
        Compression::Jitter(5),
    ] {
        each_seed(1..=5, |seed| {
            let mut network = Dumbbell::new(12, 25, 40.0).plane("copa");
            network.limit = Limit::Bytes(150_000);
            let mut config = network.warm_config(seed, 0.1);
            compression.apply(&mut config);
            let outcome = observed(&config, &["copa"]);
            let mbit = outcome.flows[0].delivered_bytes as f64 * 8e-6 / 36.0;
            let waited = outcome.edges[BOTTLENECK].queueing_us.unwrap().mean / 1e3;
            let told = format!("{compression:?}: {mbit:.2} Mbit/s, {waited:.2} ms");
            println!("{told}");
            assert!(mbit >= 8.2 && waited <= 11.0, "{told}");
        });
    }
}

/// Slow start ends with twice what the path holds, which a small buffer has no room for: what is
/// too much is gone in a few round trips, and nothing is lost from then on.
#[test]
fn the_overshoot_of_slow_start_is_soon_drained() {
    for (mbit, rtt_ms) in [(24, 200), (48, 100), (12, 60), (96, 40)] {
        let mut network = Dumbbell::new(mbit, rtt_ms, 0.15 * rtt_ms as f64).plane("copa");
        let bdp = mbit * 1000 * rtt_ms / 8;
        network.limit = Limit::Bytes(bdp * 3 / 10);
        let outcome = observed(&network.config(1), &["copa"]);
        let samples = &outcome.flows[0].samples;
        let peak = samples.iter().max_by_key(|s| s.cwnd).unwrap();
        let fits = bdp * 13 / 10;
        assert!(peak.cwnd > fits, "{mbit} Mbit/s, {rtt_ms} ms: {peak:?}");
        let drained = peak.at + 8 * Duration::from_millis(rtt_ms);
        let later: Vec<_> = samples.iter().filter(|s| s.at > drained).collect();
        let most = later.iter().map(|s| s.cwnd).max().unwrap();
        assert!(most < fits, "{mbit} Mbit/s, {rtt_ms} ms: {most} of {fits}");
    }
}

/// NSDI '18 §2.2 and Figure 1: alone, the flow fills the link, and its queue is nearly empty once
/// in about five round trips, whatever the path.
#[test]
fn the_queue_empties_about_each_five_round_trips() {
    for (mbit, rtt_ms) in [(2, 40), (8, 60), (12, 25), (24, 50), (48, 30), (100, 20)] {
        let mut config = Dumbbell::new(mbit, rtt_ms, 40.0)
            .plane("copa")
            .warm_config(1, 0.25);
        config.measure.interval = Some(Duration::from_millis(rtt_ms) / 8);
        let outcome = observed(&config, &["copa"]);
        let edge = &outcome.edges[BOTTLENECK];
        assert!(edge.utilisation > 0.97, "{mbit} Mbit/s: {edge:?}");
        let queueing = series::between(&series::queueing(edge), 10.0, 40.0);
        let round_trip_s = series::mean(&series::between(
            &series::srtt(&outcome.flows[0]),
            10.0,
            40.0,
        )) / 1e3;
        let period = period_s(&queueing) / round_trip_s;
        // The queue of 1/δ packets, two by two as ACKs let them out.
        let packets = series::mean(&queueing) * mbit as f64 * 1e3 / 8.0 / 1500.0;
        assert!((3.0..7.0).contains(&period), "{mbit} Mbit/s: {period} RTT");
        assert!((1.0..4.5).contains(&packets), "{mbit} Mbit/s: {packets}");
    }
}

/// The mean time between falls to the lowest quarter of the range.
fn period_s(series: &[(f64, f64)]) -> f64 {
    let mut values: Vec<f64> = series.iter().map(|p| p.1).collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = (values[values.len() / 20], values[values.len() * 19 / 20]);
    let (mut falls, mut above) = (Vec::new(), false);
    for &(at, value) in series {
        if above && value < low + (high - low) / 4.0 {
            falls.push(at);
            above = false;
        }
        above |= value > low + (high - low) * 0.6;
    }
    (falls[falls.len() - 1] - falls[0]) / (falls.len() - 1) as f64
}

/// δ says how long the queue is.
#[test]
fn a_smaller_delta_keeps_a_longer_queue() {
    let waits = ["copa:delta=1", "copa", "copa:delta=0.25", "copa:delta=0.05"].map(|spec| {
        let config = Dumbbell::new(24, 40, 30.0)
            .plane("copa")
            .warm_config(1, 0.2);
        let outcome = observed(&config, &[spec]);
        let edge = &outcome.edges[BOTTLENECK];
        assert!(edge.utilisation > 0.93, "{spec}: {edge:?}");
        edge.queueing_us.unwrap().mean
    });
    assert!(waits.windows(2).all(|w| w[1] > 1.1 * w[0]), "{waits:?}");
}

/// Copa from the beginning; another from so many ms on to 60 s.
fn visited(
    (mbit, rtt_ms, buffer): (u64, u64, f64),
    host: Controller,
    competitor: Native,
    from_ms: u64,
) -> Outcome {
    let mut network = Dumbbell::new(mbit, rtt_ms, 100.0)
        .flow(host, fairwater_sim::Traffic::Bulk)
        .native(competitor);
    if let Limit::Bytes(bdp) = network.limit {
        network.limit = Limit::Bytes((bdp as f64 * buffer) as u64);
    }
    let mut config = network.config(1);
    config.flows[1].start = Time::from_millis(from_ms);
    config.flows[1].stop = Some(Time::from_millis(60_000));
    observed(&config, &["copa"])
}

/// NSDI '18 §2.2: default mode, then at least about what NewReno would get where a flow fills the
/// buffer, then default mode again.
#[test]
fn it_competes_with_flows_that_fill_the_buffer_as_long_as_they_are_there() {
    let links = [(12, 25, 1.0), (12, 50, 2.0), (24, 40, 1.0), (40, 30, 1.5)];
    for (link, competitor) in links
        .into_iter()
        .flat_map(|link| [(link, Native::Cubic), (link, Native::Reno)])
    {
        each_seed(0..=2, |seed| {
            let (mbit, rtt_ms, buffer) = link;
            let from_ms = 5_000 + 100 * seed;
            let of = |controller| visited(link, controller, competitor, from_ms);
            let outcome = of(Controller::Plane("copa".to_owned()));
            let reno = of(Controller::Native(Native::Reno));
            let had = |o: &Outcome, from, to| {
                let rates = series::throughput(&o.flows[0], 0.5);
                series::mean(&series::between(&rates, from, to))
            };
            let waited = |from, to| {
                let waits = series::queueing(&outcome.edges[BOTTLENECK]);
                series::mean(&series::between(&waits, from, to))
            };
            let what = format!(
                "{mbit} Mbit/s, {rtt_ms} ms, {buffer} BDP, {competitor:?} from {from_ms} ms"
            );
            let share = had(&outcome, 15.0, 60.0) / mbit as f64;
            let fair = had(&reno, 15.0, 60.0) / mbit as f64;
            println!(
                "{what}: share {share:.2}, fair {fair:.2}, then {:.1} ms",
                waited(80.0, 100.0)
            );
            assert!((0.6 * fair..0.75).contains(&share), "{what}: {share}");
            let packets_ms = |packets: f64| packets * 12.0 / mbit as f64;
            let (before, after) = (waited(2.0, 5.0), waited(80.0, 100.0));
            assert!(before < packets_ms(6.0), "{what}: {before} ms");
            // The least RTT of the last ten seconds may have some of the competitor's packets in it.
            assert!(after < packets_ms(20.0), "{what}: {after} ms");
            assert!(had(&outcome, 80.0, 100.0) > 0.9 * mbit as f64, "{what}");
        });
    }
}

/// NSDI '18 §4: flows that come and go share alike, at a queue of some packets each.
#[test]
fn flows_share_and_stay_in_default_mode() {
    for (mbit, rtt_ms, flows) in [(24, 40, 2), (50, 25, 4)] {
        let mut network = Dumbbell::new(mbit, rtt_ms, 60.0);
        for _ in 0..flows {
            network = network.plane("copa");
        }
        let mut config = network.warm_config(1, 0.5);
        for (index, flow) in config.flows.iter_mut().enumerate() {
            flow.start = Time::from_millis(1_700 * index as u64);
        }
        let outcome = observed(&config, &["copa"]);
        let edge = &outcome.edges[BOTTLENECK];
        let bytes = outcome.flows.iter().map(|f| f.delivered_bytes as f64);
        let (least, most) = bytes.fold((f64::MAX, 0.0_f64), |(l, m), b| (l.min(b), m.max(b)));
        assert!(least > 0.6 * most, "{flows} flows: {least} to {most}");
        assert!(edge.utilisation > 0.95, "{flows} flows: {edge:?}");
        let packets = edge.queueing_us.unwrap().mean * mbit as f64 / 8.0 / 1500.0;
        assert!(packets < 5.0 * flows as f64, "{flows} flows: {packets}");
    }
}

/// Median queue of flows that start a second apart, in packets for each flow.
fn queue_of_flows(
    algorithm: &str,
    (mbit, rtt_ms, buffer): (u64, u64, u64),
    flows: u64,
    seed: u64,
) -> f64 {
    let mut network = Dumbbell::new(mbit, rtt_ms, 60.0);
    if let Limit::Bytes(bdp) = network.limit {
        network.limit = Limit::Bytes(buffer * bdp);
    }
    for _ in 0..flows {
        network = network.plane("copa");
    }
    let mut config = network.warm_config(seed, 0.5);
    for (flow, index) in config.flows.iter_mut().zip(0..) {
        flow.start = Time::from_millis(1_000 * index);
        flow.start_jitter = Duration::from_millis(500);
    }
    let outcome = observed(&config, &[algorithm]);
    let queueing = outcome.edges[BOTTLENECK].queueing_us.unwrap_or_default();
    queueing.p50 * mbit as f64 / 12_000.0 / flows as f64
}

/// NSDI '18 §2.2: flows do not take each other for flows that fill the buffer. By the paper's
/// detector alone they do, in every run.
#[test]
fn several_flows_do_not_lock_each_other() {
    for (path, flows) in [((40, 60, 4), 5), ((24, 40, 1), 8), ((12, 60, 2), 12)] {
        let queues = each_seed(1..=4, |seed| queue_of_flows("copa", path, flows, seed));
        let what = format!("{path:?}, {flows} flows");
        assert!(queues.iter().all(|q| *q < 6.0), "{what}: {queues:.1?}");
        let paper = each_seed(1..=2, |seed| {
            queue_of_flows("copa:mode=paper", path, flows, seed)
        });
        assert!(paper.iter().all(|q| *q > 6.0), "{what}: {paper:.1?}");
    }
}

/// The table of docs/algorithms/copa.md.
#[test]
#[ignore = "prints a table from 120 runs"]
fn runs_that_lock() {
    let paths = [
        (40, 60, 4),
        (12, 25, 2),
        (24, 40, 1),
        (100, 20, 4),
        (48, 100, 2),
    ];
    for algorithm in ["copa", "copa:mode=paper"] {
        for flows in [3, 5, 8, 12] {
            let queues = paths
                .map(|path| each_seed(1..=3, |seed| queue_of_flows(algorithm, path, flows, seed)));
            let locked = queues.iter().flatten().filter(|q| **q > 5.0).count();
            println!("{algorithm}, {flows} flows: {locked} of 15; {queues:.1?}");
        }
    }
}

/// NSDI '18 §5: loss that is not of a queue does not slow it down.
#[test]
fn random_loss_costs_little() {
    let shares = each_seed(1..=5, |seed| {
        let mut network = Dumbbell::new(24, 40, 30.0).plane("copa");
        network.loss_per_mille = 10;
        observed(&network.warm_config(seed, 0.2), &["copa"]).edges[BOTTLENECK].utilisation
    });
    assert!(shares.iter().all(|s| *s > 0.9), "{shares:?}");
}

#[test]
fn the_figure_of_the_modes() {
    let network = Dumbbell::new(12, 25, 30.0)
        .plane("copa")
        .native(Native::Cubic);
    let mut config = network.config(1);
    config.flows[1].start = Time::from_millis(4_000);
    config.flows[1].stop = Some(Time::from_millis(20_000));
    let outcome = observed(&config, &["copa"]);
    Figure::new(
        "copa",
        "Copa on 12 Mbit/s, 25 ms, a buffer of one BDP; CUBIC from 4 s to 20 s",
    )
    .panel(
        Panel::new("throughput", "Mbit/s")
            .line("copa", series::throughput(&outcome.flows[0], 0.2))
            .line("CUBIC", series::throughput(&outcome.flows[1], 0.2)),
    )
    .panel(
        Panel::new("queueing delay", "ms")
            .line("the queue", series::queueing(&outcome.edges[BOTTLENECK]))
            .level("a full buffer", 25.0),
    )
    .check();
}

#[test]
fn the_figure_of_the_oscillation() {
    let outcome = observed(
        &Dumbbell::new(12, 25, 12.0).plane("copa").config(1),
        &["copa"],
    );
    Figure::new("copa-oscillation", "Copa alone on 12 Mbit/s, 25 ms")
        .between(10.0, 11.0)
        .panel(Panel::new("cwnd", "segments").line("copa", series::cwnd(&outcome.flows[0], MSS)))
        .panel(
            Panel::new("queueing delay", "ms")
                .line("the queue", series::queueing(&outcome.edges[BOTTLENECK])),
        )
        .check();
}
