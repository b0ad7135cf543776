//! Messages that a packet was too big for the path (RFC 1191, RFC 8201).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use fairwater_wire::{Packet, Seq, Transport};

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const TCP: u8 = 6;

/// A packet was too big.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooBig {
    /// Ends of the connection: this one's, and the peer's.
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// Sequence number of the segment.
    pub(crate) seq: Seq,
    /// The largest packet that fits, bytes.
    pub(crate) mtu: u32,
}

impl TooBig {
    /// Reads the message; `None` if the packet is something else. The quoted segment's checksum is not whole, so that
    /// nothing but the sequence number tells that the message is genuine (RFC 5927 §4.1).
    pub(crate) fn parse(packet: &Packet<'_>) -> Option<Self> {
        let Transport::Other(protocol) = packet.layout().transport() else {
            return None;
        };
        let layout = packet.layout();
        let at = layout
            .transport_offset()
            .checked_sub(layout.network_offset())?;
        let message = packet.ip_bytes().get(at..)?;
        let (&[kind, code], quoted) = (message.first_chunk::<2>()?, message.get(8..)?);
        match (protocol, kind, code) {
            (ICMP, 3, 4) => Self::of_v4(u16_at(message, 6)?.into(), quoted),
            (ICMPV6, 2, _) => Self::of_v6(u32_at(message, 4)?, quoted),
            _ => None,
        }
    }

    fn of_v4(mtu: u32, quoted: &[u8]) -> Option<Self> {
        let header = usize::from(quoted.first()? & 0x0f) * 4;
        if quoted.first()? >> 4 != 4 || header < 20 || *quoted.get(9)? != TCP {
            return None;
        }
        let address = |at: usize| -> Option<IpAddr> {
            let octets: [u8; 4] = *quoted.get(at..)?.first_chunk()?;
            Some(Ipv4Addr::from(octets).into())
        };
        Self::of_tcp(mtu, address(12)?, address(16)?, quoted.get(header..)?)
    }

    fn of_v6(mtu: u32, quoted: &[u8]) -> Option<Self> {
        if quoted.first()? >> 4 != 6 || *quoted.get(6)? != TCP {
            return None;
        }
        let address = |at: usize| -> Option<IpAddr> {
            let octets: [u8; 16] = *quoted.get(at..)?.first_chunk()?;
            Some(Ipv6Addr::from(octets).into())
        };
        Self::of_tcp(mtu, address(8)?, address(24)?, quoted.get(40..)?)
    }

    fn of_tcp(mtu: u32, source: IpAddr, destination: IpAddr, tcp: &[u8]) -> Option<Self> {
        Some(Self {
            local: SocketAddr::new(source, u16_at(tcp, 0)?),
            remote: SocketAddr::new(destination, u16_at(tcp, 2)?),
            seq: Seq(u32_at(tcp, 4)?),
            mtu,
        })
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes
        .get(at..)?
        .first_chunk()
        .copied()
        .map(u16::from_be_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk()
        .copied()
        .map(u32::from_be_bytes)
}
