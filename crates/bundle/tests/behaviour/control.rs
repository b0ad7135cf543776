//! The queue moves to the sendbox, and follows the path's capacity.

use std::sync::Arc;
use std::time::Duration;

use fairwater_bundle::Mode;
use fairwater_net::{Capacity, Rate, RateSchedule, Time};

use crate::network::{Network, Source, link, mbit, ms, send_config};
use crate::plane::{Plane, SHORT_QUEUE, constant_rate, constant_window};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Figure 2 of the paper in small: hosts that fill a buffer fill the network's without a sendbox, and the sendbox's
/// with one.
#[test]
fn the_queue_moves_to_the_sendbox() {
    let source = Source::Window(mbit(96) * 50 / 1_000 * 2);
    let mut config = send_config();
    config.observe = true;
    let mut without = Network::with(SHORT_QUEUE, &[link(96, 50, 3)], source, config);
    without.run(seconds(4));
    without.take_queueing();
    without.run(seconds(6));
    let queueing = without.take_queueing();
    assert!(queueing > ms(40), "{queueing:?}");

    // The program takes the least RTT that it has seen for that of the empty path, so let it see it.
    let gentle = Source::Window(mbit(96) * 50 / 1_000 / 4);
    let mut with = Network::new(SHORT_QUEUE, &link(96, 50, 3), gentle);
    with.run(seconds(2));
    with.source = source;
    with.run(seconds(4));
    with.take_queueing();
    let before = with.delivered_bytes;
    with.run(seconds(6));
    let network_queue = with.take_queueing();
    let rate = (with.delivered_bytes - before) as f64 * 8e-6 / 6.0;
    println!("without {queueing:?}, with {network_queue:?} at {rate:.1} Mbit/s");
    assert!(network_queue < ms(4), "{network_queue:?}");
    assert!(rate > 0.97 * 96.0, "{rate}");
    assert!(with.status().queued_bytes > 300_000, "{:?}", with.status());
}

/// 96 to 24 Mbit/s at once: the network's queue is short again within two seconds.
#[test]
fn a_fall_of_the_capacity_is_followed() {
    let mut path = link(96, 50, 3);
    let rate = |mbits: u64| Rate::from_bps(mbits * 1_000_000).unwrap();
    let steps = vec![(Time::ZERO, rate(96)), (Time::from_millis(4_000), rate(24))];
    path.capacity = Capacity::Schedule(Arc::new(RateSchedule::new(steps).unwrap()));
    let mut network = Network::new(SHORT_QUEUE, &path, Source::Backlogged);
    network.run(seconds(6));
    network.take_queueing();
    network.run(seconds(3));
    let queueing = network.take_queueing();
    println!("{queueing:?}");
    assert!(queueing < ms(10), "{queueing:?}");
    assert_eq!(
        network.status().mode,
        Mode::Control,
        "{:?}",
        network.changes
    );
}

/// A window alone limits what is in flight, to an epoch.
#[test]
fn a_window_holds_what_is_in_flight() {
    let window = 120_000;
    let mut network = Network::new(
        &constant_window(window),
        &link(48, 40, 2),
        Source::Backlogged,
    );
    network.run(seconds(3));
    let end = network.now + seconds(3);
    let mut most = 0;
    network.run_each(end, &mut |network| {
        most = most.max(network.status().in_flight_bytes);
    });
    let epoch = network.status().epoch.packets() * 1_500;
    assert!(most <= window + epoch + 1_500, "{most} {epoch}");
    let rate = network.status().estimates.receive_rate.unwrap();
    let expected = window as f64 / 0.040;
    assert!((rate / expected - 1.0).abs() < 0.1, "{rate} {expected}");
}

/// The paced rate is the program's, to a packet, and never more than 1.25 of what was received.
#[test]
fn rates_are_exact_and_bounded() {
    let program = constant_rate(mbit(30));
    let mut network = Network::new(&program, &link(96, 40, 2), Source::Paced(mbit(29)));
    network.run(seconds(3));
    network.source = Source::Backlogged;
    network.run(seconds(1));
    let before = network.delivered_bytes;
    network.run(seconds(4));
    let rate = (network.delivered_bytes - before) as f64 / 4.0 / mbit(30) as f64;
    assert!((rate - 1.0).abs() < 0.002, "{rate}");

    // A program that asks for 10 Gbit/s of a path of 48 Mbit/s.
    let program = constant_rate(mbit(10_000));
    let mut network = Network::new(&program, &link(48, 40, 2), Source::Backlogged);
    let end = network.now + seconds(8);
    network.run_each(end, &mut |network| {
        let status = network.status();
        if let Some(rate) = status.rate {
            assert!(rate <= mbit(48) * 13 / 10, "{rate}");
        }
    });
}

/// Copa, as endpoints run it, at the announced rate of a path that falls from 96 to 24 Mbit/s at once. A pure rate
/// limiter freezes it for seconds.
#[test]
fn copa_follows_the_capacity() {
    for rtt in [20, 50] {
        let mut path = link(96, rtt, 3);
        let rate = |mbits: u64| Rate::from_bps(mbits * 1_000_000).unwrap();
        let steps = vec![(Time::ZERO, rate(96)), (Time::from_millis(6_000), rate(24))];
        path.capacity = Capacity::Schedule(Arc::new(RateSchedule::new(steps).unwrap()));
        let gentle = Source::Window(mbit(96) * rtt / 1_000 / 4);
        let mut network = Network::under(Plane::copa(), &[path], gentle, send_config());
        network.run(seconds(1));
        network.source = Source::Backlogged;
        network.run(seconds(3));
        network.take_queueing();
        let before = network.delivered_bytes;
        network.run(seconds(2));
        let queue_before = network.take_queueing();
        let high = (network.delivered_bytes - before) as f64 * 8e-6 / 2.0;
        network.run(seconds(2));
        network.take_queueing();
        let before = network.delivered_bytes;
        network.run(seconds(3));
        let queue_after = network.take_queueing();
        let low = (network.delivered_bytes - before) as f64 * 8e-6 / 3.0;
        println!(
            "RTT {rtt} ms: {high:.1} Mbit/s with {queue_before:?} queued, then {low:.1} with {queue_after:?}"
        );
        assert_eq!(
            network.status().mode,
            Mode::Control,
            "{:?}",
            network.changes
        );
        assert!(
            queue_before < ms(8) && high > 90.0,
            "{queue_before:?} {high}"
        );
        // Without the hold, 21 ms at an RTT of 50 ms.
        assert!(queue_after < ms(10) && low > 23.0, "{queue_after:?} {low}");
    }
}
