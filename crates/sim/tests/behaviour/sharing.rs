//! Flows fill a bottleneck and share it.

use fairwater_sim::{Controller, Native, Traffic};

use crate::support::{BOTTLENECK, Dumbbell, jain, outcome};

fn controllers() -> [Controller; 4] {
    [
        Controller::Native(Native::Reno),
        Controller::Native(Native::Cubic),
        Controller::Plane("reno".to_owned()),
        Controller::Plane("cubic".to_owned()),
    ]
}

#[test]
fn one_bulk_flow_fills_a_link_with_a_buffer_of_one_bdp() {
    for controller in controllers() {
        for (mbit, rtt_ms) in [(12, 20), (48, 40), (96, 10)] {
            let network = Dumbbell::new(mbit, rtt_ms, 30.0).flow(controller.clone(), Traffic::Bulk);
            let outcome = outcome(&network.warm_config(1, 0.2));
            let utilisation = outcome.edges[BOTTLENECK].utilisation;
            let goodput = outcome.flows[0].delivered_bytes as f64 * 8.0 / 24.0 / 1e6;
            assert!(
                (0.95..=1.0001).contains(&utilisation),
                "{controller:?}, {mbit} Mbit/s, {rtt_ms} ms: {utilisation}"
            );
            assert!(goodput <= mbit as f64 * 1448.0 / 1500.0 * 1.01);
            // A Reno or CUBIC flow finds the buffer's end by losing packets, and loses few.
            let flow = &outcome.flows[0];
            assert!(outcome.edges[BOTTLENECK].dropped > 0, "{controller:?}");
            assert!(flow.retransmissions * 20 < flow.segments, "{flow:?}");
        }
    }
}

#[test]
fn two_equal_flows_share() {
    for controller in controllers() {
        let mut network = Dumbbell::new(48, 20, 60.0);
        for _ in 0..2 {
            network = network.flow(controller.clone(), Traffic::Bulk);
        }
        let mut config = network.warm_config(1, 0.2);
        // Two flows that begin together would stay as one.
        config.flows[1].start = fairwater_net::Time::from_millis(777);
        let outcome = outcome(&config);
        assert!(jain(&outcome) > 0.9, "{controller:?}: {}", jain(&outcome));
    }
}

#[test]
fn a_constant_window_has_the_rate_that_the_round_trip_gives_it() {
    // 20 segments a round trip of 20 ms, on a link that could carry ten times that.
    let network = Dumbbell::new(120, 20, 10.0).native(Native::Constant(20 * 1448));
    let outcome = outcome(&network.warm_config(1, 0.1));
    let expected = 20.0 * 1448.0 / 0.020 * 9.0;
    let delivered = outcome.flows[0].delivered_bytes as f64;
    assert!(
        (0.97..=1.0).contains(&(delivered / expected)),
        "{delivered} of {expected}"
    );
    assert_eq!(outcome.flows[0].retransmissions, 0);
    assert!(outcome.flows[0].rtt_us.unwrap().min >= 20_000.0);
}
