//! What a connection must have for a rule, or to be a tenant's.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;

use super::port_set::{PortPattern, patterns};
use crate::FlowKey;

/// Every TCP port.
pub(super) const ANY_PORT: RangeInclusive<u16> = 0..=u16::MAX;

/// What a connection must have: one of each list that is not empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conditions {
    /// Names of the guest's port.
    pub ports: Vec<PortPattern>,
    /// Identifiers of the outer VLAN tag.
    pub vlans: Vec<u16>,
    /// Prefixes of the guest's address.
    pub guests: Vec<IpNet>,
    /// Prefixes of the peer's address.
    pub peers: Vec<IpNet>,
    /// The guest's TCP port.
    pub guest_ports: RangeInclusive<u16>,
    /// The peer's TCP port.
    pub peer_ports: RangeInclusive<u16>,
}

impl Default for Conditions {
    /// Every connection.
    fn default() -> Self {
        Self {
            ports: Vec::new(),
            vlans: Vec::new(),
            guests: Vec::new(),
            peers: Vec::new(),
            guest_ports: ANY_PORT,
            peer_ports: ANY_PORT,
        }
    }
}

/// Why a connection is not what a rule is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch(String);

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Conditions {
    /// The first condition that a connection does not meet, at a port of that name.
    #[must_use]
    pub fn mismatch(&self, key: &FlowKey, port: &str) -> Option<Mismatch> {
        let is_of = |list: &[IpNet], address: IpAddr| {
            list.is_empty() || list.iter().any(|prefix| prefix.contains(&address))
        };
        let vlan = key.vlan.ids().first().copied();
        let (guest, peer) = (key.guest, key.peer);
        if !self.ports.is_empty() && !self.ports.iter().any(|pattern| pattern.matches(port)) {
            let text = format!("port `{port}` is not {}", patterns(&self.ports));
            return Some(Mismatch(text));
        }
        if !self.vlans.is_empty() && !vlan.is_some_and(|vlan| self.vlans.contains(&vlan)) {
            let found = vlan.map_or("it has no VLAN".to_owned(), |vlan| format!("VLAN {vlan}"));
            let text = format!("{found}, not VLAN {}", any_of(&self.vlans));
            return Some(Mismatch(text));
        }
        let outside = |what: &str, address: IpAddr, list: &[IpNet]| {
            Some(Mismatch(format!(
                "{what} {address} is not of {}",
                any_of(list)
            )))
        };
        if !is_of(&self.guests, guest.ip()) {
            return outside("guest", guest.ip(), &self.guests);
        }
        if !is_of(&self.peers, peer.ip()) {
            return outside("peer", peer.ip(), &self.peers);
        }
        let port_outside = |what: &str, port: u16, range: &RangeInclusive<u16>| {
            Some(Mismatch(format!(
                "{what} port {port} is not {}",
                shown(range)
            )))
        };
        if !self.guest_ports.contains(&guest.port()) {
            return port_outside("guest", guest.port(), &self.guest_ports);
        }
        if !self.peer_ports.contains(&peer.port()) {
            return port_outside("peer", peer.port(), &self.peer_ports);
        }
        None
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if !self.ports.is_empty() {
            parts.push(format!("port {}", patterns(&self.ports)));
        }
        if !self.vlans.is_empty() {
            parts.push(format!("VLAN {}", any_of(&self.vlans)));
        }
        if !self.guests.is_empty() {
            parts.push(format!("guest {}", any_of(&self.guests)));
        }
        if !self.peers.is_empty() {
            parts.push(format!("peer {}", any_of(&self.peers)));
        }
        if self.guest_ports != ANY_PORT {
            parts.push(format!("guest port {}", shown(&self.guest_ports)));
        }
        if self.peer_ports != ANY_PORT {
            parts.push(format!("peer port {}", shown(&self.peer_ports)));
        }
        f.write_str(&parts.join(", "))
    }
}

fn any_of<T: fmt::Display>(list: &[T]) -> String {
    let list: Vec<_> = list.iter().map(ToString::to_string).collect();
    list.join(" or ")
}

fn shown(range: &RangeInclusive<u16>) -> String {
    if range.start() == range.end() {
        range.start().to_string()
    } else {
        format!("{}-{}", range.start(), range.end())
    }
}
