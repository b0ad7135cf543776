//! Packets as the link between the hosts sees them.

use std::hash::{DefaultHasher, Hash, Hasher};

use fairwater_net::{Ecn, Packet};
use fairwater_results::NO_FLOW;
use fairwater_wire::{Checksum, EcnCodepoint, Layout, Rewriter};

/// The source port of measured flow 0; flow n has the n-th after it.
pub(crate) const FIRST_PORT: u16 = 40_000;

/// An IP packet, and what its headers said when it arrived.
#[derive(Debug)]
pub(crate) struct IpPacket {
    pub(crate) bytes: Vec<u8>,
    /// The measured flow that it is of, by its source port.
    pub(crate) flow: u8,
    /// Hash of addresses, ports and protocol.
    hash: u64,
    /// Where the headers are; `None` when they cannot be read.
    layout: Option<Layout>,
}

impl IpPacket {
    /// Reads the headers; `flows` flows are measured.
    pub(crate) fn new(bytes: Vec<u8>, flows: usize) -> Self {
        let mut hasher = DefaultHasher::new();
        let mut flow = NO_FLOW;
        let packet = fairwater_wire::Packet::parse_ip(&bytes).ok();
        if let Some(packet) = packet {
            let ports = match (packet.tcp(), packet.udp()) {
                (Some(tcp), _) => Some((tcp.source_port(), tcp.destination_port())),
                (_, Some(udp)) => Some((udp.source_port(), udp.destination_port())),
                _ => None,
            };
            (packet.source(), packet.destination()).hash(&mut hasher);
            (packet.layout().protocol(), ports).hash(&mut hasher);
            flow = ports.map_or(NO_FLOW, |(source, _)| measured(source, flows));
        }
        let layout = packet.map(|packet| packet.layout());
        let hash = hasher.finish();
        IpPacket {
            bytes,
            flow,
            hash,
            layout,
        }
    }
}

/// The measured flow with this source port.
fn measured(source_port: u16, flows: usize) -> u8 {
    match source_port.checked_sub(FIRST_PORT) {
        Some(flow) if usize::from(flow) < flows => flow as u8,
        _ => NO_FLOW,
    }
}

impl Packet for IpPacket {
    fn size_bytes(&self) -> u32 {
        self.bytes.len() as u32
    }

    fn flow(&self) -> u64 {
        self.hash
    }

    fn ecn(&self) -> Ecn {
        let packet = self.layout.map(|layout| layout.packet(&self.bytes));
        match packet.map(|packet| packet.ecn()) {
            None | Some(EcnCodepoint::NotEct) => Ecn::NotEct,
            Some(EcnCodepoint::Ect0) => Ecn::Ect0,
            Some(EcnCodepoint::Ect1) => Ecn::Ect1,
            Some(EcnCodepoint::Ce) => Ecn::Ce,
        }
    }

    fn mark_ce(&mut self) {
        if let Some(layout) = self.layout {
            Rewriter::new(&mut self.bytes, layout, Checksum::Complete).set_ecn(EcnCodepoint::Ce);
        }
    }
}

#[cfg(test)]
mod tests {
    use etherparse::{IpNumber, Ipv4Header, Ipv6Header, PacketBuilder};

    use super::*;

    fn udp(port: u16, ipv6: bool) -> Vec<u8> {
        let builder = if ipv6 {
            PacketBuilder::ipv6([1; 16], [2; 16], 64).udp(port, 9)
        } else {
            PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 1, 1], 64).udp(port, 9)
        };
        let mut packet = Vec::new();
        builder.write(&mut packet, &[7; 20]).expect("memory");
        packet
    }

    #[test]
    fn a_packet_is_of_the_flow_its_source_port_names() {
        let flow_of = |bytes: Vec<u8>| IpPacket::new(bytes, 2).flow;
        for ipv6 in [false, true] {
            assert_eq!(flow_of(udp(FIRST_PORT, ipv6)), 0);
            assert_eq!(flow_of(udp(FIRST_PORT + 1, ipv6)), 1);
            assert_eq!(flow_of(udp(FIRST_PORT + 2, ipv6)), NO_FLOW);
            assert_eq!(flow_of(udp(FIRST_PORT - 1, ipv6)), NO_FLOW);
        }
        assert_eq!(flow_of(udp(FIRST_PORT, false)[..22].to_vec()), NO_FLOW);
        assert_eq!(flow_of(Vec::new()), NO_FLOW);
    }

    #[test]
    fn the_hash_is_of_the_flow_alone() {
        let hash = |bytes: &[u8]| IpPacket::new(bytes.to_vec(), 2).flow();
        for ipv6 in [false, true] {
            let packet = udp(FIRST_PORT, ipv6);
            let mut marked = IpPacket::new(packet.clone(), 2);
            marked.mark_ce();
            assert_eq!(hash(&packet), hash(&marked.bytes));
            assert_ne!(hash(&packet), hash(&udp(FIRST_PORT + 1, ipv6)));
        }
        assert_ne!(hash(&udp(1, false)), hash(&udp(1, true)));
    }

    #[test]
    fn a_mark_sets_the_field_and_keeps_the_checksum_right() {
        for (field, ecn) in [
            (0, Ecn::NotEct),
            (1, Ecn::Ect1),
            (2, Ecn::Ect0),
            (3, Ecn::Ce),
        ] {
            for dscp in [0, 1, 46, 63] {
                let mut header =
                    Ipv4Header::new(100, 64, IpNumber(253), [10, 0, 0, 1], [10, 0, 1, 1])
                        .expect("it fits");
                header.dscp = dscp.try_into().expect("six bits");
                header.ecn = field.try_into().expect("two bits");
                header.identification = u16::from(dscp) * 1021;
                header.header_checksum = header.calc_header_checksum();
                let mut bytes = header.to_bytes().to_vec();
                bytes.resize(120, 0);
                let mut packet = IpPacket::new(bytes, 0);
                assert_eq!(packet.ecn(), ecn);
                packet.mark_ce();
                assert_eq!(packet.ecn(), Ecn::Ce);
                let (marked, _) = Ipv4Header::from_slice(&packet.bytes).expect("a header");
                assert_eq!(marked.header_checksum, marked.calc_header_checksum());
                assert_eq!(marked.dscp, header.dscp);

                let header = Ipv6Header {
                    traffic_class: dscp << 2 | field,
                    flow_label: 0xf_ffffu32.try_into().expect("twenty bits"),
                    ..Ipv6Header::default()
                };
                let mut packet = IpPacket::new(header.to_bytes().to_vec(), 0);
                assert_eq!(packet.ecn(), ecn);
                packet.mark_ce();
                let (marked, _) = Ipv6Header::from_slice(&packet.bytes).expect("a header");
                assert_eq!(marked.traffic_class, dscp << 2 | 3);
                assert_eq!(marked.flow_label, header.flow_label);
            }
        }
    }

    #[test]
    fn what_is_no_packet_cannot_be_marked() {
        for bytes in [
            vec![],
            vec![0x45],
            vec![0x45, 0],
            vec![0; 40],
            vec![0xff; 3],
        ] {
            let mut packet = IpPacket::new(bytes, 0);
            packet.mark_ce();
            packet.ecn();
        }
    }
}
