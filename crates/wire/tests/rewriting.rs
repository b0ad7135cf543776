//! Fields that are rewritten in place, and the checksums of the packets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use fairwater_wire::{
    Checksum, EcnCodepoint, Layout, Packet, Rewriter, SackBlocks, Seq, TcpFlags, TcpOption, compose,
};
use proptest::prelude::*;

/// One change, as a box makes it.
#[derive(Debug, Clone, Copy)]
enum Change {
    Ecn(u8),
    Window(u16),
    Seq(u32),
    Ack(u32),
    Flags { set: u16, clear: u16 },
    Mss(u16),
    Scale(u8),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (0u8..4).prop_map(Change::Ecn),
        any::<u16>().prop_map(Change::Window),
        any::<u32>().prop_map(Change::Seq),
        any::<u32>().prop_map(Change::Ack),
        any::<(u16, u16)>().prop_map(|(set, clear)| Change::Flags { set, clear }),
        any::<u16>().prop_map(Change::Mss),
        any::<u8>().prop_map(Change::Scale),
    ]
}

#[derive(Debug, Clone)]
struct Segment {
    ip: compose::Ip,
    tcp: compose::Tcp,
    /// No-operations before the options, so that values begin at odd offsets too.
    padding: usize,
    has_options: bool,
    payload: Vec<u8>,
}

fn segment() -> impl Strategy<Value = Segment> {
    let ip = any::<(bool, [u8; 16], [u8; 16], u8, u16)>().prop_map(
        |(is_v6, source, destination, class, id)| {
            let of = |bytes: [u8; 16]| match is_v6 {
                true => bytes.into(),
                false => [bytes[0], bytes[1], bytes[2], bytes[3]].into(),
            };
            compose::Ip {
                dscp: class >> 2,
                ecn: EcnCodepoint::from_bits(class),
                id,
                ..compose::Ip::new(of(source), of(destination))
            }
        },
    );
    let tcp =
        any::<(u16, u16, u32, u32, u16, u16)>().prop_map(|(a, b, seq, ack, flags, window)| {
            compose::Tcp {
                source_port: a,
                destination_port: b,
                seq: Seq(seq),
                ack: Seq(ack),
                flags: TcpFlags::from_bits(flags),
                window,
                urgent: 0,
            }
        });
    let payload = prop::collection::vec(any::<u8>(), 0..9);
    (ip, tcp, 0usize..4, any::<bool>(), payload).prop_map(
        |(ip, tcp, padding, has_options, payload)| Segment {
            ip,
            tcp,
            padding,
            has_options,
            payload,
        },
    )
}

impl Segment {
    fn write(&self, mss: u16, scale: u8, checksum: Checksum) -> Vec<u8> {
        // An unknown option of any length moves those behind it.
        let data = [0; 4];
        let unknown = TcpOption::Unknown {
            kind: 200,
            data: &data[..self.padding],
        };
        let options = [unknown, TcpOption::Mss(mss), TcpOption::WindowScale(scale)];
        let options = if self.has_options { &options[..] } else { &[] };
        let mut out = vec![0; 128];
        let length = compose::tcp(
            &self.ip,
            &self.tcp,
            options,
            &self.payload,
            checksum,
            &mut out,
        )
        .unwrap();
        out.truncate(length);
        out
    }
}

