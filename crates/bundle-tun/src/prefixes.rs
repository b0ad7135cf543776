//! Prefixes as the kernel's tables of longest prefixes have them: `struct prefix_key` of `bpf/network.h`.

use std::net::IpAddr;

use fairwater_bundle::Prefix;

/// Bits of an address.
pub(crate) const BITS: u32 = 128;

/// An address; IPv4 is mapped to `::ffff:0:0/96`.
pub(crate) fn mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// Length in bits and address of a prefix.
pub(crate) fn parts(prefix: &Prefix) -> (u32, [u8; 16]) {
    let (address, length) = (prefix.address(), prefix.length());
    let before = if address.is_ipv4() { BITS - 32 } else { 0 };
    (before + u32::from(length), mapped(address))
}

/// The key of a prefix.
pub(crate) fn key(prefix: &Prefix) -> Vec<u8> {
    let (length, address) = parts(prefix);
    [&length.to_ne_bytes()[..], &address].concat()
}
