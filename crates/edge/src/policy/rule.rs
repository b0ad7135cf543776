//! The policy of an edge: rules in order, and the table that comes of them.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use ipnet::IpNet;

use super::conditions::Conditions;
use super::{Defaults, Mismatch, Policy, PortSet, Treatment};
use crate::FlowKey;
use crate::select::SelectorConfig;

/// Most entries that the rules may come to, so that a table in the kernel holds them.
pub const MAX_MATCHES: usize = 64;
/// Most sets of ports: one bit each.
pub const MAX_PORT_SETS: usize = 64;

/// What a rule does with a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// It is left alone.
    Pass,
    /// An algorithm controls it.
    Control(Treatment),
}

/// What a rule does about flows that starve beside marked traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WhenStarved {
    /// The rule passes connections, and those that starve are proposed for control.
    Propose,
    /// The rule's connections pass, until one of the same guest and peer was found starving: the next
    /// are controlled.
    Control,
}

/// One rule of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The line where it stands.
    pub line: usize,
    /// The tenant whose connections it is for: its name, and what the tenant has.
    pub tenant: Option<(Arc<str>, Conditions)>,
    /// What a connection must have besides.
    pub conditions: Conditions,
    /// What the rule does.
    pub action: Action,
    /// What the rule does about flows that starve; `None` leaves it to [`Defaults::propose`].
    pub when_starved: Option<WhenStarved>,
}

impl Rule {
    /// The first condition that a connection does not meet, at a port of that name.
    #[must_use]
    pub fn mismatch(&self, key: &FlowKey, port: &str) -> Option<String> {
        let of_tenant = self.tenant.as_ref().and_then(|(name, tenant)| {
            let mismatch = tenant.mismatch(key, port)?;
            Some(format!("not of tenant `{name}`: {mismatch}"))
        });
        let own = || {
            let mismatch = self.conditions.mismatch(key, port);
            mismatch.as_ref().map(Mismatch::to_string)
        };
        of_tenant.or_else(own)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenant = self.tenant.as_ref();
        let tenant = tenant.map(|(name, _)| format!("tenant `{name}`"));
        let own = Some(self.conditions.to_string()).filter(|text| !text.is_empty());
        let parts: Vec<_> = tenant.into_iter().chain(own).collect();
        if parts.is_empty() {
            f.write_str("every connection")
        } else {
            f.write_str(&parts.join(", "))
        }
    }
}

/// One entry of the table that the rules come to: plain data, as a table in the kernel holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// Index of the rule.
    pub rule: usize,
    /// The port must be in one of these sets, bit by bit; 0 is any port.
    pub port_sets: u64,
    /// The identifier of the outer VLAN tag; `None` is any, or no tag.
    pub vlan: Option<u16>,
    /// Prefix of the guest's address.
    pub guest: Option<IpNet>,
    /// Prefix of the peer's address.
    pub peer: Option<IpNet>,
    /// The guest's TCP port.
    pub guest_ports: RangeInclusive<u16>,
    /// The peer's TCP port.
    pub peer_ports: RangeInclusive<u16>,
}

impl Match {
    /// Whether a connection at a port of these sets is meant.
    #[must_use]
    pub fn matches(&self, key: &FlowKey, port_sets: u64) -> bool {
        let is_of = |prefix: &Option<IpNet>, address: IpAddr| {
            prefix.is_none_or(|prefix| prefix.contains(&address))
        };
        let vlan = key.vlan.ids().first().copied();
        (self.port_sets == 0 || self.port_sets & port_sets != 0)
            && (self.vlan.is_none() || self.vlan == vlan)
            && is_of(&self.guest, key.guest.ip())
            && is_of(&self.peer, key.peer.ip())
            && self.guest_ports.contains(&key.guest.port())
            && self.peer_ports.contains(&key.peer.port())
    }
}

/// The policy of an edge: rules in order, of which the first that matches a connection counts. Without one
/// the connection passes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EdgePolicy {
    pub(super) defaults: Defaults,
    pub(super) rules: Vec<Rule>,
    pub(super) matches: Vec<Match>,
    pub(super) port_sets: Vec<PortSet>,
    pub(super) selectors: Vec<Arc<SelectorConfig>>,
}

impl EdgePolicy {
    /// What holds for all connections.
    #[must_use]
    pub const fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    /// The rules, as the file has them.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The table that the rules come to, at most [`MAX_MATCHES`] entries: the first that matches counts.
    #[must_use]
    pub fn matches(&self) -> &[Match] {
        &self.matches
    }

    /// The sets of ports, at most [`MAX_PORT_SETS`], each by its bit.
    #[must_use]
    pub fn port_sets(&self) -> &[PortSet] {
        &self.port_sets
    }

    /// The sets that a port of that name is in, bit by bit.
    #[must_use]
    pub fn port_sets_of(&self, name: &str) -> u64 {
        let sets = self.port_sets.iter().enumerate();
        let bits = sets.filter(|(_, set)| set.contains(name));
        bits.fold(0, |bits, (index, _)| bits | 1 << index)
    }

    /// Index of the rule that matches a connection at a port of these sets.
    #[must_use]
    pub fn rule_of(&self, key: &FlowKey, port_sets: u64) -> Option<usize> {
        let found = self
            .matches
            .iter()
            .find(|each| each.matches(key, port_sets))?;
        Some(found.rule)
    }

    /// The rule that controls a connection at a port of these sets, and how; `None` if it passes. See
    /// [`Treatment::only_starved`].
    #[must_use]
    pub fn treatment(&self, key: &FlowKey, port_sets: u64) -> Option<(usize, &Treatment)> {
        let index = self.rule_of(key, port_sets)?;
        let rule = self.rules.get(index)?;
        match &rule.action {
            Action::Control(treatment) => Some((index, treatment)),
            Action::Pass => None,
        }
    }

    /// Whether control is to be proposed for a connection at a port of these sets if it starves beside marked
    /// traffic.
    #[must_use]
    pub fn proposes(&self, key: &FlowKey, port_sets: u64) -> bool {
        let rule = self.rule_of(key, port_sets);
        let said = rule.and_then(|index| self.rules.get(index)?.when_starved);
        said.is_some() || self.defaults.propose
    }

    /// The policy as an [`Edge`](crate::Edge) asks it; `port_sets` has the sets of a port
    /// ([`EdgePolicy::port_sets_of`]) by its number.
    #[must_use]
    pub fn for_edge(self: Arc<Self>, port_sets: impl Fn(u32) -> u64 + Send + 'static) -> Policy {
        Box::new(move |key| {
            let (_, treatment) = self.treatment(key, port_sets(key.interface))?;
            Some(treatment.clone())
        })
    }

    /// The algorithms that connections may get, each once, in the order of the rules.
    #[must_use]
    pub fn algorithms(&self) -> Vec<Arc<str>> {
        let mut found: Vec<Arc<str>> = Vec::new();
        for rule in &self.rules {
            let Action::Control(treatment) = &rule.action else {
                continue;
            };
            let of_rule = match &treatment.selector {
                Some(selector) => selector.algorithms(),
                None => vec![Arc::clone(&treatment.algorithm)],
            };
            for name in of_rule {
                if !found.contains(&name) {
                    found.push(name);
                }
            }
        }
        found
    }

    /// The selectors, in the order of the file.
    #[must_use]
    pub fn selectors(&self) -> &[Arc<SelectorConfig>] {
        &self.selectors
    }

    /// The selector of that name.
    #[must_use]
    pub fn selector(&self, name: &str) -> Option<&Arc<SelectorConfig>> {
        self.selectors.iter().find(|each| *each.name == *name)
    }
}
