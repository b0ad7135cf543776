//! IP headers: where the transport's header begins and where the packet ends.

use crate::ParseError;
use crate::bytes::{u8_at, u16_at, u32_at};

/// Bytes of an IPv6 header without extensions, and of an IPv4 header without options.
pub(crate) const IPV6_HEADER: usize = 40;
pub(crate) const IPV4_HEADER: usize = 20;

/// Most extension headers that are followed: RFC 8200 §4.1 names eight occurrences.
const MAX_EXTENSIONS: usize = 8;

/// Protocol numbers.
pub(crate) mod protocol {
    pub(crate) const TCP: u8 = 6;
    pub(crate) const UDP: u8 = 17;
}

/// Numbers of IPv6 extension headers.
mod extension {
    pub(super) const HOP_BY_HOP: u8 = 0;
    pub(super) const ROUTING: u8 = 43;
    pub(super) const FRAGMENT: u8 = 44;
    pub(super) const AUTHENTICATION: u8 = 51;
    pub(super) const DESTINATION: u8 = 60;
    pub(super) const MOBILITY: u8 = 135;
    pub(super) const HIP: u8 = 139;
    pub(super) const SHIM6: u8 = 140;
}

/// A part of a packet (RFC 791 §3.2, RFC 8200 §4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// Where the fragment belongs, bytes.
    pub offset: u16,
    /// Whether fragments follow.
    pub more: bool,
}

/// What an IP header says of its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Payload {
    pub(crate) protocol: u8,
    /// Offset of the payload, and of the end of the packet, in the bytes that were parsed.
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// `None` for whole packets, and for the only fragment of a packet (RFC 6946).
    pub(crate) fragment: Option<Fragment>,
}

/// Reads the IPv4 header at `at`.
pub(crate) fn parse_v4(bytes: &[u8], at: usize) -> Result<Payload, ParseError> {
    let there = bytes.len().saturating_sub(at);
    if there < IPV4_HEADER {
        return Err(ParseError::Ipv4Truncated);
    }
    let header = usize::from(u8_at(bytes, at) & 0x0f) * 4;
    if header < IPV4_HEADER {
        return Err(ParseError::Ipv4HeaderLength);
    }
    if there < header {
        return Err(ParseError::Ipv4Truncated);
    }
    let total = match u16_at(bytes, at + 2) {
        // Linux's BIG TCP: a super-packet whose length the field cannot hold says 0.
        0 if there > usize::from(u16::MAX) => there,
        total => usize::from(total),
    };
    if total < header || total > there {
        return Err(ParseError::Ipv4TotalLength);
    }
    let field = u16_at(bytes, at + 6);
    Ok(Payload {
        protocol: u8_at(bytes, at + 9),
        start: at + header,
        end: at + total,
        fragment: fragment((field & 0x1fff) << 3, field & 0x2000 != 0),
    })
}

/// Reads the IPv6 header at `at` and its extension headers.
pub(crate) fn parse_v6(bytes: &[u8], at: usize) -> Result<Payload, ParseError> {
    let there = bytes.len().saturating_sub(at);
    if there < IPV6_HEADER {
        return Err(ParseError::Ipv6Truncated);
    }
    let mut next = u8_at(bytes, at + 6);
    let start = at + IPV6_HEADER;
    let length = match u16_at(bytes, at + 4) {
        0 if next == extension::HOP_BY_HOP => jumbo_length(bytes, start)?,
        length => usize::from(length),
    };
    if length > there - IPV6_HEADER {
        return Err(ParseError::Ipv6PayloadLength);
    }
    let end = start + length;
    let packet = bytes.get(..end).unwrap_or(bytes);
    let mut payload = Payload {
        protocol: next,
        start,
        end,
        fragment: None,
    };
    for _ in 0..=MAX_EXTENSIONS {
        let here = payload.start;
        let length = match next {
            extension::HOP_BY_HOP
            | extension::DESTINATION
            | extension::ROUTING
            | extension::MOBILITY
            | extension::HIP
            | extension::SHIM6 => 8 * (usize::from(u8_at(packet, here + 1)) + 1),
            extension::FRAGMENT => 8,
            // RFC 4302 §2.2: in 4-byte words, minus 2.
            extension::AUTHENTICATION => 4 * (usize::from(u8_at(packet, here + 1)) + 2),
            _ => {
                payload.protocol = next;
                return Ok(payload);
            }
        };
        if end - here < length {
            return Err(ParseError::Ipv6ExtensionTruncated);
        }
        if next == extension::ROUTING && u8_at(packet, here + 3) != 0 {
            return Err(ParseError::Ipv6Routed);
        }
        let is_fragment = next == extension::FRAGMENT;
        next = u8_at(packet, here);
        payload.start = here + length;
        if is_fragment {
            let field = u16_at(packet, here + 2);
            payload.fragment = fragment(field & 0xfff8, field & 1 != 0);
            if payload.fragment.is_some() {
                payload.protocol = next;
                return Ok(payload);
            }
        }
    }
    Err(ParseError::Ipv6ExtensionCount)
}

const fn fragment(offset: u16, more: bool) -> Option<Fragment> {
    if offset == 0 && !more {
        None
    } else {
        Some(Fragment { offset, more })
    }
}

/// The payload length of a jumbogram, whose hop-by-hop header is at `at` (RFC 2675 §2).
fn jumbo_length(bytes: &[u8], at: usize) -> Result<usize, ParseError> {
    const PAD1: u8 = 0;
    const JUMBO: u8 = 0xc2;
    let options_end = at + 8 * (usize::from(u8_at(bytes, at + 1)) + 1);
    if bytes.len() < options_end {
        return Err(ParseError::Ipv6ExtensionTruncated);
    }
    let mut option = at + 2;
    while option < options_end {
        if u8_at(bytes, option) == PAD1 {
            option += 1;
            continue;
        }
        let length = usize::from(u8_at(bytes, option + 1));
        if u8_at(bytes, option) != JUMBO {
            option += 2 + length;
            continue;
        }
        if length != 4 || options_end < option + 6 {
            return Err(ParseError::Ipv6Jumbo);
        }
        // RFC 2675 §3: a length that the other field could hold is an error.
        let payload = u32_at(bytes, option + 2);
        return usize::try_from(payload)
            .ok()
            .filter(|&payload| payload > usize::from(u16::MAX))
            .ok_or(ParseError::Ipv6Jumbo);
    }
    Err(ParseError::Ipv6Jumbo)
}