proptest! {
    /// The packet after some changes is the one that is composed with the changed fields: each byte,
    /// checksums included, whether they are complete or partial.
    #[test]
    fn rewriting_is_composing_anew(
        segment in segment(),
        (mss, scale) in any::<(u16, u8)>(),
        changes in prop::collection::vec(change(), 0..6),
        is_partial in any::<bool>(),
    ) {
        let checksum = if is_partial { Checksum::Partial } else { Checksum::Complete };
        let mut bytes = segment.write(mss, scale, checksum);
        let layout = Layout::of_ip(&bytes).unwrap();
        let mut expected = segment.clone();
        let (mut expected_mss, mut expected_scale) = (mss, scale);
        let mut rewriter = Rewriter::new(&mut bytes, layout, checksum);
        for change in changes {
            match change {
                Change::Ecn(bits) => {
                    expected.ip.ecn = EcnCodepoint::from_bits(bits);
                    rewriter.set_ecn(expected.ip.ecn);
                }
                Change::Window(window) => {
                    expected.tcp.window = window;
                    rewriter.set_window(window);
                }
                Change::Seq(seq) => {
                    expected.tcp.seq = Seq(seq);
                    rewriter.set_seq(Seq(seq));
                }
                Change::Ack(ack) => {
                    expected.tcp.ack = Seq(ack);
                    rewriter.set_ack(Seq(ack));
                }
                Change::Flags { set, clear } => {
                    let (set, clear) = (TcpFlags::from_bits(set), TcpFlags::from_bits(clear));
                    expected.tcp.flags = expected.tcp.flags.without(clear) | set;
                    rewriter.set_flags(set, clear);
                }
                Change::Mss(mss) => {
                    expected_mss = mss;
                    prop_assert_eq!(rewriter.set_mss(mss), segment.has_options);
                }
                Change::Scale(scale) => {
                    expected_scale = scale;
                    prop_assert_eq!(rewriter.set_window_scale(scale), segment.has_options);
                }
            }
        }
        prop_assert_eq!(&bytes, &expected.write(expected_mss, expected_scale, checksum));
        prop_assert!(is_partial || Packet::parse_ip(&bytes).unwrap().has_valid_checksums());
    }

    /// Of selective acknowledgements nothing stays but no-operations; the other options do.
    #[test]
    fn blank_acknowledgements_are_gone(
        segment in segment(),
        blocks in prop::collection::vec(any::<[u8; 8]>(), 1..3),
        is_twice in any::<bool>(),
    ) {
        let data = [0; 4];
        let unknown = TcpOption::Unknown { kind: 200, data: &data[..segment.padding] };
        let sack = TcpOption::Sack(SackBlocks::new(&blocks).unwrap());
        let clock = TcpOption::Timestamps { value: 1, echo: 2 };
        let mut options = vec![unknown, sack, clock];
        if is_twice && blocks.len() == 1 {
            options.push(sack);
        }
        let mut bytes = vec![0; 128];
        let checksum = Checksum::Complete;
        let length =
            compose::tcp(&segment.ip, &segment.tcp, &options, &segment.payload, checksum, &mut bytes).unwrap();
        bytes.truncate(length);
        let layout = Layout::of_ip(&bytes).unwrap();
        let mut rewriter = Rewriter::new(&mut bytes, layout, checksum);
        prop_assert!(rewriter.blank_sack());
        prop_assert!(!rewriter.blank_sack());
        let packet = Packet::parse_ip(&bytes).unwrap();
        prop_assert!(packet.has_valid_checksums());
        let left: Vec<_> = packet.tcp().unwrap().options().map(Result::unwrap).collect();
        prop_assert_eq!(left, vec![unknown, clock]);
        prop_assert_eq!(packet.tcp().unwrap().payload(), &segment.payload[..]);
    }

    /// A packet that arrived broken is not mended.
    #[test]
    fn a_wrong_checksum_stays_wrong(segment in segment(), window in any::<u16>(), error in 1u16..0xffff) {
        let mut bytes = segment.write(1460, 7, Checksum::Complete);
        let layout = Layout::of_ip(&bytes).unwrap();
        let at = layout.transport_offset() + 16;
        let right = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        // Modulo 0xffff, in which 0 and 0xffff are one.
        let wrong = (u32::from(right) + u32::from(error)) % 0xffff;
        bytes[at..at + 2].copy_from_slice(&(wrong as u16).to_be_bytes());
        prop_assert!(!Packet::parse_ip(&bytes).unwrap().has_valid_checksums());
        Rewriter::new(&mut bytes, layout, Checksum::Complete).set_window(window);
        prop_assert!(!Packet::parse_ip(&bytes).unwrap().has_valid_checksums());
    }

    /// With any layout and any bytes nothing panics.
    #[test]
    fn a_layout_of_another_packet_does_no_harm(
        segment in segment(),
        mut bytes in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let layout = Layout::of_ip(&segment.write(1460, 7, Checksum::Complete)).unwrap();
        let mut rewriter = Rewriter::new(&mut bytes, layout, Checksum::Complete);
        rewriter.set_ecn(EcnCodepoint::Ce);
        rewriter.set_window(0);
        rewriter.set_seq(Seq(1));
        rewriter.set_ack(Seq(1));
        rewriter.blank_sack();
        rewriter.set_flags(TcpFlags::ECE, TcpFlags::CWR);
        rewriter.set_mss(9);
        rewriter.set_window_scale(1);
    }
}

#[test]
fn udp_is_marked_and_nothing_else_of_it_changes() {
    let ip = compose::Ip::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let mut bytes = [0; 40];
    let length = compose::udp(&ip, (5, 6), b"abc", Checksum::Complete, &mut bytes).unwrap();
    let bytes = &mut bytes[..length];
    let before = bytes.to_vec();
    let layout = Layout::of_ip(bytes).unwrap();
    let mut rewriter = Rewriter::new(bytes, layout, Checksum::Complete);
    rewriter.set_window(7);
    rewriter.set_flags(TcpFlags::SYN, TcpFlags::NONE);
    assert!(!rewriter.set_mss(7));
    rewriter.set_ecn(EcnCodepoint::Ce);
    assert_eq!(bytes[20..], before[20..]);
    let packet = Packet::parse_ip(bytes).unwrap();
    assert_eq!(packet.ecn(), EcnCodepoint::Ce);
    assert!(packet.has_valid_checksums());
}

/// RFC 1624 §4: the example on which its predecessor's equation fails.
#[test]
fn the_example_of_rfc_1624() {
    use fairwater_wire::checksum::updated;
    assert_eq!(updated(0xdd2f, 0x5555, 0x3285), 0x0000);
}
