//! A packet whose headers are found.

use core::net::IpAddr;

use crate::bytes::{array_at, u8_at, u16_at};
use crate::checksum::Sum;
use crate::ip::IPV6_HEADER;
use crate::{EcnCodepoint, Layout, ParseError, Tcp, Transport, Udp};

/// A packet whose headers are found.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    layout: Layout,
}

impl<'a> Packet<'a> {
    /// Reads the headers of an IP packet.
    ///
    /// # Errors
    /// See [`Layout::of_ip`].
    pub fn parse_ip(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let layout = Layout::of_ip(bytes)?;
        Ok(Self { bytes, layout })
    }

    /// Reads the headers of an Ethernet frame.
    ///
    /// # Errors
    /// See [`Layout::of_ethernet`].
    pub fn parse_ethernet(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let layout = Layout::of_ethernet(bytes)?;
        Ok(Self { bytes, layout })
    }

    pub(crate) const fn new(bytes: &'a [u8], layout: Layout) -> Self {
        Self { bytes, layout }
    }

    /// Where its headers are.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// The IP packet without the link's header and padding.
    #[must_use]
    pub fn ip_bytes(&self) -> &'a [u8] {
        self.range(self.layout.network_at, self.layout.end)
    }

    /// Length that the IP header states, bytes: the header and all that follows. The payload of UDP may end
    /// before it.
    #[must_use]
    pub fn ip_length(&self) -> usize {
        let at = self.layout.network_at;
        let stated = if self.layout.is_v6 {
            match u16_at(self.bytes, at + 4) {
                0 => 0,
                payload => IPV6_HEADER + usize::from(payload),
            }
        } else {
            usize::from(u16_at(self.bytes, at + 2))
        };
        // Jumbograms and BIG TCP state 0.
        stated.max(self.layout.end - at)
    }

    /// The identification field of IPv4 (RFC 6864); `None` for IPv6.
    #[must_use]
    pub fn ipv4_id(&self) -> Option<u16> {
        (!self.layout.is_v6).then(|| u16_at(self.bytes, self.layout.network_at + 4))
    }

    /// The sender's address.
    #[must_use]
    pub fn source(&self) -> IpAddr {
        if self.layout.is_v6 {
            IpAddr::from(array_at::<16>(self.bytes, self.layout.network_at + 8))
        } else {
            IpAddr::from(array_at::<4>(self.bytes, self.layout.network_at + 12))
        }
    }

    /// The receiver's address.
    #[must_use]
    pub fn destination(&self) -> IpAddr {
        if self.layout.is_v6 {
            IpAddr::from(array_at::<16>(self.bytes, self.layout.network_at + 24))
        } else {
            IpAddr::from(array_at::<4>(self.bytes, self.layout.network_at + 16))
        }
    }

    /// The TOS octet of IPv4 or the traffic class of IPv6: DSCP, and ECN in the last two bits.
    #[must_use]
    pub fn traffic_class(&self) -> u8 {
        let at = self.layout.network_at;
        if self.layout.is_v6 {
            (u16_at(self.bytes, at) >> 4) as u8
        } else {
            u8_at(self.bytes, at + 1)
        }
    }

    /// The ECN field.
    #[must_use]
    pub fn ecn(&self) -> EcnCodepoint {
        EcnCodepoint::from_bits(self.traffic_class())
    }

    /// The TCP segment, if the packet is a whole one.
    #[must_use]
    #[inline]
    pub fn tcp(&self) -> Option<Tcp<'a>> {
        (self.layout.transport == Transport::Tcp).then(|| {
            let header = self.layout.payload_at - self.layout.transport_at;
            Tcp::new(self.transport_bytes(), header)
        })
    }

    /// The UDP datagram, if the packet is a whole one.
    #[must_use]
    pub fn udp(&self) -> Option<Udp<'a>> {
        (self.layout.transport == Transport::Udp).then(|| Udp::new(self.transport_bytes()))
    }

    /// The transport's header and payload.
    fn transport_bytes(&self) -> &'a [u8] {
        self.range(self.layout.transport_at, self.layout.end)
    }

    fn range(&self, start: usize, end: usize) -> &'a [u8] {
        self.bytes.get(start..end).unwrap_or(&[])
    }

    /// Whether the checksums of the IPv4 header and of TCP or UDP are right, where there are any. A
    /// partial checksum ([`crate::Checksum::Partial`]) is not.
    #[must_use]
    pub fn has_valid_checksums(&self) -> bool {
        let header = self.range(self.layout.network_at, self.ip_header_end());
        if !self.layout.is_v6 && Sum::ZERO.bytes(header).checksum() != 0 {
            return false;
        }
        let is_absent = !self.layout.is_v6 && self.udp().is_some_and(|udp| udp.checksum() == 0);
        match self.layout.transport {
            Transport::Tcp | Transport::Udp if !is_absent => {
                let sum = self.pseudo_header().bytes(self.transport_bytes());
                sum.checksum() == 0
            }
            _ => true,
        }
    }

    /// The sum of the pseudo-header.
    #[must_use]
    pub fn pseudo_header(&self) -> Sum {
        Sum::ZERO.pseudo_header(
            self.source(),
            self.destination(),
            self.layout.protocol(),
            self.layout.transport_length(),
        )
    }

    /// End of the IPv4 header; without a meaning for IPv6.
    fn ip_header_end(&self) -> usize {
        let at = self.layout.network_at;
        at + usize::from(u8_at(self.bytes, at) & 0x0f) * 4
    }
}
