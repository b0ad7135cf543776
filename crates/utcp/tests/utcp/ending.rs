//! How connections end.

use std::time::Duration;

use fairwater_net::{LinkConfig, LossConfig, Probability, Time};
use fairwater_utcp::{CloseReason, State, StreamError};
use fairwater_wire::{Checksum, Seq, TcpFlags, TcpOption, compose};

use super::network::{Network, Stream, client, plain_link, server};

fn states(
    network: &Network,
    near: fairwater_utcp::ConnectionId,
    far: fairwater_utcp::ConnectionId,
) -> (State, State) {
    let state = |endpoint: &fairwater_utcp::Endpoint, id| endpoint.connection(id).unwrap().state();
    (
        state(&network.client.endpoint, near),
        state(&network.server.endpoint, far),
    )
}

#[test]
fn one_end_after_the_other() {
    let mut network = Network::plain();
    let (near, far) = network.open();
    network.run(Duration::from_millis(50));
    network.client.endpoint.shutdown(near).unwrap();
    network.send_all();
    assert_eq!(states(&network, near, far).0, State::FinWait1);
    network.run(Duration::from_millis(50));
    assert_eq!(
        states(&network, near, far),
        (State::FinWait2, State::CloseWait)
    );
    // Half-close: the other direction goes on.
    let mut down = Stream::new(100_000, 3);
    down.write(&mut network.server, far);
    while !down.is_done() {
        assert!(network.step());
        down.read(&mut network.client, near);
    }
    network.send_all();
    assert!(matches!(
        states(&network, near, far).1,
        State::LastAck | State::Closed
    ));
    network.run(Duration::from_secs(1));
    assert_eq!(
        states(&network, near, far),
        (State::TimeWait, State::Closed)
    );
    let reason = network
        .server
        .endpoint
        .connection(far)
        .unwrap()
        .close_reason();
    assert_eq!(reason, Some(CloseReason::Finished));
    network.run(Duration::from_secs(60));
    assert_eq!(states(&network, near, far).0, State::Closed);
    network.client.release(near);
    network.server.release(far);
    network.send_all();
    assert_eq!(network.client.endpoint.connections().count(), 0);
    assert_eq!(network.server.endpoint.connections().count(), 0);
    assert!(network.client.datapath.flows().next().is_none());
    assert!(network.server.datapath.flows().next().is_none());
}

#[test]
fn both_ends_at_once() {
    let mut network = Network::plain();
    let (near, far) = network.open();
    network.run(Duration::from_millis(50));
    network.client.endpoint.shutdown(near).unwrap();
    network.server.endpoint.shutdown(far).unwrap();
    network.send_all();
    assert_eq!(
        states(&network, near, far),
        (State::FinWait1, State::FinWait1)
    );
    network.run(Duration::from_millis(6));
    assert_eq!(
        states(&network, near, far),
        (State::Closing, State::Closing)
    );
    network.run(Duration::from_millis(50));
    assert_eq!(
        states(&network, near, far),
        (State::TimeWait, State::TimeWait)
    );
    network.run(Duration::from_secs(61));
    assert_eq!(states(&network, near, far), (State::Closed, State::Closed));
}

#[test]
fn a_lost_last_ack_is_sent_again_and_time_wait_begins_anew() {
    let lossy = LinkConfig {
        loss: LossConfig::Random(Probability::ALWAYS),
        ..plain_link()
    };
    let mut network = Network::plain();
    let (near, far) = network.open();
    network.client.endpoint.shutdown(near).unwrap();
    network.run(Duration::from_millis(50));
    network.links[0] = fairwater_net::Link::new(&lossy);
    network.server.endpoint.shutdown(far).unwrap();
    network.run(Duration::from_secs(20));
    assert_eq!(
        states(&network, near, far),
        (State::TimeWait, State::LastAck)
    );
    let fins = network
        .seen
        .iter()
        .filter(|seen| !seen.from_client && seen.has(TcpFlags::FIN));
    let last = fins.clone().next_back().unwrap().at;
    let acks = network
        .seen
        .iter()
        .rev()
        .filter(|seen| seen.from_client)
        .take(3);
    assert!(fins.count() > 4 && acks.clone().all(|ack| ack.tcp().payload().is_empty()));
    let end = last + Duration::from_secs(60);
    network.links[0] = fairwater_net::Link::new(&plain_link());
    let until = |time: Time, network: &Network| time.since(network.now);
    network.run(until(end, &network) - Duration::from_secs(1));
    let (near_state, far_state) = states(&network, near, far);
    assert_eq!((near_state, far_state), (State::TimeWait, State::Closed));
    network.run(Duration::from_secs(70));
    assert_eq!(states(&network, near, far).0, State::Closed);
}

#[test]
fn what_was_given_up_is_reset() {
    let mut network = Network::plain();
    let (near, far) = network.open();
    network.client.endpoint.write(near, b"last words").unwrap();
    network.run(Duration::from_millis(50));
    let client = &mut network.client;
    client.endpoint.abort(&mut client.datapath, near).unwrap();
    network.run(Duration::from_millis(50));
    assert!(network.client.endpoint.connection(near).is_none());
    let connection = network.server.endpoint.connection(far).unwrap();
    assert_eq!(connection.close_reason(), Some(CloseReason::Reset));
    // What had arrived can be read.
    let mut bytes = [0; 20];
    assert_eq!(network.server.endpoint.read(far, &mut bytes), Ok(10));
    let written = network.server.endpoint.write(far, b"x");
    assert_eq!(written, Err(StreamError::Closed(CloseReason::Reset)));
    assert!(network.server.datapath.flows().next().is_none());
    assert_eq!(
        network.client.endpoint.shutdown(near),
        Err(StreamError::Unknown)
    );
}

