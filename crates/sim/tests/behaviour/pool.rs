//! Requests on a pool of connections.

use std::sync::Arc;
use std::time::Duration;

use fairwater_net::Time;
use fairwater_sim::{Controller, FlowOutcome, Native, SizeCdf, Traffic};

use crate::support::{BOTTLENECK, Dumbbell, outcome, rate};

/// Requests of one size at so many bytes/s.
fn pool(bytes: f64, load: f64, connections: u32) -> Traffic {
    Traffic::Pool {
        sizes: Arc::new(SizeCdf {
            points: vec![(bytes, 1.0)],
        }),
        load,
        connections,
    }
}

fn run(network: &Dumbbell, seed: u64) -> FlowOutcome {
    outcome(&network.config(seed)).flows.swap_remove(0)
}

fn network(seconds: f64, traffic: Traffic) -> Dumbbell {
    let native = Controller::Native(Native::Cubic);
    Dumbbell::new(96, 50, seconds).flow(native, traffic)
}

#[test]
fn a_request_alone_takes_the_round_trip_and_its_bytes_at_the_rate() {
    // One request in 2 s on average, of 10 packets.
    let flow = run(&network(60.0, pool(14_480.0, 7_240.0, 200)), 1);
    assert!(flow.requests.len() > 15, "{}", flow.requests.len());
    for request in &flow.requests {
        // Bundler's generator: size / rate + RTT.
        let ideal = Duration::from_millis(50) + rate(96).time_for(14_480);
        assert!(ideal - request.ideal <= Duration::from_nanos(1));
        // Headers are the only difference: 52 of 1448 bytes. The handshake is done long before.
        let most = ideal + rate(96).time_for(10 * 52) + Duration::from_micros(1);
        assert!(
            request.took >= request.ideal && request.took <= most,
            "{request:?}"
        );
    }
}

/// Small requests and a few large ones: half of the link's rate.
fn mixed(connections: u32) -> Traffic {
    Traffic::Pool {
        sizes: Arc::new(SizeCdf {
            points: vec![(1_000.0, 0.000_001), (2_000.0, 0.95), (3_000_000.0, 1.0)],
        }),
        load: 6e6,
        connections,
    }
}

#[test]
fn requests_wait_behind_those_of_their_connection() {
    // In one FIFO, requests are done in the order in which they were asked for, the small behind
    // the large; on many connections small ones overtake.
    for (connections, in_order) in [(1, true), (200, false)] {
        let flow = run(&network(20.0, mixed(connections)), 3);
        assert!(flow.requests.len() > 500);
        let starts = flow.requests.iter().map(|request| request.start);
        assert_eq!(starts.is_sorted(), in_order, "{connections} connections");
        let slow = flow.requests.iter().filter(|request| {
            request.bytes <= 2_000 && request.took > request.ideal + Duration::from_millis(100)
        });
        let share = slow.count() as f64 / flow.requests.len() as f64;
        assert_eq!(
            share > 0.3,
            in_order,
            "{share} with {connections} connections"
        );
    }
}

#[test]
fn the_load_is_what_was_asked_for_and_connections_share_it() {
    let sizes = SizeCdf {
        points: vec![(1.0, 0.000_001), (10_000.0, 0.9), (100_000.0, 1.0)],
    };
    let mean = sizes.mean();
    let traffic = Traffic::Pool {
        sizes: Arc::new(sizes),
        load: 3e6,
        connections: 50,
    };
    let network = network(60.0, traffic);
    let outcome = outcome(&network.config(5));
    let flow = &outcome.flows[0];
    let asked = (flow.requests.len() as u64 + flow.unfinished) as f64;
    let expected = 3e6 / mean * 60.0;
    // Poisson: within four standard deviations.
    assert!(
        (asked - expected).abs() < 4.0 * expected.sqrt(),
        "{asked} {expected}"
    );
    assert!(flow.unfinished < 100);
    assert_eq!(outcome.edges[BOTTLENECK].dropped, 0);
    // The first point stands for hardly anything: sizes begin at 1 byte, not at 10,000.
    let small = flow.requests.iter().filter(|r| r.bytes < 5_000).count() as f64;
    assert!((small / asked - 0.45).abs() < 0.03, "{small} of {asked}");
}

#[test]
fn a_pool_that_stops_asks_for_nothing_more_and_ends_what_it_has() {
    let mut network = network(20.0, pool(100_000.0, 5e6, 20));
    network.flows[0].stop = Some(Time::from_millis(5_000));
    let flow = run(&network, 2);
    assert_eq!(flow.unfinished, 0);
    assert!(flow.requests.len() > 150);
    // Asked for before the stop, whatever their way there took.
    assert!(
        flow.requests
            .iter()
            .all(|r| r.start < Time::from_millis(5_000))
    );
    assert_eq!(flow, run(&network, 2));
}
