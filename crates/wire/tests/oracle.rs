//! Packets that `etherparse` writes are read as it reads them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::IpAddr;

use etherparse::{
    IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header, NetSlice, PacketBuilder, SlicedPacket,
    TcpHeader, TcpOptionElement, TransportSlice,
};
use fairwater_wire::{
    Checksum, Packet, Seq, TcpFlags, TcpOption, Transport, compose, compose::ComposeError,
};
use proptest::prelude::*;

/// The fields of a packet, in the oracle's types.
#[derive(Debug, Clone)]
struct Fields {
    is_v6: bool,
    source: [u8; 16],
    destination: [u8; 16],
    class: u8,
    label: u32,
    hops: u8,
    tcp: Option<TcpHeader>,
    ports: (u16, u16),
    payload: Vec<u8>,
}

fn option() -> impl Strategy<Value = TcpOptionElement> {
    prop_oneof![
        Just(TcpOptionElement::Noop),
        any::<u16>().prop_map(TcpOptionElement::MaximumSegmentSize),
        any::<u8>().prop_map(TcpOptionElement::WindowScale),
        Just(TcpOptionElement::SelectiveAcknowledgementPermitted),
        any::<(u32, u32)>().prop_map(|(a, b)| TcpOptionElement::Timestamp(a, b)),
        any::<((u32, u32), Option<(u32, u32)>)>().prop_map(|(first, second)| {
            TcpOptionElement::SelectiveAcknowledgement(first, [second, None, None])
        }),
    ]
}

fn tcp() -> impl Strategy<Value = TcpHeader> {
    let numbers = any::<(u16, u16, u32, u32, u16, u16)>();
    let options = prop::collection::vec(option(), 0..5);
    (numbers, any::<u16>(), options).prop_map(|(numbers, flags, options)| {
        let (source, destination, seq, ack, window, urgent) = numbers;
        let mut header = TcpHeader::new(source, destination, seq, window);
        header.acknowledgment_number = ack;
        header.urgent_pointer = urgent;
        let flag = |bit: u32| flags >> bit & 1 == 1;
        (header.fin, header.syn, header.rst) = (flag(0), flag(1), flag(2));
        (header.psh, header.ack, header.urg) = (flag(3), flag(4), flag(5));
        (header.ece, header.cwr, header.ns) = (flag(6), flag(7), flag(8));
        // Those that are too long for a header stay away.
        let _ = header.set_options(&options);
        header
    })
}

fn fields() -> impl Strategy<Value = Fields> {
    (
        any::<(bool, [u8; 16], [u8; 16], u8)>(),
        0..=0xf_ffffu32,
        any::<u8>(),
        prop::option::weighted(0.8, tcp()),
        any::<(u16, u16)>(),
        prop::collection::vec(any::<u8>(), 0..100),
    )
        .prop_map(
            |((is_v6, source, destination, class), label, hops, tcp, ports, payload)| Fields {
                is_v6,
                source,
                destination,
                class,
                label,
                hops,
                tcp,
                ports,
                payload,
            },
        )
}

impl Fields {
    fn addresses(&self) -> (IpAddr, IpAddr) {
        let of = |bytes: [u8; 16]| match self.is_v6 {
            true => IpAddr::from(bytes),
            false => IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]]),
        };
        (of(self.source), of(self.destination))
    }

    /// The packet as the oracle writes it.
    fn write(&self) -> Vec<u8> {
        let builder = if self.is_v6 {
            PacketBuilder::ip(etherparse::IpHeaders::Ipv6(
                Ipv6Header {
                    traffic_class: self.class,
                    flow_label: Ipv6FlowLabel::try_new(self.label).unwrap(),
                    hop_limit: self.hops,
                    source: self.source,
                    destination: self.destination,
                    ..Ipv6Header::default()
                },
                Default::default(),
            ))
        } else {
            let at = |bytes: [u8; 16]| [bytes[0], bytes[1], bytes[2], bytes[3]];
            let (source, destination) = (at(self.source), at(self.destination));
            let mut header =
                Ipv4Header::new(0, self.hops, IpNumber::TCP, source, destination).unwrap();
            header.dscp = (self.class >> 2).try_into().unwrap();
            header.ecn = (self.class & 3).try_into().unwrap();
            PacketBuilder::ip(etherparse::IpHeaders::Ipv4(header, Default::default()))
        };
        let mut out = Vec::new();
        match &self.tcp {
            Some(tcp) => builder
                .tcp_header(tcp.clone())
                .write(&mut out, &self.payload),
            None => builder
                .udp(self.ports.0, self.ports.1)
                .write(&mut out, &self.payload),
        }
        .unwrap();
        out
    }
}

