//! Flows under one controller: CCP §6.3 and Figure 7.

use std::time::Duration;

use fairwater_net::Time;
use fairwater_sim::{Controller, Experiment, NodeId, Outcome, Traffic};

use crate::support::figure::{Figure, Panel};
use crate::support::{BOTTLENECK, Dumbbell, each_seed, observed, series};

/// The name in the plane, whatever the parameters.
const MANAGER: &str = "congestion_manager";

fn name_of(spec: &str) -> &str {
    spec.split_once(':').map_or(spec, |(name, _)| name)
}

/// From one host to another.
fn between_two_hosts(network: &Dumbbell, seed: u64) -> Experiment {
    let mut config = network.config(seed);
    for flow in &mut config.flows {
        (flow.from, flow.to) = (NodeId(2), NodeId(3));
        flow.start_jitter = network.rtt;
    }
    config
}

/// Flows that start so long after each other.
fn staggered(spec: &str, mbit: u64, rtt_ms: u64, every_s: u64, seed: u64) -> Outcome {
    let mut network = Dumbbell::new(mbit, rtt_ms, 5.0 * every_s as f64);
    for _ in 0..5 {
        network = network.plane(name_of(spec));
    }
    let mut config = between_two_hosts(&network, seed);
    for (flow, place) in config.flows.iter_mut().zip(0..) {
        flow.start = Time::from_millis(place * every_s * 1_000);
    }
    observed(&config, &[spec])
}

/// How long after its start a flow had, over a quarter of a second, 90 % of its part of the link;
/// and what it had from a second after its start to the next flow's, as a multiple of its part of
/// what all had then.
fn arrival(outcome: &Outcome, place: usize, mbit: u64, every_s: u64) -> (f64, f64) {
    let start = (place as u64 * every_s) as f64;
    // Of what is on the wire, payload is that much.
    let fair = mbit as f64 / (place + 1) as f64 * 1448.0 / 1500.0;
    let had = series::throughput(&outcome.flows[place], 0.25);
    let had = series::between(&had, start + 0.2, start + every_s as f64 + 0.01);
    let arrived = had.iter().find(|p| p.1 > 0.9 * fair);
    let after = |flow| {
        let had = series::throughput(flow, 0.25);
        series::mean(&series::between(
            &had,
            start + 1.0,
            start + every_s as f64 + 0.01,
        ))
    };
    let all: f64 = outcome.flows[..=place].iter().map(after).sum();
    (
        arrived.map_or(f64::INFINITY, |p| p.0 - start),
        after(&outcome.flows[place]) * (place + 1) as f64 / all,
    )
}

/// The paper: "the aggregator instantaneously apportioning equal windows to each flow". Each new
/// flow has its part within a second and keeps it, to 10 %.
#[test]
fn a_new_flow_has_its_part_within_a_second() {
    for inner in ["reno", "cubic"] {
        for (mbit, rtt_ms) in [(48, 20), (24, 60), (96, 10)] {
            let spec = format!("{MANAGER}:algorithm={inner}");
            let runs = each_seed([1, 8, 30], |seed| staggered(&spec, mbit, rtt_ms, 10, seed));
            for outcome in runs {
                let used = outcome.edges[BOTTLENECK].utilisation;
                assert!(used > 0.92, "{inner}, {mbit} Mbit/s, {rtt_ms} ms: {used}");
                for place in 1..5 {
                    let (arrived, had) = arrival(&outcome, place, mbit, 10);
                    let context = format!("{inner}, {mbit} Mbit/s, {rtt_ms} ms, flow {place}");
                    assert!(arrived <= 1.0, "{context}: after {arrived} s");
                    assert!((0.9..1.1).contains(&had), "{context}: {had} of its part");
                }
            }
        }
    }
}

/// Figure 7, right: Reno's flows have to find theirs.
#[test]
fn reno_takes_seconds_to_find_it() {
    let runs = each_seed([1, 8, 30], |seed| staggered("reno", 48, 20, 10, seed));
    let late = runs.iter().flat_map(|outcome| {
        (1..5).filter(|place| {
            let (arrived, had) = arrival(outcome, *place, 48, 10);
            arrived > 1.0 || !(0.9..1.1).contains(&had)
        })
    });
    assert!(late.count() >= 9, "of 12");
}

/// Those that stay have what another leaves, and nothing is lost of the whole.
#[test]
fn what_a_flow_leaves_the_others_have_at_once() {
    let spec = format!("{MANAGER}:algorithm=cubic");
    for outcome in each_seed([2, 5], |seed| {
        let mut network = Dumbbell::new(48, 20, 20.0);
        for _ in 0..4 {
            network = network.plane(MANAGER);
        }
        let mut config = between_two_hosts(&network, seed);
        for flow in &mut config.flows[1..] {
            flow.stop = Some(Time::from_millis(10_000));
        }
        observed(&config, &[&spec])
    }) {
        let first = series::throughput(&outcome.flows[0], 0.5);
        let all = 48.0 * 1448.0 / 1500.0;
        let before = series::mean(&series::between(&first, 3.0, 10.0)) / all;
        let after = series::mean(&series::between(&first, 11.0, 20.1)) / all;
        assert!((0.22..0.28).contains(&before), "{before}");
        assert!(after > 0.9, "{after}");
    }
}

