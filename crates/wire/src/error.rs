//! Why a packet cannot be read.

use thiserror::Error;

/// The first reason for which a packet cannot be read. One byte, an index for counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Error)]
#[non_exhaustive]
#[repr(u8)]
pub enum ParseError {
    /// Shorter than an Ethernet header.
    #[error("the frame ends within its Ethernet header")]
    EthernetTruncated,
    /// A VLAN tag without its four bytes.
    #[error("the frame ends within a VLAN tag")]
    VlanTruncated,
    /// More tags than [`MAX_VLAN_TAGS`](crate::MAX_VLAN_TAGS).
    #[error("the frame has more than two VLAN tags")]
    VlanDepth,
    /// ARP, LLDP and whatever else Ethernet carries.
    #[error("the frame carries no IP packet")]
    NotIp,
    /// Neither 4 nor 6, or not the version that the frame's type says.
    #[error("the IP version is not the expected one")]
    IpVersion,
    /// Shorter than the IPv4 header says that it is.
    #[error("the packet ends within its IPv4 header")]
    Ipv4Truncated,
    /// Below 20 bytes (RFC 791 §3.1).
    #[error("the IPv4 header length is below 20 bytes")]
    Ipv4HeaderLength,
    /// Shorter than the header, or longer than what is there.
    #[error("the IPv4 total length does not fit the packet")]
    Ipv4TotalLength,
    /// Shorter than 40 bytes.
    #[error("the packet ends within its IPv6 header")]
    Ipv6Truncated,
    /// Longer than what is there.
    #[error("the IPv6 payload length does not fit the packet")]
    Ipv6PayloadLength,
    /// An extension header that goes beyond the packet.
    #[error("the packet ends within an IPv6 extension header")]
    Ipv6ExtensionTruncated,
    /// More extension headers than a reader follows.
    #[error("the packet has more than eight IPv6 extension headers")]
    Ipv6ExtensionCount,
    /// A jumbo payload option that RFC 2675 §3 forbids, or a zero payload length without one.
    #[error("the IPv6 jumbo payload option is missing or wrong")]
    Ipv6Jumbo,
    /// A routing header with segments left: the destination address is not the receiver's.
    #[error("the IPv6 packet is source-routed and not at its last segment")]
    Ipv6Routed,
    /// Shorter than a TCP header, or than its data offset says.
    #[error("the packet ends within its TCP header")]
    TcpTruncated,
    /// Below 20 bytes (RFC 9293 §3.1).
    #[error("the TCP data offset is below 20 bytes")]
    TcpDataOffset,
    /// Shorter than a UDP header.
    #[error("the packet ends within its UDP header")]
    UdpTruncated,
    /// Below 8, or longer than what is there (RFC 768).
    #[error("the UDP length does not fit the packet")]
    UdpLength,
    /// A kind without a length, or a length beyond the header.
    #[error("a TCP option goes beyond the header")]
    TcpOptionTruncated,
    /// A length of 0 or 1, or one that the option's kind does not have.
    #[error("a TCP option has a length that its kind does not have")]
    TcpOptionLength,
}

impl ParseError {
    /// Every reason, by index.
    pub const ALL: [Self; 20] = [
        Self::EthernetTruncated,
        Self::VlanTruncated,
        Self::VlanDepth,
        Self::NotIp,
        Self::IpVersion,
        Self::Ipv4Truncated,
        Self::Ipv4HeaderLength,
        Self::Ipv4TotalLength,
        Self::Ipv6Truncated,
        Self::Ipv6PayloadLength,
        Self::Ipv6ExtensionTruncated,
        Self::Ipv6ExtensionCount,
        Self::Ipv6Jumbo,
        Self::Ipv6Routed,
        Self::TcpTruncated,
        Self::TcpDataOffset,
        Self::UdpTruncated,
        Self::UdpLength,
        Self::TcpOptionTruncated,
        Self::TcpOptionLength,
    ];

    /// How many reasons there are.
    pub const COUNT: usize = Self::ALL.len();

    /// The reason's place in [`ParseError::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}
