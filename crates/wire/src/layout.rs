//! Where the headers of a packet are.

use crate::bytes::{u8_at, u16_at};
use crate::ethernet::{self, ether_type};
use crate::ip::{self, Payload, protocol};
use crate::tcp::TCP_HEADER;
use crate::udp::UDP_HEADER;
use crate::{Fragment, Packet, ParseError, VlanTags};

/// What an IP packet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// A whole TCP segment.
    Tcp,
    /// A whole UDP datagram.
    Udp,
    /// A part of a packet of this protocol: only the first has the transport's header, and none has a
    /// checksum of its own.
    Fragment(u8, Fragment),
    /// Another protocol, by its number.
    Other(u8),
}

/// Where the headers of a packet are; found once, and good for as long as no length changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    pub(crate) vlan: VlanTags,
    pub(crate) is_v6: bool,
    pub(crate) transport: Transport,
    /// Offset of the IP header.
    pub(crate) network_at: usize,
    /// Offset of the transport's header.
    pub(crate) transport_at: usize,
    /// Offset of the transport's payload; of the transport where there is neither TCP nor UDP.
    pub(crate) payload_at: usize,
    /// Offset of the end of the packet, which Ethernet may have padded.
    pub(crate) end: usize,
}

impl Layout {
    /// Reads the headers of an Ethernet frame.
    ///
    /// # Errors
    /// The first reason for which a header cannot be read, [`ParseError::NotIp`] among them.
    pub fn of_ethernet(bytes: &[u8]) -> Result<Self, ParseError> {
        let (vlan, kind, at) = ethernet::parse(bytes)?;
        let version = match kind {
            ether_type::IPV4 => 4,
            ether_type::IPV6 => 6,
            _ => return Err(ParseError::NotIp),
        };
        if at < bytes.len() && u8_at(bytes, at) >> 4 != version {
            return Err(ParseError::IpVersion);
        }
        Self::of_version(bytes, version, at, vlan)
    }

    /// Reads the headers of an IP packet.
    ///
    /// # Errors
    /// The first reason for which a header cannot be read.
    pub fn of_ip(bytes: &[u8]) -> Result<Self, ParseError> {
        Self::of_version(bytes, u8_at(bytes, 0) >> 4, 0, VlanTags::NONE)
    }

    fn of_version(
        bytes: &[u8],
        version: u8,
        network_at: usize,
        vlan: VlanTags,
    ) -> Result<Self, ParseError> {
        let payload = match version {
            4 => ip::parse_v4(bytes, network_at)?,
            6 => ip::parse_v6(bytes, network_at)?,
            _ => return Err(ParseError::IpVersion),
        };
        let (transport, payload_at, end) = transport(bytes, payload)?;
        Ok(Self {
            vlan,
            is_v6: version == 6,
            transport,
            network_at,
            transport_at: payload.start,
            payload_at,
            end,
        })
    }

    /// The packet, to read its headers. With the bytes of another packet nothing is promised, but that
    /// nothing panics.
    #[must_use]
    pub const fn packet(self, bytes: &[u8]) -> Packet<'_> {
        Packet::new(bytes, self)
    }

    /// The VLAN tags in the frame. A tag that the device took off is not among them.
    #[must_use]
    pub const fn vlan(&self) -> VlanTags {
        self.vlan
    }

    /// Whether the packet is of IPv6.
    #[must_use]
    pub const fn is_v6(&self) -> bool {
        self.is_v6
    }

    /// What the packet carries.
    #[must_use]
    pub const fn transport(&self) -> Transport {
        self.transport
    }

    /// Offset of the IP header, bytes.
    #[must_use]
    pub const fn network_offset(&self) -> usize {
        self.network_at
    }

    /// Offset of the transport's header, bytes.
    #[must_use]
    pub const fn transport_offset(&self) -> usize {
        self.transport_at
    }

    /// Offset of the transport's payload, bytes.
    #[must_use]
    pub const fn payload_offset(&self) -> usize {
        self.payload_at
    }

    /// Offset of the end of the IP packet, bytes.
    #[must_use]
    pub const fn end(&self) -> usize {
        self.end
    }

    /// Bytes of the transport's header and payload, as the pseudo-header counts them.
    pub(crate) const fn transport_length(&self) -> u32 {
        (self.end - self.transport_at) as u32
    }

    /// The transport's protocol number.
    #[must_use]
    pub const fn protocol(&self) -> u8 {
        match self.transport {
            Transport::Tcp => protocol::TCP,
            Transport::Udp => protocol::UDP,
            Transport::Fragment(number, _) | Transport::Other(number) => number,
        }
    }
}

/// The transport, and where its payload begins and ends.
fn transport(bytes: &[u8], ip: Payload) -> Result<(Transport, usize, usize), ParseError> {
    if let Some(fragment) = ip.fragment {
        let transport = Transport::Fragment(ip.protocol, fragment);
        return Ok((transport, ip.start, ip.end));
    }
    let length = ip.end - ip.start;
    match ip.protocol {
        protocol::TCP => {
            if length < TCP_HEADER {
                return Err(ParseError::TcpTruncated);
            }
            let header = usize::from(u8_at(bytes, ip.start + 12) >> 4) * 4;
            if header < TCP_HEADER {
                return Err(ParseError::TcpDataOffset);
            }
            if length < header {
                return Err(ParseError::TcpTruncated);
            }
            Ok((Transport::Tcp, ip.start + header, ip.end))
        }
        protocol::UDP => {
            if length < UDP_HEADER {
                return Err(ParseError::UdpTruncated);
            }
            let datagram = match u16_at(bytes, ip.start + 4) {
                // RFC 2675 §4: a datagram in a jumbogram.
                0 if length > usize::from(u16::MAX) => length,
                datagram => usize::from(datagram),
            };
            if datagram < UDP_HEADER || datagram > length {
                return Err(ParseError::UdpLength);
            }
            let end = ip.start + datagram;
            Ok((Transport::Udp, ip.start + UDP_HEADER, end))
        }
        number => Ok((Transport::Other(number), ip.start, ip.end)),
    }
}
