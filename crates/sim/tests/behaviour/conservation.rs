//! Every packet offered to a link is delivered, dropped, lost, queued or in flight, at all times.

use std::time::Duration;

use fairwater_net::{
    Aggregation, Capacity, Jitter, Limit, LossConfig, Probability, QueueConfig, Reordering, Time,
};
use fairwater_sim::{EdgeId, Experiment, Native, Simulation};
use proptest::prelude::*;

use crate::support::{BOTTLENECK, Dumbbell, outcome, plane, rate};

/// Two flows over one bottleneck with all that keeps packets on their way.
fn config() -> impl Strategy<Value = Experiment> {
    let jitter = prop::option::of((0..900u64, any::<bool>()));
    let reordering = prop::option::of((0..50u32, 0..300u64));
    let aggregates = prop::option::of((1..40u32, 1..5_000u64, 0..2_000u64));
    let measure = (0..1_500u64, 0..4u32);
    (jitter, reordering, aggregates, measure, any::<u64>()).prop_map(
        |(jitter, reordering, aggregates, (from, percent), seed)| {
            let mut network = Dumbbell::new(8, 40, 2.0)
                .native(Native::Cubic)
                .native(Native::Reno);
            network.flows[1].start = Time::from_millis(300);
            let mut config = network.config(seed);
            config.measure.from = Time::from_millis(from);
            let link = &mut config.edges[BOTTLENECK].link;
            link.jitter = jitter.map(|(ms, reorders)| Jitter {
                max: Duration::from_millis(ms),
                reorders,
            });
            link.reordering = reordering.map(|(percent, ms)| Reordering {
                probability: Probability::percent(percent),
                extra: Duration::from_millis(ms),
            });
            link.loss = LossConfig::Random(Probability::percent(percent));
            link.queue = QueueConfig::DropTail(Limit::Packets(30));
            if let Some((frames, airtime_us, gap_us)) = aggregates {
                link.capacity = Capacity::Aggregates(Aggregation {
                    rate: rate(8),
                    frames,
                    airtime: Duration::from_micros(airtime_us),
                    gap: Duration::from_micros(gap_us),
                });
            }
            config
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn summaries_account_for_every_packet(config in config()) {
        let outcome = outcome(&config);
        for edge in &outcome.edges {
            prop_assert_eq!(
                edge.offered + edge.queued_before,
                edge.packets + edge.dropped + edge.lost + edge.queued_after,
                "{:?}", edge
            );
        }
    }

    #[test]
    fn every_packet_is_somewhere_at_any_time(config in config(), stops in prop::collection::vec(0..2_000_000_000u64, 1..20)) {
        let mut simulation = Simulation::new(&config, plane(&[]), ()).unwrap();
        let mut stops = stops;
        stops.sort_unstable();
        for stop in stops {
            simulation.step_until(Time::from_nanos(stop)).unwrap();
            for index in 0..config.edges.len() {
                let edge = simulation.edge(EdgeId(u32::try_from(index).unwrap())).unwrap();
                prop_assert_eq!(
                    edge.arrived,
                    edge.delivered + edge.dropped + edge.lost + edge.queued_packets + edge.in_flight_packets,
                    "{:?}", edge
                );
            }
        }
    }
}

/// A packet counts when its last bit leaves the bottleneck, however much later it comes out.
#[test]
fn jitter_takes_nothing_from_the_utilisation() {
    let mut network = Dumbbell::new(12, 20, 10.0).native(Native::Constant(12_000_000));
    network.limit = Limit::Unlimited;
    network.flows[0].tcp.receive_window = 1 << 29;
    network.flows[0].tcp.min_rto = Duration::from_secs(60);
    // The window is reached when the second round trip's first ACK is back.
    let mut config = network.warm_config(1, 0.5);
    config.edges[BOTTLENECK].link.jitter = Some(Jitter {
        max: Duration::from_secs(1),
        reorders: false,
    });
    let edge = &outcome(&config).edges[BOTTLENECK];
    assert!(edge.utilisation > 0.99, "{}", edge.utilisation);
}

#[test]
fn a_flow_without_an_rtt_sample_has_no_rtt() {
    let mut network = Dumbbell::new(12, 20, 2.0)
        .native(Native::Reno)
        .native(Native::Reno);
    network.flows[1].start = Time::from_millis(1_999);
    let outcome = outcome(&network.config(1));
    assert!(
        outcome.flows[0]
            .rtt_us
            .is_some_and(|rtt| rtt.min >= 20_000.0)
    );
    assert_eq!(outcome.flows[1].rtt_us, None);
    let mut config = network.config(1);
    config.flows.clear();
    let idle = crate::support::outcome(&config);
    assert_eq!(idle.edges[BOTTLENECK].queueing_us, None);
}
