//! How connections begin.

use std::time::Duration;

use fairwater_net::{LinkConfig, LossConfig, Probability, Time};
use fairwater_tcp::TcpConfig;
use fairwater_utcp::{CloseReason, Config, ConnectError, State};
use fairwater_wire::{Packet, TcpFlags};

use super::network::{Network, client, exchange, plain_link, server};

#[test]
fn a_lost_syn_and_a_lost_syn_ack_are_sent_again_after_one_second_and_then_twice_as_long() {
    let lossy = LinkConfig {
        loss: LossConfig::Random(Probability::ALWAYS),
        ..plain_link()
    };
    let mut network = Network::new(Config::default(), Config::default(), [&lossy, &lossy]);
    let begin = network.now;
    let id = network.connect();
    network.run(Duration::from_secs(200));
    let sent: Vec<_> = network
        .seen
        .iter()
        .map(|seen| seen.at.since(begin).as_secs())
        .collect();
    assert_eq!(sent, [0, 1, 3, 7, 15, 31, 63]);
    let connection = network.client.endpoint.connection(id).unwrap();
    assert_eq!(connection.close_reason(), Some(CloseReason::TimedOut));

    let mut network = Network::new(
        Config::default(),
        Config::default(),
        [&plain_link(), &lossy],
    );
    network.connect();
    network.run(Duration::from_secs(2));
    let answers = network.seen.iter().filter(|seen| !seen.from_client);
    assert!(
        answers
            .clone()
            .all(|seen| seen.has(TcpFlags::SYN | TcpFlags::ACK))
    );
    assert!(answers.count() >= 2);
}

#[test]
fn the_answer_agrees_to_no_more_than_was_offered() {
    for (sack, timestamps) in [(false, true), (true, false), (false, false)] {
        let tcp = TcpConfig {
            sack,
            timestamps,
            ..Config::default().tcp
        };
        let near = Config {
            tcp,
            ..Config::default()
        };
        let mut network = Network::new(near, Config::default(), [&plain_link(), &plain_link()]);
        exchange(&mut network, 50_000, 50_000);
        for seen in &network.seen {
            let options = seen.tcp().option_summary().unwrap();
            assert_eq!(options.timestamps.is_some(), timestamps);
            assert!(sack || !options.sack_permitted);
        }
        let largest = network
            .seen
            .iter()
            .map(|seen| seen.tcp().payload().len())
            .max();
        assert_eq!(largest, Some(if timestamps { 1448 } else { 1460 }));
    }
}

#[test]
fn both_ends_may_begin_at_the_same_time() {
    let mut network = Network::plain();
    network.server.endpoint.stop_listening(server());
    let now = network.now;
    let near = network.connect();
    let far = network
        .server
        .endpoint
        .connect(now, server(), client(), "cubic")
        .unwrap();
    network.client.endpoint.write(near, b"ping").unwrap();
    network.server.endpoint.write(far, b"pong").unwrap();
    network.run(Duration::from_secs(1));
    let mut bytes = [0; 8];
    assert_eq!(network.client.endpoint.read(near, &mut bytes), Ok(4));
    assert_eq!(&bytes[..4], b"pong");
    assert_eq!(network.server.endpoint.read(far, &mut bytes), Ok(4));
    assert_eq!(&bytes[..4], b"ping");
    let state = network.client.endpoint.connection(near).unwrap().state();
    assert_eq!(state, State::Established);
}

#[test]
fn a_port_that_nobody_listens_at_refuses() {
    let mut network = Network::plain();
    network.server.endpoint.stop_listening(server());
    let id = network.connect();
    network.run(Duration::from_millis(100));
    let connection = network.client.endpoint.connection(id).unwrap();
    assert_eq!(connection.close_reason(), Some(CloseReason::Refused));
    assert_eq!(network.server.endpoint.statistics().stray, 1);
}

#[test]
fn a_flood_of_syns_is_bounded_and_leaves_nothing() {
    let mut network = Network::plain();
    let mut bytes = [0; 1500];
    for port in 1..3000_u16 {
        let mut flooder = super::network::Host::new(Config::default(), 7);
        let from = (client().ip(), port).into();
        flooder
            .endpoint
            .connect(Time::ZERO, from, server(), "")
            .unwrap();
        let length = flooder
            .endpoint
            .poll_transmit(Time::ZERO, &mut bytes)
            .unwrap();
        network.inject(false, &bytes[..length]);
    }
    let statistics = network.server.endpoint.statistics();
    assert_eq!(statistics.refused, 2999 - 1024);
    network.run(Duration::from_secs(150));
    assert_eq!(network.server.endpoint.connections().count(), 0);
    assert_eq!(network.server.endpoint.next_timeout(), None);
    assert!(network.server.datapath.flows().next().is_none());
    network.open();
}

#[test]
fn a_connection_cannot_be_begun_twice_nor_between_families() {
    let mut network = Network::plain();
    network.connect();
    let endpoint = &mut network.client.endpoint;
    let again = endpoint.connect(Time::ZERO, client(), server(), "");
    assert_eq!(again, Err(ConnectError::InUse));
    let v6 = "[2001:db8::1]:80".parse().unwrap();
    let mixed = endpoint.connect(Time::ZERO, client(), v6, "");
    assert_eq!(mixed, Err(ConnectError::Families));
}

#[test]
fn connections_are_bounded_in_both_directions_and_those_that_are_go_on() {
    let mut host = super::network::Host::with_limit(2);
    let now = Time::from_millis(1);
    host.endpoint.listen(client(), "cubic");
    let to = |port| (server().ip(), port).into();
    for port in [1, 2] {
        assert!(host.endpoint.connect(now, client(), to(port), "").is_ok());
    }
    let third = host.endpoint.connect(now, client(), to(3), "");
    assert_eq!(third, Err(ConnectError::Full));
    // Nor does a peer begin one.
    let mut peer = super::network::Host::new(Config::default(), 7);
    peer.endpoint.connect(now, server(), client(), "").unwrap();
    let mut bytes = [0; 1500];
    let length = peer.endpoint.poll_transmit(now, &mut bytes).unwrap();
    host.endpoint
        .on_packet(now, &mut host.datapath, &bytes[..length]);
    assert_eq!(host.endpoint.statistics().refused, 1);
    assert_eq!(host.endpoint.connections().count(), 2);
}

#[test]
fn the_first_packet_is_what_linux_would_send() {
    let mut network = Network::plain();
    network.connect();
    network.send_all();
    let bytes = &network.seen[0].bytes;
    let packet = Packet::parse_ip(bytes).unwrap();
    assert!(packet.has_valid_checksums());
    let tcp = packet.tcp().unwrap();
    let options = tcp.option_summary().unwrap();
    assert_eq!(options.mss, Some(1460));
    assert_eq!(options.window_scale, Some(7));
    assert!(options.sack_permitted && options.timestamps.is_some());
    assert_eq!((tcp.window(), tcp.header_length()), (65_535, 40));
}
