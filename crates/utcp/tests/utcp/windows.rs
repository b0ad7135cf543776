//! Receive windows: closed, probed, opened in large steps.

use std::time::Duration;

use fairwater_tcp::TcpConfig;
use fairwater_utcp::{Config, State};
use fairwater_wire::{Layout, TcpFlags};

use super::network::{Network, Stream, plain_link};

fn with_window(receive_window: u64) -> Config {
    let tcp = TcpConfig {
        receive_window,
        ..Config::default().tcp
    };
    Config {
        tcp,
        ..Config::default()
    }
}

#[test]
fn a_reader_that_pauses_closes_the_window_and_is_probed() {
    let link = plain_link();
    let mut network = Network::new(Config::default(), with_window(100_000), [&link, &link]);
    let (near, far) = network.open();
    let mut up = Stream::new(1_000_000, 5);
    up.write(&mut network.client, near);
    network.run(Duration::from_secs(1000));
    let readable = network.server.endpoint.connection(far).unwrap().readable();
    assert!((98_000..=100_000).contains(&readable), "{readable}");
    assert_eq!(network.last(false).tcp().window(), 0);
    // Probes back off to 2 minutes, and none of them ends the connection.
    let probes = network
        .seen
        .iter()
        .rev()
        .take_while(|seen| seen.tcp().payload().is_empty());
    let probes = probes.filter(|seen| seen.from_client).count();
    assert!((12..40).contains(&probes), "{probes}");
    assert_eq!(
        network.client.endpoint.connection(near).unwrap().state(),
        State::Established
    );
    // A reader that goes on is sent the rest at once: the window's update does not wait for a probe.
    let resumed = network.now;
    while !up.is_done() {
        up.write(&mut network.client, near);
        up.read(&mut network.server, far);
        assert!(network.step());
    }
    assert!(network.now.since(resumed) < Duration::from_secs(2));
}

#[test]
fn a_lost_window_update_is_made_up_for_by_a_probe() {
    let link = plain_link();
    let mut network = Network::new(Config::default(), with_window(50_000), [&link, &link]);
    let (near, far) = network.open();
    let mut up = Stream::new(200_000, 5);
    up.write(&mut network.client, near);
    network.run(Duration::from_secs(1));
    let lossy = fairwater_net::LinkConfig {
        loss: fairwater_net::LossConfig::Random(fairwater_net::Probability::ALWAYS),
        ..plain_link()
    };
    network.links[1] = fairwater_net::Link::new(&lossy);
    up.read(&mut network.server, far);
    network.send_all();
    network.links[1] = fairwater_net::Link::new(&plain_link());
    while !up.is_done() {
        up.read(&mut network.server, far);
        assert!(network.step());
    }
}

#[test]
fn a_reader_of_single_bytes_makes_no_silly_windows() {
    let link = plain_link();
    let mut network = Network::new(Config::default(), with_window(20_000), [&link, &link]);
    let (near, far) = network.open();
    let mut up = Stream::new(60_000, 5);
    up.chunk = 100;
    while !up.is_done() {
        up.write(&mut network.client, near);
        up.read(&mut network.server, far);
        network.run(Duration::from_micros(500));
    }
    let data = network.seen.iter().filter(|seen| seen.from_client);
    let sizes: Vec<_> = data
        .map(|seen| seen.tcp().payload().len())
        .filter(|&size| size > 0)
        .collect();
    let small = sizes.iter().filter(|&&size| size < 1448).count();
    assert!(small <= 3, "{sizes:?}");
    let updates = network.seen.iter().filter(|seen| !seen.from_client).count();
    assert!(
        updates < 2 * sizes.len() + 20,
        "{updates} ACKs of {} segments",
        sizes.len()
    );
}

/// Nobody is left who would end a connection whose peer takes nothing more and says so for ever.
#[test]
fn a_window_closed_for_ever_does_not_hold_a_released_connection() {
    let link = plain_link();
    let mut network = Network::new(Config::default(), with_window(50_000), [&link, &link]);
    let (near, _) = network.open();
    let mut up = Stream::new(1_000_000, 5);
    up.write(&mut network.client, near);
    network.run(Duration::from_secs(10));
    network.client.release(near);
    network.run(Duration::from_secs(20));
    assert!(network.client.endpoint.connection(near).is_some());
    network.run(Duration::from_secs(50));
    assert_eq!(network.client.endpoint.connections().count(), 0);
    assert!(network.client.datapath.flows().next().is_none());
    assert!(
        network.last(true).has(TcpFlags::RST),
        "the peer hears of it"
    );
}

/// A slow reader is none that has gone: what was written before the release arrives.
#[test]
fn a_slow_reader_gets_all_that_was_written_before_the_release() {
    let link = plain_link();
    let mut network = Network::new(Config::default(), with_window(20_000), [&link, &link]);
    let (near, far) = network.open();
    let mut up = Stream::new(100_000, 5);
    up.chunk = 10_000;
    up.write(&mut network.client, near);
    network.client.release(near);
    while !up.is_done() {
        network.run(Duration::from_secs(25));
        up.read(&mut network.server, far);
    }
}

/// RFC 9293 §3.8.6: a receiver should not take its window back, and a sender must cope with one that does.
#[test]
fn a_window_that_is_taken_back_again_and_again_stops_nothing() {
    let mut network = Network::plain();
    let (near, far) = network.open();
    let mut up = Stream::new(400_000, 5);
    let (mut looked, mut taken_back) = (0, 0);
    while !up.is_done() {
        up.write(&mut network.client, near);
        up.read(&mut network.server, far);
        let new: Vec<_> = network.seen[looked..].to_vec();
        looked += new.len();
        for seen in new.iter().filter(|seen| !seen.from_client) {
            if seen.has(TcpFlags::SYN) {
                continue;
            }
            // The same acknowledgement, a moment before, with a window of next to nothing.
            let window = (taken_back % 3) as u16;
            network.inject(true, &with_field(&seen.bytes, 34, window));
            taken_back += 1;
        }
        assert!(network.step());
    }
    assert!(taken_back > 50, "{taken_back}");
    assert!(network.now.as_nanos() < 20_000_000_000, "{:?}", network.now);
}

/// A segment whose 16 bits at an offset are others, with the checksum that belongs to them.
fn with_field(bytes: &[u8], at: usize, value: u16) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
    bytes[36..38].copy_from_slice(&[0, 0]);
    let layout = Layout::of_ip(&bytes).unwrap();
    let segment = &bytes[layout.transport_offset()..layout.end()];
    let sum = layout
        .packet(&bytes)
        .pseudo_header()
        .bytes(segment)
        .checksum();
    bytes[36..38].copy_from_slice(&sum.to_be_bytes());
    bytes
}