#[test]
fn data_for_nobody_is_reset_and_a_silent_peer_does_not_hold_a_released_connection() {
    let mut network = Network::plain();
    let (near, far) = network.open();
    network.client.release(near);
    network.run(Duration::from_secs(1));
    network
        .server
        .endpoint
        .write(far, b"is anybody there?")
        .unwrap();
    network.run(Duration::from_secs(1));
    let connection = network.server.endpoint.connection(far).unwrap();
    assert_eq!(connection.close_reason(), Some(CloseReason::Reset));
    assert!(network.client.endpoint.connection(near).is_none());

    let mut network = Network::plain();
    let (near, far) = network.open();
    network.client.release(near);
    network.run(Duration::from_secs(1));
    assert_eq!(
        states(&network, near, far),
        (State::FinWait2, State::CloseWait)
    );
    network.run(Duration::from_secs(61));
    assert!(network.client.endpoint.connection(near).is_none());
}

/// Nobody will read what has arrived: the peer hears of it, and nothing is left of the connection.
#[test]
fn a_connection_that_is_released_with_unread_data_is_reset_and_gone() {
    let mut network = Network::plain();
    let (near, far) = network.open();
    network.client.endpoint.write(near, b"unread").unwrap();
    network.run(Duration::from_millis(50));
    network.server.release(far);
    assert!(network.server.datapath.flows().next().is_none());
    network.run(Duration::from_millis(50));
    assert_eq!(network.server.endpoint.connections().count(), 0);
    let connection = network.client.endpoint.connection(near).unwrap();
    assert_eq!(connection.close_reason(), Some(CloseReason::Reset));
}

#[test]
fn an_unanswered_connection_is_given_up() {
    let lossy = LinkConfig {
        loss: LossConfig::Random(Probability::ALWAYS),
        ..plain_link()
    };
    let mut network = Network::plain();
    let (near, _) = network.open();
    network.run(Duration::from_millis(100));
    network.links[0] = fairwater_net::Link::new(&lossy);
    let begin = network.now;
    network.client.endpoint.write(near, &[7; 5000]).unwrap();
    while network.client.endpoint.connection(near).unwrap().state() != State::Closed {
        assert!(network.step());
        assert!(network.now.since(begin) < Duration::from_secs(2000));
    }
    let reason = network
        .client
        .endpoint
        .connection(near)
        .unwrap()
        .close_reason();
    assert_eq!(reason, Some(CloseReason::TimedOut));
    // Linux's 15 retries with 200 ms at first and 120 s at most: about 924 s.
    let took = network.now.since(begin).as_secs();
    assert!((850..1000).contains(&took), "{took} s");
    assert!(network.client.datapath.flows().next().is_none());
}

/// A reset that the server is to take for the client's.
fn forged(seq: Seq, flags: TcpFlags, ack: Seq) -> Vec<u8> {
    let ip = compose::Ip::new(client().ip(), server().ip());
    let tcp = compose::Tcp {
        source_port: client().port(),
        destination_port: server().port(),
        seq,
        ack,
        flags,
        window: 1000,
        ..compose::Tcp::default()
    };
    let mut bytes = [0; 100];
    let length = compose::tcp(
        &ip,
        &tcp,
        &[] as &[TcpOption<'_>],
        &[],
        Checksum::Complete,
        &mut bytes,
    )
    .unwrap();
    bytes[..length].to_vec()
}

#[test]
fn a_blind_reset_or_syn_is_answered_by_a_challenge() {
    let mut network = Network::plain();
    let (near, far) = network.open();
    network.run(Duration::from_secs(1));
    let expected = network.last(true).tcp().seq();
    for (packet, challenged) in [
        (forged(expected.plus(1000), TcpFlags::RST, Seq(0)), true),
        (forged(expected.minus(1), TcpFlags::RST, Seq(0)), false),
        (forged(expected.plus(1 << 30), TcpFlags::RST, Seq(0)), false),
    ] {
        network.run(Duration::from_secs(1));
        let before = network.seen.len();
        network.inject(false, &packet);
        network.send_all();
        assert_eq!(network.seen.len() > before, challenged);
        assert_eq!(states(&network, near, far).1, State::Established);
    }
    // A second challenge in a short time is not sent.
    network.run(Duration::from_secs(1));
    let before = network.seen.len();
    for _ in 0..50 {
        network.inject(false, &forged(expected.plus(9), TcpFlags::RST, Seq(0)));
        network.send_all();
    }
    assert_eq!(network.seen.len(), before + 1);
    network.inject(false, &forged(expected, TcpFlags::RST, Seq(0)));
    let connection = network.server.endpoint.connection(far).unwrap();
    assert_eq!(connection.close_reason(), Some(CloseReason::Reset));
}