fn shares(spec: &str, flows: &[(Traffic, u32)], seed: u64) -> (Vec<f64>, f64) {
    let mut network = Dumbbell::new(48, 20, 20.0);
    for (traffic, _) in flows {
        network = network.flow(Controller::Plane(MANAGER.to_owned()), traffic.clone());
    }
    let mut config = between_two_hosts(&network, seed);
    for (flow, (_, tag)) in config.flows.iter_mut().zip(flows) {
        flow.tag = *tag;
    }
    config.measure.from = Time::from_millis(4_000);
    let outcome = observed(&config, &[spec]);
    let bytes = |flow: &fairwater_sim::FlowOutcome| flow.delivered_bytes as f64;
    let all: f64 = outcome.flows.iter().map(bytes).sum();
    let shares = outcome.flows.iter().map(|flow| bytes(flow) / all);
    (shares.collect(), outcome.edges[BOTTLENECK].utilisation)
}

#[test]
fn tags_weigh() {
    let spec = format!("{MANAGER}:share=weighted,algorithm=cubic");
    let flows = [5, 3, 1, 0].map(|tag| (Traffic::Bulk, tag));
    for (had, utilisation) in each_seed([3, 4], |seed| shares(&spec, &flows, seed)) {
        for (had, part) in had.iter().zip([0.5, 0.3, 0.1, 0.1]) {
            assert!((had - part).abs() < 0.05, "{had:?} for {part}");
        }
        assert!(utilisation > 0.9, "{utilisation}");
    }
}

/// A flow that has less to send than its part, or nothing for a while, costs the others nothing.
#[test]
fn what_is_not_used_is_not_kept() {
    let slow = Traffic::Limited { rate: 250_000 };
    let pausing = Traffic::OnOff {
        on: Duration::from_millis(200),
        off: Duration::from_secs(4),
    };
    let cases = [
        ("demand", slow, 0.042),
        ("equal", pausing.clone(), 0.02),
        ("demand", pausing, 0.02),
    ];
    for (share, little, part) in cases {
        let spec = format!("{MANAGER}:share={share},algorithm=cubic");
        let flows = [(Traffic::Bulk, 0), (Traffic::Bulk, 0), (little, 0)];
        for (had, utilisation) in each_seed([3, 4], |seed| shares(&spec, &flows, seed)) {
            let context = format!("{share}: {had:?}, {utilisation}");
            assert!((had[0] - had[1]).abs() < 0.05, "{context}");
            assert!((had[2] - part).abs() < 0.02, "{context}");
            assert!(utilisation > 0.9, "{context}");
        }
    }
}

/// One flow under it does as under the inner algorithm, nearly.
#[test]
fn alone_it_does_as_the_inner_algorithm() {
    for (inner, least) in [("reno", 0.9), ("cubic", 0.93), ("bbr", 0.9)] {
        for (mbit, rtt_ms) in [(12, 40), (96, 10)] {
            let run = |spec: &str| {
                let network = Dumbbell::new(mbit, rtt_ms, 15.0).plane(name_of(spec));
                let outcome = observed(&network.warm_config(1, 0.2), &[spec]);
                outcome.edges[BOTTLENECK].utilisation
            };
            let managed = run(&format!("{MANAGER}:algorithm={inner}"));
            let plain = run(inner);
            let context = format!("{inner}, {mbit} Mbit/s, {rtt_ms} ms: {managed}, {plain}");
            assert!(managed > least && managed > plain - 0.06, "{context}");
        }
    }
}

#[test]
fn the_figure_of_five_flows() {
    let panel = |title: &str, spec: &str| {
        let outcome = staggered(spec, 48, 20, 10, 1);
        // Of five flows, as many as there are colours.
        let lines = outcome.flows.iter().take(4).zip(1..);
        lines.fold(
            Panel::new(title, "Mbit/s").up_to(50.0),
            |panel, (flow, n)| {
                let had = series::throughput(flow, 0.25);
                panel.line(&format!("flow {n}"), had)
            },
        )
    };
    Figure::new(
        MANAGER,
        "Flows that start 10 s apart: 48 Mbit/s, 20 ms, a buffer of a BDP",
    )
    .panel(panel(
        "congestion_manager:algorithm=reno",
        &format!("{MANAGER}:algorithm=reno"),
    ))
    .panel(panel("reno", "reno"))
    .check();
}
