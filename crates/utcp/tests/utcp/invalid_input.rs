//! What should not arrive.

use std::time::Duration;

use fairwater_net::{LinkConfig, LossConfig, Probability, Time};
use fairwater_utcp::{Config, State};
use fairwater_wire::{Checksum, Layout, Packet, Rewriter, Seq, TcpFlags};
use proptest::prelude::*;

use super::network::{Host, Network, Stream, exchange, plain_link};

/// Runs a connection both ways while `spoil` gets each packet that passes, and injects what it makes of the packet
/// beside it.
fn beside(loss_percent: u32, spoil: impl Fn(usize, &[u8]) -> Option<Vec<u8>>) {
    let lossy = LinkConfig {
        loss: LossConfig::Random(Probability::percent(loss_percent)),
        ..plain_link()
    };
    let mut network = Network::new(Config::default(), Config::default(), [&lossy, &lossy]);
    let (near, far) = network.open();
    let (mut up, mut down) = (Stream::new(120_000, 1), Stream::new(50_000, 2));
    let mut looked = 0;
    while !(up.is_done() && down.is_done()) {
        up.write(&mut network.client, near);
        down.write(&mut network.server, far);
        up.read(&mut network.server, far);
        down.read(&mut network.client, near);
        let new: Vec<_> = network.seen[looked..].to_vec();
        for (index, seen) in new.iter().enumerate() {
            if let Some(bytes) = spoil(looked + index, &seen.bytes) {
                network.inject(!seen.from_client, &bytes);
            }
        }
        looked += new.len();
        assert!(network.step());
    }
}

fn rewritten(bytes: &[u8], change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    change(&mut bytes);
    // A right checksum, so that nothing but the content is wrong.
    let Ok(layout) = Layout::of_ip(&bytes) else {
        return bytes;
    };
    let end = layout.end();
    let at = layout.transport_offset();
    bytes[at + 16..at + 18].copy_from_slice(&[0, 0]);
    let packet = layout.packet(&bytes);
    let sum = packet.pseudo_header().bytes(&bytes[at..end]).checksum();
    bytes[at + 16..at + 18].copy_from_slice(&sum.to_be_bytes());
    bytes
}

#[test]
fn acknowledgements_of_what_was_never_sent_and_blocks_of_nonsense_change_nothing() {
    beside(0, |index, bytes| {
        Some(rewritten(bytes, |bytes| {
            let ahead = [200_000_u32, 1 << 24, 1 << 30, 1 << 31, u32::MAX - 300_000][index % 5];
            let ack = u32::from_be_bytes(bytes[28..32].try_into().unwrap());
            bytes[28..32].copy_from_slice(&(ack.wrapping_add(ahead)).to_be_bytes());
        }))
    });
}

#[test]
fn a_part_of_a_segment_may_be_acknowledged() {
    beside(5, |_, bytes| {
        let packet = Packet::parse_ip(bytes).unwrap();
        let tcp = packet.tcp().unwrap();
        let is_ack = tcp.payload().is_empty() && !tcp.flags().contains(TcpFlags::SYN);
        // An ACK that overtakes the one that it was made of.
        is_ack.then(|| {
            rewritten(bytes, |bytes| {
                let ack = u32::from_be_bytes(bytes[28..32].try_into().unwrap());
                bytes[28..32].copy_from_slice(&ack.wrapping_sub(700).to_be_bytes());
            })
        })
    });
}

#[test]
fn a_segment_without_its_clock_or_with_an_old_one_is_not_taken() {
    beside(0, |_, bytes| {
        Some(rewritten(bytes, |bytes| {
            // The options become no-operations.
            let header = usize::from(bytes[32] >> 4) * 4;
            bytes[40..20 + header].fill(1);
            for byte in &mut bytes[20 + header..] {
                *byte = !*byte;
            }
        }))
    });
}

#[test]
fn a_closed_or_unknown_port_answers_no_reset_with_a_reset() {
    let mut host = Host::new(Config::default(), 3);
    let mut network = Network::plain();
    network.connect();
    network.send_all();
    let mut bytes = network.seen[0].bytes.clone();
    let layout = Layout::of_ip(&bytes).unwrap();
    let mut rewriter = Rewriter::new(&mut bytes, layout, Checksum::Complete);
    rewriter.set_flags(TcpFlags::RST, TcpFlags::SYN);
    host.endpoint
        .on_packet(Time::ZERO, &mut host.datapath, &bytes);
    assert_eq!(
        host.endpoint.poll_transmit(Time::ZERO, &mut [0; 1500]),
        None
    );
    assert_eq!(host.endpoint.statistics().stray, 1);
}

#[test]
fn damaged_packets_are_counted_and_dropped() {
    let mut network = Network::plain();
    network.damage.corrupted = 10;
    exchange(&mut network, 500_000, 0);
    let counts = network.server.endpoint.statistics();
    assert!(counts.bad_checksums + counts.malformed > 10, "{counts:?}");
}

/// Field values that matter in a header.
fn spoiled() -> impl Strategy<Value = Vec<(usize, u8)>> {
    proptest::collection::vec((0..80_usize, any::<u8>()), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever the content of a segment is, nothing panics, and a connection that is not closed goes on.
    #[test]
    fn nothing_panics(
        changes in proptest::collection::vec((spoiled(), any::<bool>(), 0..200_usize, -3000..3000_i32), 1..40),
    ) {
        let mut network = Network::plain();
        let (near, far) = network.open();
        let (mut up, mut down) = (Stream::new(100_000, 1), Stream::new(100_000, 2));
        let mut changes = changes.into_iter();
        for _ in 0..5000 {
            for (stream, is_up) in [(&mut up, true), (&mut down, false)] {
                let Network { client, server, .. } = &mut network;
                let (from, to, of_from, of_to) = if is_up {
                    (client, server, near, far)
                } else {
                    (server, client, far, near)
                };
                let open = |host: &Host, id| host.endpoint.connection(id).is_some_and(|c| c.close_reason().is_none());
                if open(from, of_from) && stream.written < stream.length {
                    let _ = from.endpoint.write(of_from, &[1; 5000]).map(|count| stream.written += count as u64);
                }
                let mut bytes = [0; 3000];
                let _ = to.endpoint.read(of_to, &mut bytes);
            }
            if let Some((spoils, to_client, back, shift)) = changes.next() {
                let count = network.seen.len();
                let original = network.seen[count.saturating_sub(1 + back.min(count - 1))].bytes.clone();
                let bytes = rewritten(&original, |bytes| {
                    let seq = u32::from_be_bytes(bytes[24..28].try_into().unwrap());
                    bytes[24..28].copy_from_slice(&Seq(seq).plus(shift as u32).0.to_be_bytes());
                    for (at, value) in spoils {
                        // The addresses and ports stay.
                        if let Some(byte) = bytes.get_mut(at).filter(|_| at >= 24) {
                            *byte = value;
                        }
                    }
                });
                network.inject(to_client, &bytes);
            }
            if !network.step() {
                break;
            }
        }
        network.run(Duration::from_secs(10));
        for (endpoint, id) in [(&network.client.endpoint, near), (&network.server.endpoint, far)] {
            let connection = endpoint.connection(id).unwrap();
            prop_assert!(connection.state() != State::SynSent);
        }
    }
}
