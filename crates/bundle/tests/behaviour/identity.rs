//! Both boxes find the same boundary packets, whatever offloads, routers and fragments do.

use fairwater_bundle::{
    BundleSecret, EpochSize, Identity, IdentityFields, Segment, Segmentation, expand,
};
use fairwater_wire::{Checksum, EcnCodepoint, Packet, Seq, TcpFlags, TcpOption, compose};
use proptest::prelude::*;

use crate::packets::{RECEIVER, SENDER, address, tcp};

fn segments(bytes: &[u8], segmentation: Option<Segmentation>) -> Vec<Segment> {
    let mut all = Vec::new();
    let packet = Packet::parse_ip(bytes).unwrap();
    expand(&packet, segmentation, &mut |segment| all.push(*segment));
    all
}

fn ip(is_v6: bool, id: u16) -> compose::Ip {
    let (source, destination) = if is_v6 {
        ("2001:db8::1", "2001:db8:1::1")
    } else {
        (SENDER, RECEIVER)
    };
    compose::Ip {
        id,
        ..compose::Ip::new(address(source), address(destination))
    }
}

fn tcp_bytes(is_v6: bool, id: u16, seq: u32, tsval: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 66_000];
    let fields = compose::Tcp {
        source_port: 443,
        destination_port: 50_000,
        seq: Seq(seq),
        ack: Seq(99),
        flags: TcpFlags::ACK,
        ..compose::Tcp::default()
    };
    let options = [TcpOption::Timestamps {
        value: tsval,
        echo: 1,
    }];
    let length = compose::tcp(
        &ip(is_v6, id),
        &fields,
        &options,
        payload,
        Checksum::Partial,
        &mut bytes,
    );
    bytes.truncate(length.unwrap());
    bytes
}

fn udp_bytes(is_v6: bool, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 66_000];
    let length = compose::udp(
        &ip(is_v6, 5),
        (443, 50_000),
        payload,
        Checksum::Partial,
        &mut bytes,
    );
    bytes.truncate(length.unwrap());
    bytes
}

proptest! {
    /// A super-packet and the packets that it becomes are the same segments, in identity and length.
    #[test]
    fn super_packets_are_their_segments(
        is_v6: bool,
        id: u16,
        seq: u32,
        tsval: u32,
        mss in 88_u16..2_000,
        length in 1_usize..40_000,
        fixed_id: bool,
    ) {
        let payload: Vec<u8> = (0..length).map(|i| (i * 7 + i / 251) as u8).collect();
        let how = Segmentation { payload_bytes: mss, fixed_id };
        let whole = segments(&tcp_bytes(is_v6, id, seq, tsval, &payload), Some(how));
        let mut apart = Vec::new();
        for (i, part) in payload.chunks(usize::from(mss)).enumerate() {
            let id = if fixed_id { id } else { id.wrapping_add(i as u16) };
            let seq = seq.wrapping_add(i as u32 * u32::from(mss));
            apart.extend(segments(&tcp_bytes(is_v6, id, seq, tsval, part), None));
        }
        prop_assert_eq!(&whole, &apart);

        let whole = segments(&udp_bytes(is_v6, &payload), Some(how));
        let apart: Vec<_> = payload
            .chunks(usize::from(mss))
            .flat_map(|part| segments(&udp_bytes(is_v6, part), None))
            .collect();
        prop_assert_eq!(&whole, &apart);
    }

    /// TOS, ECN, TTL and checksums do not matter: routers change them, and offloads leave them open.
    #[test]
    fn routers_change_no_identity(is_v6: bool, tos: u8, ttl: u8, checksum: [u8; 2], is_udp: bool) {
        let bytes = if is_udp {
            udp_bytes(is_v6, &[9; 40])
        } else {
            tcp_bytes(is_v6, 1, 2, 3, &[9; 40])
        };
        let before = segments(&bytes, None);
        let mut bytes = bytes;
        let transport = if is_v6 { 40 } else { 20 };
        if is_v6 {
            bytes[0] = 0x60 | (tos >> 4);
            bytes[1] = (bytes[1] & 0x0f) | (tos << 4);
            bytes[7] = ttl;
        } else {
            bytes[1] = tos;
            bytes[8] = ttl;
            bytes[10..12].copy_from_slice(&checksum);
        }
        let at = transport + if is_udp { 6 } else { 16 };
        bytes[at..at + 2].copy_from_slice(&checksum);
        prop_assert_eq!(before, segments(&bytes, None));
    }

    /// Boundaries under a greater N are boundaries under a smaller one (Bundler §4.5).
    #[test]
    fn epochs_nest(hash: u64, small in 0_u8..20, more in 0_u8..20) {
        let size = |k| EpochSize::from_exponent(k).unwrap();
        let boundary = fairwater_bundle::Boundary(hash);
        let great = (small + more).min(EpochSize::MAX_EXPONENT);
        prop_assert!(!size(great).begins_at(boundary) || size(small).begins_at(boundary));
    }

    #[test]
    fn any_bytes_are_read(bytes: Vec<u8>, payload_bytes: u16, fixed_id: bool) {
        if let Ok(packet) = Packet::parse_ip(&bytes) {
            let how = Segmentation { payload_bytes, fixed_id };
            expand(&packet, Some(how), &mut |segment| {
                assert!(segment.ip_bytes > 0);
            });
        }
    }
}

