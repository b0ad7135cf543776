//! Paths that take less than the device.

use std::net::SocketAddr;
use std::time::Duration;

use fairwater_wire::{Packet, checksum::Sum};

use super::network::{Network, Stream, client, server};

/// "Fragmentation needed" (RFC 1191 §4) about a packet.
fn too_big(about: &[u8], mtu: u16) -> Vec<u8> {
    let mut message = vec![3, 4, 0, 0, 0, 0];
    message.extend(mtu.to_be_bytes());
    message.extend(&about[..28]);
    let length = (20 + message.len()) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, 1, 0, 0]);
    packet.extend([198, 51, 100, 1]);
    let SocketAddr::V4(to) = client() else {
        unreachable!()
    };
    packet.extend(to.ip().octets());
    let sum = Sum::ZERO.bytes(&packet).checksum();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(message);
    packet
}

#[test]
fn segments_are_cut_to_the_path_and_those_in_flight_again() {
    let mut network = Network::plain();
    let (near, far) = network.open();
    let mut up = Stream::new(300_000, 9);
    up.write(&mut network.client, near);
    network.send_all();
    let big = network.last(true).bytes.clone();
    assert_eq!(big.len(), 1500);
    // All that is on its way is lost, as it is too long.
    network.links[0] = fairwater_net::Link::new(&super::network::plain_link());
    let before = network.seen.len();
    network.inject(true, &too_big(&big, 1000));
    while !up.is_done() {
        up.write(&mut network.client, near);
        up.read(&mut network.server, far);
        assert!(network.step());
    }
    let after = &network.seen[before..];
    let sizes = after
        .iter()
        .filter(|seen| seen.from_client)
        .map(|seen| seen.bytes.len());
    assert_eq!(sizes.max(), Some(1000));
    let flow = network.client.endpoint.flow(near);
    assert!(flow.is_some() || network.client.endpoint.connection(near).unwrap().mss() == 0);
}

#[test]
fn reports_about_nothing_in_flight_or_beyond_reason_change_nothing() {
    let mut network = Network::plain();
    let (near, _) = network.open();
    network.run(Duration::from_millis(50));
    network.client.endpoint.write(near, &[1; 20_000]).unwrap();
    network.send_all();
    let big = network.last(true).bytes.clone();
    let mss = |network: &Network| network.client.endpoint.connection(near).unwrap().mss();
    for mtu in [0, 68, 551, 1500, 9000] {
        network.inject(true, &too_big(&big, mtu));
        assert_eq!(mss(&network), 1448);
    }
    let mut stale = big.clone();
    stale[24] ^= 0x40;
    network.inject(true, &too_big(&stale, 1000));
    assert_eq!(mss(&network), 1448);
    network.run(Duration::from_secs(1));
    network.inject(true, &too_big(&big, 1000));
    assert_eq!(mss(&network), 1448, "it was acknowledged meanwhile");
    assert!(Packet::parse_ip(&big).unwrap().has_valid_checksums());
    assert_eq!(server().port(), 80);
}
