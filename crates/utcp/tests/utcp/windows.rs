//! Receive windows: closed, probed, opened in large steps.

use std::time::Duration;

use fairwater_tcp::TcpConfig;
use fairwater_utcp::{Config, State};

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
