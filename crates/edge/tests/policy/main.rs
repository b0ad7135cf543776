//! The policy's file, and what comes of it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod document;
mod matching;
mod reload;
mod select;

use fairwater_edge::FlowKey;
use fairwater_edge::policy::EdgePolicy;

/// The example that ships.
pub(crate) const EXAMPLE: &str = include_str!("../../../../examples/edge/edge.toml");

/// Reads a policy that must be right.
pub(crate) fn policy(source: &str) -> EdgePolicy {
    match EdgePolicy::parse("edge.toml", source, None) {
        Ok(parsed) => parsed.policy,
        Err(errors) => panic!("{errors}"),
    }
}

/// A connection from `guest` to `peer`.
pub(crate) fn key(guest: &str, peer: &str) -> FlowKey {
    FlowKey {
        interface: 1,
        vlan: fairwater_wire::VlanTags::NONE,
        guest: guest.parse().unwrap(),
        peer: peer.parse().unwrap(),
    }
}

/// The same, in a VLAN.
pub(crate) fn in_vlan(key: FlowKey, vlan: u16) -> FlowKey {
    FlowKey {
        vlan: key.vlan.with(vlan).unwrap(),
        ..key
    }
}
