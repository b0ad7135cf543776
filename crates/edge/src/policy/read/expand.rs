//! From rules with lists to the entries of the table.

use std::ops::Range;

use fairwater_document::diagnostic::{Diagnostic, Sink};
use ipnet::IpNet;

use crate::policy::rule::{EdgePolicy, MAX_MATCHES, MAX_PORT_SETS, Match};
use crate::policy::{Conditions, PortSet, Rule};

/// Adds a rule's entries to the table; `rule` is its index.
pub(super) fn expand(
    policy: &mut EdgePolicy,
    index: usize,
    rule: &Rule,
    span: &Range<usize>,
    sink: &Sink,
) {
    let refuse = |message: String| sink.push(Diagnostic::new(span.clone(), message));
    let everything = Conditions::default();
    let tenant = rule.tenant.as_ref().map_or(&everything, |(_, has)| has);
    let own = &rule.conditions;
    let (Some(vlans), Some(guests)) = (
        common_vlans(&tenant.vlans, &own.vlans),
        common_prefixes(&tenant.guests, &own.guests),
    ) else {
        return refuse("the rule never matches: its tenant has none of these".to_owned());
    };
    let Some(port_sets) = port_set(policy, tenant, own) else {
        return refuse(format!(
            "the rules name more than {MAX_PORT_SETS} sets of ports"
        ));
    };
    let mut is_any = false;
    for guest in optional(&guests) {
        for peer in optional(&own.peers) {
            if matches!((guest, peer), (Some(g), Some(p)) if g.addr().is_ipv4() != p.addr().is_ipv4())
            {
                continue;
            }
            for vlan in optional(&vlans) {
                is_any = true;
                if policy.matches.len() == MAX_MATCHES {
                    return refuse(format!(
                        "the rules come to more than {MAX_MATCHES} entries: one for each guest, peer and VLAN"
                    ));
                }
                policy.matches.push(Match {
                    rule: index,
                    port_sets,
                    vlan,
                    guest,
                    peer,
                    guest_ports: own.guest_ports.clone(),
                    peer_ports: own.peer_ports.clone(),
                });
            }
        }
    }
    if !is_any {
        refuse(
            "the rule never matches: its guests and peers are of different IP versions".to_owned(),
        );
    }
}

/// Each of a list, or once none.
fn optional<T: Copy>(list: &[T]) -> Vec<Option<T>> {
    if list.is_empty() {
        vec![None]
    } else {
        list.iter().copied().map(Some).collect()
    }
}

/// The VLANs of both; empty is every VLAN, `None` is none.
fn common_vlans(tenant: &[u16], own: &[u16]) -> Option<Vec<u16>> {
    if tenant.is_empty() || own.is_empty() {
        return Some([tenant, own].concat());
    }
    let common = own.iter().copied().filter(|vlan| tenant.contains(vlan));
    let common: Vec<_> = common.collect();
    (!common.is_empty()).then_some(common)
}

/// The prefixes of both; empty is every address, `None` is none.
fn common_prefixes(tenant: &[IpNet], own: &[IpNet]) -> Option<Vec<IpNet>> {
    if tenant.is_empty() || own.is_empty() {
        return Some([tenant, own].concat());
    }
    let mut common = Vec::new();
    for tenant in tenant {
        for own in own {
            if tenant.contains(own) {
                common.push(*own);
            } else if own.contains(tenant) {
                common.push(*tenant);
            }
        }
    }
    (!common.is_empty()).then_some(common)
}

/// The bit of the set of ports that a rule is for; 0 is every port, `None` that there is no bit left.
fn port_set(policy: &mut EdgePolicy, tenant: &Conditions, own: &Conditions) -> Option<u64> {
    let set = PortSet::new([tenant.ports.clone(), own.ports.clone()]);
    if set.is_any() {
        return Some(0);
    }
    let known = policy.port_sets.iter().position(|each| *each == set);
    let index = known.unwrap_or_else(|| {
        policy.port_sets.push(set);
        policy.port_sets.len() - 1
    });
    (index < MAX_PORT_SETS).then(|| 1 << index)
}
