//! Prefixes of addresses, and ports of transport protocols.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;

use crate::fields::InvalidValue;
use crate::quantity;
use crate::tree::Node;

/// A prefix such as `10.0.0.0/8`, or one address.
///
/// # Errors
/// It is neither.
pub fn prefix(node: &Node) -> Result<IpNet, InvalidValue> {
    let text = quantity::text(node)?;
    let host = || text.parse::<IpAddr>().ok().map(IpNet::from);
    text.parse().ok().or_else(host).ok_or_else(|| InvalidValue {
        message: format!("`{text}` is not a prefix"),
        allowed: "a prefix such as `10.0.0.0/8` or `2001:db8::/32`".to_owned(),
    })
}

/// A port, `443`, or a range of them, `"49152-65535"`.
///
/// # Errors
/// It is neither.
pub fn ports(node: &Node) -> Result<RangeInclusive<u16>, InvalidValue> {
    let text = node.plain().unwrap_or_default();
    let (first, last) = text.split_once('-').unwrap_or((&text, &text));
    match (first.trim().parse::<u16>(), last.trim().parse::<u16>()) {
        (Ok(first), Ok(last)) if first <= last => Ok(first..=last),
        _ => Err(InvalidValue {
            message: "it is no port".to_owned(),
            allowed: "a port such as `443`, or a range such as `\"49152-65535\"`".to_owned(),
        }),
    }
}
