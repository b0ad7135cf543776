//! Input that is wrong, each with its reason.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use fairwater_wire::{
    AccEcn, Checksum, Fragment, Layout, Packet, ParseError, SackBlock, SackBlocks, Seq, Tcp,
    TcpFlags, TcpOption, Transport, compose,
};
use proptest::prelude::*;

fn segment(is_v6: bool, options: &[TcpOption<'_>], payload: &[u8]) -> Vec<u8> {
    let ip = if is_v6 {
        compose::Ip::new([1; 16].into(), [2; 16].into())
    } else {
        compose::Ip::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
    };
    let mut out = vec![0; 200 + payload.len()];
    let tcp = compose::Tcp::default();
    let length = compose::tcp(&ip, &tcp, options, payload, Checksum::Complete, &mut out).unwrap();
    out.truncate(length);
    out
}

/// The packet with these bytes at these offsets.
fn with(mut bytes: Vec<u8>, changes: &[(usize, u8)]) -> Vec<u8> {
    for (at, value) in changes {
        bytes[*at] = *value;
    }
    bytes
}

fn error(bytes: &[u8]) -> ParseError {
    Layout::of_ip(bytes).unwrap_err()
}

#[test]
fn each_header_is_refused_for_its_reason() {
    let v4 = || segment(false, &[], b"data");
    let v6 = || segment(true, &[], b"data");
    for (bytes, reason) in [
        (Vec::new(), ParseError::IpVersion),
        (vec![0x50; 60], ParseError::IpVersion),
        (v4()[..19].to_vec(), ParseError::Ipv4Truncated),
        (
            with(v4()[..30].to_vec(), &[(0, 0x4f)]),
            ParseError::Ipv4Truncated,
        ),
        (with(v4(), &[(0, 0x44)]), ParseError::Ipv4HeaderLength),
        (with(v4(), &[(3, 45)]), ParseError::Ipv4TotalLength),
        (with(v4(), &[(3, 19)]), ParseError::Ipv4TotalLength),
        (with(v4(), &[(2, 0), (3, 0)]), ParseError::Ipv4TotalLength),
        (v6()[..39].to_vec(), ParseError::Ipv6Truncated),
        (with(v6(), &[(5, 25)]), ParseError::Ipv6PayloadLength),
        (with(v4(), &[(3, 39)]), ParseError::TcpTruncated),
        (with(v4(), &[(32, 0x40)]), ParseError::TcpDataOffset),
        (with(v4(), &[(32, 0x70)]), ParseError::TcpTruncated),
        (with(v6(), &[(52, 0xf0)]), ParseError::TcpTruncated),
        (with(v4(), &[(3, 27), (9, 17)]), ParseError::UdpTruncated),
        // The word where a datagram has its length.
        (with(v4(), &[(9, 17), (25, 7)]), ParseError::UdpLength),
        (with(v4(), &[(9, 17), (25, 25)]), ParseError::UdpLength),
        (
            with(v6(), &[(6, 60), (41, 9)]),
            ParseError::Ipv6ExtensionTruncated,
        ),
        // A hop-by-hop header without a jumbo option, where the length is 0.
        (
            with(v6(), &[(5, 0), (6, 0), (41, 0)]),
            ParseError::Ipv6Jumbo,
        ),
        (
            with(v6(), &[(6, 43), (40, 6), (41, 0), (43, 1)]),
            ParseError::Ipv6Routed,
        ),
    ] {
        assert_eq!(error(&bytes), reason, "{bytes:02x?}");
    }
}

#[test]
fn frames_are_refused_for_their_reasons() {
    let refused = |bytes: &[u8]| Layout::of_ethernet(bytes).unwrap_err();
    let frame = |tags: &[[u8; 4]], kind: [u8; 2]| {
        let mut frame = vec![7; 12];
        frame.extend(tags.as_flattened());
        frame.extend(kind);
        frame
    };
    let tag = [0x81, 0, 0, 5];
    let service = [0x88, 0xa8, 0, 5];
    assert_eq!(refused(&[0; 13]), ParseError::EthernetTruncated);
    assert_eq!(refused(&frame(&[], [8, 6])), ParseError::NotIp);
    assert_eq!(refused(&frame(&[], [0x81, 0])), ParseError::VlanTruncated);
    let three = frame(&[service, tag, tag], [8, 0]);
    assert_eq!(refused(&three), ParseError::VlanDepth);
    assert_eq!(refused(&frame(&[tag], [8, 0])), ParseError::Ipv4Truncated);
    let mut wrong = frame(&[], [0x86, 0xdd]);
    wrong.extend(segment(false, &[], b""));
    assert_eq!(refused(&wrong), ParseError::IpVersion);
}

#[test]
fn fragments_are_recognised() {
    let of = |bytes: Vec<u8>| Layout::of_ip(&bytes).unwrap().transport();
    let v4 = |high, low| with(segment(false, &[], b"data"), &[(6, high), (7, low)]);
    let fragment = |offset, more| Transport::Fragment(6, Fragment { offset, more });
    assert_eq!(of(v4(0x40, 0)), Transport::Tcp);
    assert_eq!(of(v4(0x20, 0)), fragment(0, true));
    assert_eq!(of(v4(0x20, 3)), fragment(24, true));
    assert_eq!(of(v4(0x1f, 0xff)), fragment(65_528, false));

    // IPv6 has a header for it, and a packet of one fragment is whole (RFC 6946).
    let mut v6 = segment(true, &[], b"data");
    v6.splice(40..40, [6, 0, 0, 0, 1, 2, 3, 4]);
    v6[5] += 8;
    v6[6] = 44;
    assert_eq!(of(v6.clone()), Transport::Tcp);
    assert!(Packet::parse_ip(&v6).unwrap().has_valid_checksums());
    assert_eq!(of(with(v6.clone(), &[(43, 1)])), fragment(0, true));
    assert_eq!(of(with(v6, &[(43, 0x10)])), fragment(16, false));
}

/// A super-packet as Linux's BIG TCP makes it: too long for the length field.
#[test]
fn super_packets_have_their_length_elsewhere() {
    let payload = vec![0x5a; 60_000];
    let more = vec![0xa5; 40_000];
    let mut v6 = segment(true, &[], &payload);
    v6.extend(&more);
    let length = u32::try_from(v6.len() - 40 + 8).unwrap();
    let [a, b, c, d] = length.to_be_bytes();
    v6.splice(40..40, [6, 0, 0xc2, 4, a, b, c, d]);
    (v6[4], v6[5], v6[6]) = (0, 0, 0);
    let packet = Packet::parse_ip(&v6).unwrap();
    assert_eq!(packet.tcp().unwrap().payload().len(), 100_000);
    // RFC 2675 §3: not for what the field could say.
    let small = with(v6.clone(), &[(44, 0), (45, 0)]);
    assert_eq!(error(&small), ParseError::Ipv6Jumbo);
    let long = with(v6, &[(45, 0xff)]);
    assert_eq!(error(&long), ParseError::Ipv6PayloadLength);

    let mut v4 = segment(false, &[], &payload);
    v4.extend(&more);
    let v4 = with(v4, &[(2, 0), (3, 0)]);
    let packet = Packet::parse_ip(&v4).unwrap();
    assert_eq!(packet.tcp().unwrap().payload().len(), 100_000);
}

#[test]
fn extension_headers_are_followed() {
    let mut packet = segment(true, &[], b"data");
    // Authentication, whose length is in other units, then destination options of 16 bytes.
    let authentication = [60, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut options = [0; 16];
    (options[0], options[1]) = (6, 1);
    packet.splice(40..40, authentication.into_iter().chain(options));
    packet[5] += 28;
    packet[6] = 51;
    let read = Packet::parse_ip(&packet).unwrap();
    assert_eq!(read.layout().transport_offset(), 68);
    assert!(read.has_valid_checksums());

    let mut long = segment(true, &[], b"data");
    let chain = [60, 0, 0, 0, 0, 0, 0, 0].repeat(9);
    long[5] += 72;
    long[6] = 60;
    long.splice(40..40, chain);
    assert_eq!(error(&long), ParseError::Ipv6ExtensionCount);
}

/// The options of a header that has these bytes for options.
fn options(raw: &[u8]) -> Vec<u8> {
    assert_eq!(raw.len() % 4, 0);
    let mut bytes = segment(false, &[], b"");
    bytes.extend(raw);
    bytes[3] += u8::try_from(raw.len()).unwrap();
    bytes[32] += u8::try_from(raw.len() / 4).unwrap() << 4;
    bytes
}

fn tcp(bytes: &[u8]) -> Tcp<'_> {
    Packet::parse_ip(bytes).unwrap().tcp().unwrap()
}

#[test]
fn options_that_lie_about_their_length_are_an_error() {
    for (raw, reason) in [
        (&[2, 0, 0, 0][..], ParseError::TcpOptionLength),
        (&[2, 1, 0, 0], ParseError::TcpOptionLength),
        (&[2, 3, 0, 0], ParseError::TcpOptionLength),
        (&[2, 5, 0, 0], ParseError::TcpOptionTruncated),
        (&[1, 1, 1, 2], ParseError::TcpOptionTruncated),
        (&[1, 3, 2, 0], ParseError::TcpOptionLength),
        (&[4, 3, 0, 0], ParseError::TcpOptionLength),
        (&[5, 2, 0, 0], ParseError::TcpOptionLength),
        (&[5, 6, 0, 0, 0, 0, 0, 0], ParseError::TcpOptionLength),
        (&[8, 8, 0, 0, 0, 0, 0, 0], ParseError::TcpOptionLength),
        (&[19, 4, 0, 0], ParseError::TcpOptionLength),
        (&[29, 2, 0, 0], ParseError::TcpOptionLength),
        (&[30, 2, 0, 0], ParseError::TcpOptionLength),
        (&[34, 3, 0, 0], ParseError::TcpOptionLength),
        (&[34, 5, 0, 0, 0, 0, 0, 0], ParseError::TcpOptionLength),
        (&[172, 3, 0, 0], ParseError::TcpOptionLength),
        (&[99, 255, 0, 0], ParseError::TcpOptionTruncated),
    ] {
        let bytes = options(raw);
        assert_eq!(tcp(&bytes).option_summary(), Err(reason), "{raw:?}");
        // After the error there is nothing more.
        let mut read = tcp(&bytes).options();
        assert_eq!(read.by_ref().last(), Some(Err(reason)));
        assert!(read.next().is_none());
    }
}

#[test]
fn what_follows_the_end_of_the_options_is_not_read() {
    let bytes = options(&[3, 3, 9, 0, 2, 0, 0, 0]);
    let summary = tcp(&bytes).option_summary().unwrap();
    assert_eq!((summary.window_scale, summary.mss), (Some(9), None));
}

#[test]
fn options_of_every_kind_are_read_as_they_were_written() {
    let block = |start, end| SackBlock {
        start: Seq(start),
        end: Seq(end),
    };
    let raw = [block(5, 9).to_bytes(), block(u32::MAX, 3).to_bytes()];
    let counters = AccEcn {
        ect0_bytes: Some(0x0001_0203),
        ce_bytes: Some(0x00ff_fffe),
        ect1_bytes: None,
    };
    let sets: [&[TcpOption<'_>]; 4] = [
        &[
            TcpOption::Mss(1460),
            TcpOption::SackPermitted,
            TcpOption::WindowScale(14),
            TcpOption::Timestamps { value: 7, echo: 8 },
            TcpOption::FastOpen(&[1, 2, 3, 4, 5, 6, 7, 8]),
        ],
        &[
            TcpOption::Sack(SackBlocks::new(&raw).unwrap()),
            TcpOption::AccEcn(counters),
        ],
        &[TcpOption::Md5([3; 16]), TcpOption::Mptcp(&[0x10, 1])],
        &[
            TcpOption::Authentication(&[1, 2, 3, 4]),
            TcpOption::Unknown {
                kind: 77,
                data: &[],
            },
            TcpOption::FastOpen(&[]),
        ],
    ];
    for set in sets {
        let bytes = segment(true, set, b"x");
        let read: Result<Vec<_>, _> = tcp(&bytes).options().collect();
        assert_eq!(read.unwrap(), set);
    }
    let summary = |index: usize| {
        let bytes = segment(true, sets[index], b"");
        tcp(&bytes).option_summary().unwrap()
    };
    assert!(summary(0).fast_open && summary(0).sack_permitted);
    assert_eq!(summary(0).timestamps, Some((7, 8)));
    assert_eq!(summary(1).sack(), [block(5, 9), block(u32::MAX, 3)]);
    assert_eq!(summary(1).acc_ecn, Some(counters));
    assert!(summary(2).is_signed && summary(2).mptcp);
    assert!(summary(3).is_signed && !summary(3).mptcp);
    // The other order of accurate ECN, and the experimental Fast Open.
    let bytes = options(&[174, 8, 0, 0, 1, 0, 0, 2, 254, 4, 0xf9, 0x89]);
    let read = tcp(&bytes).option_summary().unwrap();
    let expected = AccEcn {
        ect0_bytes: None,
        ce_bytes: Some(2),
        ect1_bytes: Some(1),
    };
    assert_eq!((read.acc_ecn, read.fast_open), (Some(expected), true));
}

#[test]
fn reasons_are_indices_of_counters() {
    for (index, reason) in ParseError::ALL.into_iter().enumerate() {
        assert_eq!(reason.index(), index);
    }
}

#[test]
fn the_ace_field_is_three_flags() {
    for ace in 0..8 {
        let flags = (TcpFlags::ACK | TcpFlags::CWR).with_ace(ace);
        assert_eq!(flags.ace(), ace);
        assert!(flags.contains(TcpFlags::ACK));
        assert_eq!(flags.contains(TcpFlags::AE), ace & 4 != 0);
        assert_eq!(flags.contains(TcpFlags::CWR), ace & 2 != 0);
        assert_eq!(flags.contains(TcpFlags::ECE), ace & 1 != 0);
    }
}

/// Reads all there is of a packet.
fn read_all(bytes: &[u8]) {
    for packet in [Packet::parse_ip(bytes), Packet::parse_ethernet(bytes)]
        .into_iter()
        .flatten()
    {
        let layout = packet.layout();
        assert!(layout.network_offset() <= layout.transport_offset());
        assert!(layout.transport_offset() <= layout.payload_offset());
        assert!(layout.payload_offset() <= layout.end() && layout.end() <= bytes.len());
        let _ = (packet.has_valid_checksums(), packet.ecn());
        if let Some(tcp) = packet.tcp() {
            assert_eq!(
                tcp.header_length() + tcp.payload().len(),
                layout.end() - layout.transport_offset()
            );
            tcp.options().for_each(drop);
            let _ = tcp.option_summary();
        }
        packet.udp().map(|udp| udp.payload().len());
    }
}

proptest! {
    #[test]
    fn no_input_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_all(&bytes);
    }

    /// A sound packet with some bytes changed goes further into the readers than noise does.
    #[test]
    fn no_damaged_packet_panics(
        is_v6 in any::<bool>(),
        changes in prop::collection::vec((0usize..100, any::<u8>()), 0..5),
        cut in 0usize..120,
    ) {
        let all = [
            TcpOption::Mss(1460),
            TcpOption::SackPermitted,
            TcpOption::Timestamps { value: 7, echo: 8 },
            TcpOption::WindowScale(7),
        ];
        let mut bytes = segment(is_v6, &all, &[0; 20]);
        for (at, value) in changes {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        bytes.truncate(cut);
        read_all(&bytes);
    }

    #[test]
    fn sequence_numbers_compare_across_the_wrap(at in any::<u32>(), by in 1u32..0x7fff_ffff) {
        let (early, late) = (Seq(at), Seq(at).plus(by));
        prop_assert!(early.is_before(late) && late.is_after(early));
        prop_assert!(!late.is_before(early) && !early.is_before(early));
        prop_assert_eq!(late.minus(by), early);
        prop_assert_eq!(late.bytes_since(early), by);
        prop_assert_eq!(early.bytes_since(late), 0);
        prop_assert_eq!((early.max(late), early.min(late)), (late, early));
        prop_assert_eq!((late.max(early), late.min(early)), (late, early));
        prop_assert!(late.is_within(early, by + 1) && !late.is_within(early, by));
    }
}