/// The flags of the oracle's header.
fn flags(tcp: &TcpHeader) -> TcpFlags {
    [
        (tcp.fin, TcpFlags::FIN),
        (tcp.syn, TcpFlags::SYN),
        (tcp.rst, TcpFlags::RST),
        (tcp.psh, TcpFlags::PSH),
        (tcp.ack, TcpFlags::ACK),
        (tcp.urg, TcpFlags::URG),
        (tcp.ece, TcpFlags::ECE),
        (tcp.cwr, TcpFlags::CWR),
        (tcp.ns, TcpFlags::AE),
    ]
    .into_iter()
    .filter(|(is_set, _)| *is_set)
    .fold(TcpFlags::NONE, |all, (_, flag)| all | flag)
}

/// An option as the oracle has it.
fn as_oracle(option: TcpOption<'_>) -> TcpOptionElement {
    match option {
        TcpOption::Mss(mss) => TcpOptionElement::MaximumSegmentSize(mss),
        TcpOption::WindowScale(shift) => TcpOptionElement::WindowScale(shift),
        TcpOption::SackPermitted => TcpOptionElement::SelectiveAcknowledgementPermitted,
        TcpOption::Timestamps { value, echo } => TcpOptionElement::Timestamp(value, echo),
        TcpOption::Sack(blocks) => {
            let mut blocks = blocks.iter().map(|block| (block.start.0, block.end.0));
            let first = blocks.next().unwrap();
            TcpOptionElement::SelectiveAcknowledgement(
                first,
                [blocks.next(), blocks.next(), blocks.next()],
            )
        }
        other => panic!("{other:?} was not written"),
    }
}

