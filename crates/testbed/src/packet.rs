//! Packets as the link between the hosts sees them.

use std::hash::{DefaultHasher, Hash, Hasher};

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use fairwater_net::{Ecn, Packet};
use fairwater_results::NO_FLOW;

/// The source port of measured flow 0; flow n has the n-th after it.
pub(crate) const FIRST_PORT: u16 = 40_000;

/// An IP packet, and what its headers said when it arrived.
#[derive(Debug)]
pub(crate) struct IpPacket {
    pub(crate) bytes: Vec<u8>,
    /// The measured flow that it is of, by its source port.
    pub(crate) flow: u8,
    /// Of addresses, ports and protocol.
    hash: u64,
}

impl IpPacket {
    /// Reads the headers; `flows` flows are measured.
    pub(crate) fn new(bytes: Vec<u8>, flows: usize) -> Self {
        let mut hasher = DefaultHasher::new();
        let mut flow = NO_FLOW;
        if let Ok(sliced) = SlicedPacket::from_ip(&bytes) {
            match &sliced.net {
                Some(NetSlice::Ipv4(ip)) => {
                    let header = ip.header();
                    (header.source(), header.destination(), header.protocol()).hash(&mut hasher);
                }
                Some(NetSlice::Ipv6(ip)) => {
                    let header = ip.header();
                    (header.source(), header.destination(), header.next_header()).hash(&mut hasher);
                }
                _ => {}
            }
            let ports = match &sliced.transport {
                Some(TransportSlice::Tcp(tcp)) => Some((tcp.source_port(), tcp.destination_port())),
                Some(TransportSlice::Udp(udp)) => Some((udp.source_port(), udp.destination_port())),
                _ => None,
            };
            ports.hash(&mut hasher);
            flow = ports.map_or(NO_FLOW, |(source, _)| measured(source, flows));
        }
        let hash = hasher.finish();
        IpPacket { bytes, flow, hash }
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
        let field = match self.bytes[..] {
            // RFC 3168 §5: the last two bits of the TOS octet, or of the traffic class.
            [first, tos, ..] if first >> 4 == 4 => tos & 0b11,
            [first, second, ..] if first >> 4 == 6 => (second >> 4) & 0b11,
            _ => 0,
        };
        [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(field)]
    }

    fn mark_ce(&mut self) {
        match self.bytes[..] {
            [first, ref mut tos, ..] if first >> 4 == 4 => {
                let before = u16::from_be_bytes([first, *tos]);
                *tos |= 0b11;
                let after = u16::from_be_bytes([first, *tos]);
                if let Some(checksum) = self.bytes.get_mut(10..12) {
                    let old = u16::from_be_bytes([checksum[0], checksum[1]]);
                    checksum.copy_from_slice(&updated(old, before, after).to_be_bytes());
                }
            }
            [first, ref mut second, ..] if first >> 4 == 6 => *second |= 0b11 << 4,
            _ => {}
        }
    }
}

/// A header's checksum once a 16-bit word of it has changed (RFC 1624 §3, equation 3).
fn updated(checksum: u16, before: u16, after: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
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
                    Ipv4Header::new(100, 64, IpNumber::TCP, [10, 0, 0, 1], [10, 0, 1, 1])
                        .expect("it fits");
                header.dscp = dscp.try_into().expect("six bits");
                header.ecn = field.try_into().expect("two bits");
                header.identification = u16::from(dscp) * 1021;
                header.header_checksum = header.calc_header_checksum();
                let mut packet = IpPacket::new(header.to_bytes().to_vec(), 0);
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