/// The bytes that other implementations have to derive, and SipHash-1-3 of them.
#[test]
fn the_identity_is_as_documented() {
    let packet = tcp(0x1234, 5, 100);
    let packet = Packet::parse_ip(&packet.bytes).unwrap();
    let identity = Identity::of(&packet).unwrap();
    assert_eq!(identity.fields(), IdentityFields::TcpV4);
    #[rustfmt::skip]
    let expected = [
        192, 0, 2, 1, 198, 51, 100, 1,
        0x01, 0xbb, 0x12, 0x34, 0, 5, 6, 0,
        0, 0, 0, 5 * 48, 0, 0, 0, 1,
        0, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(identity.as_bytes(), expected);
    // SipHash-1-3 by its definition (Aumasson and Bernstein, 2012), from another implementation.
    assert_eq!(
        fairwater_bundle::BoundaryKey::new(std::array::from_fn(|i| i as u8))
            .hash(&identity)
            .0,
        sip13(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908, &expected)
    );
}

/// SipHash-1-3, from its definition.
fn sip13(k0: u64, k1: u64, bytes: &[u8]) -> u64 {
    let mut v = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    let round = |v: &mut [u64; 4]| {
        v[0] = v[0].wrapping_add(v[1]);
        v[1] = v[1].rotate_left(13) ^ v[0];
        v[0] = v[0].rotate_left(32);
        v[2] = v[2].wrapping_add(v[3]);
        v[3] = v[3].rotate_left(16) ^ v[2];
        v[0] = v[0].wrapping_add(v[3]);
        v[3] = v[3].rotate_left(21) ^ v[0];
        v[2] = v[2].wrapping_add(v[1]);
        v[1] = v[1].rotate_left(17) ^ v[2];
        v[2] = v[2].rotate_left(32);
    };
    let mut words: Vec<u64> = bytes
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
        .collect();
    words.push((bytes.len() as u64) << 56);
    for word in words {
        v[3] ^= word;
        round(&mut v);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    (0..3).for_each(|_| round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

#[test]
fn a_mark_of_congestion_keeps_the_boundary() {
    let mut packet = tcp(1, 2, 1_500);
    let before = segments(&packet.bytes, None);
    packet.bytes[1] |= EcnCodepoint::Ce as u8;
    assert_eq!(segments(&packet.bytes, None), before);
}

#[test]
fn fragments_and_other_protocols_count_but_are_no_boundaries() {
    let mut fragment = udp_bytes(false, &[1; 100]);
    fragment[6] = 0x20;
    let mut other = udp_bytes(false, &[1; 100]);
    other[9] = 47;
    for bytes in [fragment, other] {
        let all = segments(&bytes, None);
        assert_eq!(
            (all.len(), all[0].ip_bytes, all[0].identity),
            (1, 128, None)
        );
    }
}

#[test]
fn esp_is_identified_by_spi_and_sequence() {
    let mut bytes = udp_bytes(false, &[1; 100]);
    bytes[9] = 50;
    bytes[20..28].copy_from_slice(&[1, 2, 3, 4, 0, 0, 0, 9]);
    let identity = segments(&bytes, None)[0].identity.unwrap();
    assert_eq!(identity.fields(), IdentityFields::Esp);
    bytes[27] = 10;
    assert_ne!(segments(&bytes, None)[0].identity, Some(identity));
    bytes[30] = 0xff;
    let next = segments(&bytes, None)[0].identity.unwrap();
    bytes[31] = 0xff;
    assert_eq!(segments(&bytes, None)[0].identity, Some(next));
}

/// WireGuard's transport data (type 4): receiver index and counter are in the first 16 bytes.
#[test]
fn wireguard_is_identified_by_its_counter() {
    let mut payload = [0; 64];
    payload[0] = 4;
    payload[8] = 1;
    let first = segments(&udp_bytes(false, &payload), None);
    payload[8] = 2;
    assert_ne!(segments(&udp_bytes(false, &payload), None), first);
}

/// N = 0.25 · minRTT · rate, rounded down to 2^k, at most 10 ms of packets (Bundler §4.5).
#[test]
fn epochs_follow_rate_and_rtt() {
    let ms = std::time::Duration::from_millis;
    let adapted = |rtt, packets_per_s| EpochSize::INITIAL.adapted(ms(rtt), packets_per_s).packets();
    assert_eq!(adapted(20, 8_000.0), 32);
    assert_eq!(adapted(200, 8_000.0), 64);
    assert_eq!(adapted(20, 100.0), 1);
    assert_eq!(adapted(0, 80_000.0), 64);
    // Not at each small change.
    let sixteen = EpochSize::INITIAL;
    assert_eq!(sixteen.adapted(ms(20), 3_000.0), sixteen);
    assert_eq!(sixteen.adapted(ms(20), 6_600.0), sixteen);
}

#[test]
fn keys_differ_by_secret() {
    let key = |byte| BundleSecret([byte; 32]).boundary_key();
    let identity = segments(&tcp(1, 1, 100).bytes, None)[0].identity.unwrap();
    assert_ne!(key(1).hash(&identity), key(2).hash(&identity));
}
