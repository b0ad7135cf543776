//! Offsets and constants of the memory that the programs share with the process, taken from the types
//! of `bpf/edge.h`. The compiler compares them with what Rust relies on.

use std::mem::size_of;

use fairwater_wire::ParseError;

use crate::skeleton::types;

/// Most rules that are in force at a time.
pub const MAX_RULES: usize = 64;

/// Offsets in `struct settings`, bytes.
pub(crate) mod settings {
    use std::mem::offset_of;

    use crate::skeleton::types::settings;

    pub(crate) const GRACE_NS: usize = offset_of!(settings, grace_ns);
    pub(crate) const IDLE_NS: usize = offset_of!(settings, idle_ns);
    pub(crate) const CLOSING_NS: usize = offset_of!(settings, closing_ns);
    pub(crate) const CLOCK_NS: usize = offset_of!(settings, clock_ns);
    pub(crate) const ACTIVE: usize = offset_of!(settings, active);
    pub(crate) const GONE: usize = offset_of!(settings, gone);
    pub(crate) const RULE_COUNT: usize = offset_of!(settings, rule_count);
    /// Bytes of the mapping.
    pub(crate) const BYTES: usize = 4096;
}

const _: () = assert!(size_of::<types::settings>() <= settings::BYTES);
const _: () = assert!(size_of::<types::connection>() <= 128);

/// Asserts at compile time that C counts unreadable packets in fairwater-wire's order.
macro_rules! same_reasons {
    ($($reason:ident = $counter:ident),* $(,)?) => {
        $(const _: () = assert!(
            ParseError::$reason.index() == types::counter::$counter.0 as usize
        );)*
    };
}

same_reasons!(
    EthernetTruncated = ETHERNET_TRUNCATED,
    VlanTruncated = VLAN_TRUNCATED,
    VlanDepth = VLAN_DEPTH,
    NotIp = NOT_IP,
    IpVersion = IP_VERSION,
    Ipv4Truncated = IPV4_TRUNCATED,
    Ipv4HeaderLength = IPV4_HEADER_LENGTH,
    Ipv4TotalLength = IPV4_TOTAL_LENGTH,
    Ipv6Truncated = IPV6_TRUNCATED,
    Ipv6PayloadLength = IPV6_PAYLOAD_LENGTH,
    Ipv6ExtensionTruncated = IPV6_EXTENSION_TRUNCATED,
    Ipv6ExtensionCount = IPV6_EXTENSION_COUNT,
    Ipv6Jumbo = IPV6_JUMBO,
    Ipv6Routed = IPV6_ROUTED,
    TcpTruncated = TCP_TRUNCATED,
    TcpDataOffset = TCP_DATA_OFFSET,
    UdpTruncated = UDP_TRUNCATED,
    UdpLength = UDP_LENGTH,
    TcpOptionTruncated = TCP_OPTION_TRUNCATED,
    TcpOptionLength = TCP_OPTION_LENGTH,
);
const _: () = assert!(ParseError::COUNT == types::counter::IGNORED.0 as usize);
