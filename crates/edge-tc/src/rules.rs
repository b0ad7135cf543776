//! Rules as the programs take them, and their atomic exchange.

use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering::{Relaxed, Release};

use libbpf_rs::{MapCore, MapFlags};

use crate::layout::{MAX_RULES, settings};
use crate::skeleton::types;
use crate::state::{VLAN_PRESENT, bytes_of, words};
use crate::{Programs, TcError};

/// Addresses that have the first bits in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    /// The address; bits beyond the length do not count.
    pub address: IpAddr,
    /// How many bits count; more than the address has are all.
    pub length: u8,
}

/// VLAN that a rule is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RuleVlan {
    /// Any, and none.
    #[default]
    Any,
    /// Frames without a tag.
    Untagged,
    /// Frames whose outer tag is this.
    Tagged(u16),
}

/// What is done with a connection that an algorithm is to control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control {
    /// Index of the algorithm among those of the plane's page.
    pub algorithm: u16,
    /// See [`fairwater_edge::Treatment::ecn`].
    pub ecn: bool,
    /// See [`fairwater_edge::Treatment::police`].
    pub police: bool,
    /// See [`fairwater_edge::Treatment::max_scale`].
    pub max_scale: Option<u8>,
}

/// A rule. The first one of which all conditions hold for a connection decides; a connection that no
/// rule is for passes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The interface is in one of these sets, a bit each ([`Programs::set_port_sets`]); 0 for any
    /// interface.
    pub port_sets: u64,
    /// VLAN of the guest's port.
    pub vlan: RuleVlan,
    /// The guest's address; `None` for any.
    pub guest: Option<Prefix>,
    /// The peer's address; `None` for any.
    pub peer: Option<Prefix>,
    /// The guest's TCP port.
    pub guest_ports: RangeInclusive<u16>,
    /// The peer's TCP port.
    pub peer_ports: RangeInclusive<u16>,
    /// `None` leaves the connection alone.
    pub action: Option<Control>,
    /// The connection's packets go to the process that buffers, while that lives and has room; else `action` counts.
    pub buffer: bool,
}

impl Default for Rule {
    /// For every connection; leaves it alone.
    fn default() -> Self {
        Self {
            port_sets: 0,
            vlan: RuleVlan::Any,
            guest: None,
            peer: None,
            guest_ports: 0..=u16::MAX,
            peer_ports: 0..=u16::MAX,
            action: None,
            buffer: false,
        }
    }
}

impl Rule {
    /// The rule in the kernel's form; `None` if no connection can match: the prefixes are of two families.
    fn to_kernel(&self) -> Option<types::rule> {
        let family = |prefix: &Option<Prefix>| match prefix.as_ref()?.address {
            IpAddr::V4(_) => Some(types::rule_family::ONLY_IPV4),
            IpAddr::V6(_) => Some(types::rule_family::ONLY_IPV6),
        };
        let families = (family(&self.guest), family(&self.peer));
        if matches!(families, (Some(guest), Some(peer)) if guest.0 != peer.0) {
            return None;
        }
        let family = families.0.or(families.1);
        let (guest, guest_mask) = masked(self.guest);
        let (peer, peer_mask) = masked(self.peer);
        Some(types::rule {
            port_sets: self.port_sets,
            guest,
            guest_mask,
            peer,
            peer_mask,
            guest_ports: [*self.guest_ports.start(), *self.guest_ports.end()],
            peer_ports: [*self.peer_ports.start(), *self.peer_ports.end()],
            vlan: match self.vlan {
                RuleVlan::Any => low16(types::rule_vlan::ANY_VLAN.0),
                RuleVlan::Untagged => 0,
                RuleVlan::Tagged(id) => id & 0xfff | VLAN_PRESENT,
            },
            family: low16(family.map_or(0, |family| family.0)),
            treatment: treatment(self.action, self.buffer),
            ..types::rule::default()
        })
    }
}

fn low16(value: u32) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}

fn treatment(action: Option<Control>, buffer: bool) -> types::treatment {
    const NO_SCALE: u8 = 0xff;
    types::treatment {
        algorithm: action.map_or(0, |control| control.algorithm),
        is_control: action.is_some().into(),
        ecn: action.is_some_and(|control| control.ecn).into(),
        police: action.is_some_and(|control| control.police).into(),
        max_scale: action
            .and_then(|control| control.max_scale)
            .unwrap_or(NO_SCALE),
        buffer: buffer.into(),
        ..types::treatment::default()
    }
}

/// The address, masked, and the mask, both in network order.
fn masked(prefix: Option<Prefix>) -> ([u32; 4], [u32; 4]) {
    let Some(prefix) = prefix else {
        return ([0; 4], [0; 4]);
    };
    let bits = if prefix.address.is_ipv4() { 32 } else { 128 };
    let length = u32::from(prefix.length).min(bits);
    let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
    let mask = words(Ipv6Addr::from(mask).into());
    let address = words(prefix.address);
    (std::array::from_fn(|at| address[at] & mask[at]), mask)
}

impl Programs {
    /// Puts other rules in the place of those there are, all at once: connections that open from now on
    /// are judged by them. One process at a time may do that.
    ///
    /// # Errors
    /// There are more than [`MAX_RULES`], or the kernel refuses; the old ones stay.
    pub fn set_rules(&self, rules: &[Rule]) -> Result<(), TcError> {
        let rules: Vec<_> = rules.iter().filter_map(Rule::to_kernel).collect();
        let count = u32::try_from(rules.len()).unwrap_or(u32::MAX);
        if rules.len() > MAX_RULES {
            return Err(TcError::TooManyRules(rules.len()));
        }
        let active = self.settings_memory.u32(settings::ACTIVE);
        let half = 1 - active.load(Relaxed).min(1);
        for (index, rule) in (half * MAX_RULES as u32..).zip(&rules) {
            self.rules
                .update(&index.to_ne_bytes(), bytes_of(rule), MapFlags::ANY)
                .map_err(TcError::bpf("write a rule"))?;
        }
        self.settings_memory
            .u32(settings::RULE_COUNT + 4 * half as usize)
            .store(count, Relaxed);
        active.store(half, Release);
        Ok(())
    }

    /// Says which sets an interface is in, a bit each.
    ///
    /// # Errors
    /// The kernel has no room.
    pub fn set_port_sets(&self, interface: u32, sets: u64) -> Result<(), TcError> {
        self.ports
            .update(&interface.to_ne_bytes(), &sets.to_ne_bytes(), MapFlags::ANY)
            .map_err(TcError::bpf("write an interface's port sets"))
    }
}