proptest! {
    #[test]
    fn packets_of_the_oracle_are_read_as_written(fields in fields()) {
        let bytes = fields.write();
        let packet = Packet::parse_ip(&bytes).unwrap();
        let (source, destination) = fields.addresses();
        prop_assert_eq!(packet.source(), source);
        prop_assert_eq!(packet.destination(), destination);
        prop_assert_eq!(packet.traffic_class(), fields.class);
        prop_assert_eq!(packet.ecn().bits(), fields.class & 3);
        prop_assert_eq!(packet.layout().is_v6(), fields.is_v6);
        prop_assert!(packet.has_valid_checksums());
        let Some(expected) = &fields.tcp else {
            let udp = packet.udp().unwrap();
            prop_assert_eq!((udp.source_port(), udp.destination_port()), fields.ports);
            prop_assert_eq!(udp.payload(), &fields.payload[..]);
            prop_assert!(packet.tcp().is_none());
            return Ok(());
        };
        let tcp = packet.tcp().unwrap();
        prop_assert_eq!(tcp.source_port(), expected.source_port);
        prop_assert_eq!(tcp.destination_port(), expected.destination_port);
        prop_assert_eq!(tcp.seq(), Seq(expected.sequence_number));
        prop_assert_eq!(tcp.ack(), Seq(expected.acknowledgment_number));
        prop_assert_eq!(tcp.window(), expected.window_size);
        prop_assert_eq!(tcp.urgent(), expected.urgent_pointer);
        prop_assert_eq!(tcp.flags(), flags(expected));
        prop_assert_eq!(tcp.header_length(), expected.header_len());
        prop_assert_eq!(tcp.payload(), &fields.payload[..]);
        let read: Vec<_> = tcp.options().map(|option| as_oracle(option.unwrap())).collect();
        let written: Vec<_> = expected
            .options_iterator()
            .map(Result::unwrap)
            .filter(|option| *option != TcpOptionElement::Noop)
            .collect();
        prop_assert_eq!(read, written);
    }

    /// What cannot be told from each other by the oracle is the same packet.
    #[test]
    fn composed_packets_are_read_by_the_oracle(fields in fields()) {
        let (source, destination) = fields.addresses();
        let mut ip = compose::Ip::new(source, destination);
        ip.dscp = fields.class >> 2;
        ip.ecn = fairwater_wire::EcnCodepoint::from_bits(fields.class);
        ip.flow_label = fields.label;
        ip.hop_limit = fields.hops;
        let theirs = fields.write();
        let mut ours = vec![0xaa; theirs.len() + 40];
        let written = match &fields.tcp {
            Some(tcp) => {
                let packet = Packet::parse_ip(&theirs).unwrap();
                let options = packet.tcp().unwrap();
                let options: Vec<_> = options.options().map(Result::unwrap).collect();
                let header = compose::Tcp {
                    source_port: tcp.source_port,
                    destination_port: tcp.destination_port,
                    seq: Seq(tcp.sequence_number),
                    ack: Seq(tcp.acknowledgment_number),
                    flags: flags(tcp),
                    window: tcp.window_size,
                    urgent: tcp.urgent_pointer,
                };
                compose::tcp(&ip, &header, &options, &fields.payload, Checksum::Complete, &mut ours)
            }
            None => {
                compose::udp(&ip, fields.ports, &fields.payload, Checksum::Complete, &mut ours)
            }
        };
        ours.truncate(written.unwrap());
        let sliced = SlicedPacket::from_ip(&ours).unwrap();
        match (&sliced.net, fields.is_v6) {
            (Some(NetSlice::Ipv4(read)), false) => {
                let header = read.header().to_header();
                prop_assert_eq!(header.header_checksum, header.calc_header_checksum());
                prop_assert_eq!(header.dscp.value() << 2 | header.ecn.value(), fields.class);
                prop_assert_eq!(header.time_to_live, fields.hops);
                prop_assert!(header.dont_fragment);
            }
            (Some(NetSlice::Ipv6(read)), true) => {
                let header = read.header().to_header();
                prop_assert_eq!(header.traffic_class, fields.class);
                prop_assert_eq!(header.flow_label.value(), fields.label);
                prop_assert_eq!(header.hop_limit, fields.hops);
            }
            other => prop_assert!(false, "{:?}", other),
        }
        match (&sliced.transport, &fields.tcp) {
            (Some(TransportSlice::Tcp(read)), Some(expected)) => {
                let header = read.to_header();
                prop_assert_eq!(read.payload(), &fields.payload[..]);
                let checksum = match &sliced.net {
                    Some(NetSlice::Ipv4(ip)) => header.calc_checksum_ipv4(&ip.header().to_header(), read.payload()),
                    Some(NetSlice::Ipv6(ip)) => header.calc_checksum_ipv6(&ip.header().to_header(), read.payload()),
                    _ => unreachable!(),
                };
                prop_assert_eq!(header.checksum, checksum.unwrap());
                prop_assert_eq!(header.sequence_number, expected.sequence_number);
                prop_assert_eq!(flags(&header), flags(expected));
                prop_assert_eq!(header.window_size, expected.window_size);
                let plain = |header: &TcpHeader| -> Vec<_> {
                    let options = header.options_iterator().map(Result::unwrap);
                    options.filter(|option| *option != TcpOptionElement::Noop).collect()
                };
                prop_assert_eq!(plain(&header), plain(expected));
            }
            // The oracle's checksum of UDP is never 0 either.
            (Some(TransportSlice::Udp(_)), None) => {
                let theirs = Packet::parse_ip(&theirs).unwrap().udp().unwrap().checksum();
                let ours = Packet::parse_ip(&ours).unwrap().udp().unwrap().checksum();
                prop_assert_eq!(ours, theirs);
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }

    /// A partial checksum becomes a complete one by adding the segment, as a device does.
    #[test]
    fn a_device_completes_a_partial_checksum(fields in fields()) {
        let bytes = fields.write();
        let packet = Packet::parse_ip(&bytes).unwrap();
        let (at, field) = match packet.layout().transport() {
            Transport::Tcp => (packet.layout().transport_offset(), 16),
            _ => (packet.layout().transport_offset(), 6),
        };
        let partial = packet.pseudo_header().folded();
        let mut offloaded = bytes.clone();
        offloaded[at + field..at + field + 2].copy_from_slice(&partial.to_be_bytes());
        let completed = fairwater_wire::checksum::Sum::ZERO.bytes(&offloaded[at..]).checksum();
        let expected = u16::from_be_bytes([bytes[at + field], bytes[at + field + 1]]);
        prop_assert!(completed == expected || (completed, expected) == (0, 0xffff));
    }
}

#[test]
fn tags_of_frames_are_read_as_the_oracle_writes_them() {
    let payload = [1, 2, 3];
    let build = || PacketBuilder::ethernet2([2; 6], [4; 6]);
    let id = |id: u16| id.try_into().unwrap();
    let mut frames = [Vec::new(), Vec::new(), Vec::new()];
    build()
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9)
        .tcp(1, 2, 3, 4)
        .write(&mut frames[0], &payload)
        .unwrap();
    build()
        .single_vlan(id(100))
        .ipv6([1; 16], [2; 16], 9)
        .tcp(1, 2, 3, 4)
        .write(&mut frames[1], &payload)
        .unwrap();
    build()
        .double_vlan(id(4095), id(1))
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9)
        .udp(1, 2)
        .write(&mut frames[2], &payload)
        .unwrap();
    let expected: [&[u16]; 3] = [&[], &[100], &[4095, 1]];
    for (mut frame, ids) in frames.into_iter().zip(expected) {
        // Ethernet pads short frames.
        frame.resize(frame.len() + 30, 0);
        let packet = Packet::parse_ethernet(&frame).unwrap();
        assert_eq!(packet.layout().vlan().ids(), ids);
        assert!(packet.has_valid_checksums());
        let read = match packet.tcp() {
            Some(tcp) => (tcp.source_port(), tcp.destination_port(), tcp.payload()),
            None => {
                let udp = packet.udp().unwrap();
                (udp.source_port(), udp.destination_port(), udp.payload())
            }
        };
        assert_eq!(read, (1, 2, &payload[..]));
        // What we write in front of the packet is what the oracle wrote.
        let mut header = [0; 22];
        let vlan = packet.layout().vlan();
        let length =
            compose::ethernet([2; 6], [4; 6], vlan, packet.layout().is_v6(), &mut header).unwrap();
        assert_eq!(length, packet.layout().network_offset());
        assert_eq!(header[..12], frame[..12]);
        assert_eq!(header[length - 2..length], frame[length - 2..length]);
    }
}

#[test]
fn what_does_not_fit_is_not_composed() {
    let v4 = compose::Ip::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let mixed = compose::Ip::new([10, 0, 0, 1].into(), IpAddr::from([1; 16]));
    let header = compose::Tcp::default();
    let mut out = vec![0; 70_000];
    let md5 = TcpOption::Md5([0; 16]);
    let write = |ip: &compose::Ip, options: &[TcpOption<'_>], payload: usize, out: &mut [u8]| {
        let payload = vec![0; payload];
        compose::tcp(ip, &header, options, &payload, Checksum::Complete, out)
    };
    assert_eq!(write(&mixed, &[], 0, &mut out), Err(ComposeError::Families));
    assert_eq!(
        write(&v4, &[md5, md5, md5], 0, &mut out),
        Err(ComposeError::Options)
    );
    assert_eq!(write(&v4, &[md5, md5], 0, &mut out), Ok(76));
    assert_eq!(
        write(&v4, &[], 65_496, &mut out),
        Err(ComposeError::TooLong)
    );
    assert_eq!(write(&v4, &[], 65_495, &mut out), Ok(65_535));
    assert_eq!(
        write(&v4, &[], 1, &mut out[..40]),
        Err(ComposeError::NoRoom(41))
    );
}
