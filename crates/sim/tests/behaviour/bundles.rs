//! What edges measure by bundle.

use std::time::Duration;

use fairwater_net::{DrrConfig, Limit, QueueConfig, Time};
use fairwater_sim::{Controller, EdgeId, Experiment, Native, Simulation, Traffic};

use crate::support::{BOTTLENECK, Dumbbell, outcome, plane};

/// Two bundles and a flow of none, at a bottleneck that drops.
fn config(fair: bool) -> Experiment {
    let udp = Traffic::ConstantRate {
        // No packet at the very end of an interval, which a sample and a step take differently.
        rate: 300_007,
        packet_bytes: 1000,
    };
    let mut network = Dumbbell::new(20, 30, 10.0)
        .native(Native::Cubic)
        .native(Native::Cubic)
        .native(Native::Reno)
        .flow(Controller::Native(Native::Reno), udp);
    for (flow, bundle) in [(0, "east"), (2, "west"), (3, "east")] {
        network.flows[flow].bundle = Some(bundle.to_owned());
    }
    let mut config = network.warm_config(1, 0.2);
    config.measure.interval = Some(Duration::from_millis(100));
    if fair {
        config.edges[BOTTLENECK].link.queue = QueueConfig::Drr(DrrConfig {
            limit: Limit::Packets(60),
            ..DrrConfig::default()
        });
    }
    config
}

#[test]
fn bundles_add_up_to_what_the_edge_carries() {
    for fair in [false, true] {
        let mut config = config(fair);
        // All packets belong to some bundle.
        config.flows[1].bundle = Some("rest".to_owned());
        let outcome = outcome(&config);
        let edge = &outcome.edges[BOTTLENECK];
        let names: Vec<_> = edge.bundles.iter().map(|b| b.bundle.as_str()).collect();
        assert_eq!(names, ["east", "rest", "west"]);
        let sum =
            |of: fn(&fairwater_sim::BundleOutcome) -> u64| edge.bundles.iter().map(of).sum::<u64>();
        assert!(edge.dropped > 0);
        assert_eq!(sum(|b| b.bytes), edge.bytes);
        assert_eq!(sum(|b| b.packets), edge.packets);
        assert_eq!(sum(|b| b.dropped), edge.dropped);
        let packets = edge.packets as f64;
        let mean = edge.bundles.iter().map(|bundle| {
            let queueing = bundle.queueing_us.unwrap();
            queueing.mean * bundle.packets as f64 / packets
        });
        let mean: f64 = mean.sum();
        assert!((mean / edge.queueing_us.unwrap().mean - 1.0).abs() < 1e-9);
        for (index, sample) in edge.samples.iter().enumerate() {
            let of = |of: fn(&fairwater_sim::BundleSample) -> u64| {
                edge.bundles
                    .iter()
                    .map(|b| of(&b.samples[index]))
                    .sum::<u64>()
            };
            assert_eq!(of(|s| s.bytes), sample.bytes);
            assert_eq!(of(|s| s.queued_bytes), sample.queued_bytes, "{index}");
            assert_eq!(of(|s| s.dropped), sample.dropped);
        }
        // What arrived left, waits, or was dropped; 1500 bytes a packet at most.
        for bundle in &edge.bundles {
            let sums = bundle.samples.iter().fold((0, 0, 0), |sums, sample| {
                (
                    sums.0 + sample.arrived_bytes,
                    sums.1 + sample.bytes,
                    sums.2 + sample.dropped,
                )
            });
            let waits = bundle.samples.last().unwrap().queued_bytes;
            let gone = sums.0 - sums.1 - waits;
            assert!(gone <= 1500 * (sums.2 + 1), "{gone} in {} packets", sums.2);
        }
    }
}

#[test]
fn a_flow_without_a_bundle_is_not_counted() {
    let outcome = outcome(&config(true));
    let edge = &outcome.edges[BOTTLENECK];
    let bytes: u64 = edge.bundles.iter().map(|bundle| bundle.bytes).sum();
    assert_eq!(edge.bundles.len(), 2);
    assert!(bytes < edge.bytes * 9 / 10, "{bytes} of {}", edge.bytes);
    // Acknowledgements go back over another edge; its bundles are there, too.
    let back = outcome.edges.iter().filter(|edge| !edge.bundles.is_empty());
    assert!(back.count() > 2);
}

#[test]
fn snapshots_agree_with_samples_and_change_nothing() {
    let config = config(false);
    let edge = EdgeId(BOTTLENECK as u32);
    let expected = outcome(&config);
    let mut simulation = Simulation::new(&config, plane(&[]), ()).unwrap();
    assert_eq!(simulation.bundle(edge, "east"), None);
    let mut arrived = 0;
    for (index, sample) in expected.edges[BOTTLENECK].bundles[0]
        .samples
        .iter()
        .enumerate()
    {
        assert_eq!(sample.at, Time::from_millis(100 * (index as u64 + 1)));
        simulation.step_until(sample.at).unwrap();
        let Some(snapshot) = simulation.bundle(edge, "east") else {
            continue;
        };
        assert_eq!(snapshot.arrived_bytes - arrived, sample.arrived_bytes);
        assert_eq!(snapshot.queued_bytes, sample.queued_bytes);
        arrived = snapshot.arrived_bytes;
    }
    assert_eq!(simulation.bundle(edge, "north"), None);
    assert_eq!(simulation.finish().unwrap(), expected);
}
