//! Rules that can never match, because earlier ones match all that they would.

use std::ops::RangeInclusive;

use ipnet::IpNet;

use super::rule::{EdgePolicy, Match};

impl EdgePolicy {
    /// Rules that can never match, each with the first of the rules that hide it. A rule whose hiding takes
    /// several entries together for one of its own is not found.
    #[must_use]
    pub fn shadowed(&self) -> Vec<(usize, usize)> {
        let rules = 0..self.rules.len();
        rules
            .filter_map(|rule| {
                let mut hiding = Vec::new();
                for entry in self.matches.iter().filter(|each| each.rule == rule) {
                    let earlier = self.matches.iter().filter(|each| each.rule < rule);
                    let mut covering = earlier.filter(|each| self.covers(each, entry));
                    hiding.push(covering.next()?.rule);
                }
                Some((rule, hiding.into_iter().min()?))
            })
            .collect()
    }

    fn covers(&self, wide: &Match, narrow: &Match) -> bool {
        let has_prefix = |wide: &Option<IpNet>, narrow: &Option<IpNet>| {
            wide.is_none_or(|wide| narrow.is_some_and(|narrow| wide.contains(&narrow)))
        };
        let has_range = |wide: &RangeInclusive<u16>, narrow: &RangeInclusive<u16>| {
            wide.start() <= narrow.start() && narrow.end() <= wide.end()
        };
        (wide.vlan.is_none() || wide.vlan == narrow.vlan)
            && has_prefix(&wide.guest, &narrow.guest)
            && has_prefix(&wide.peer, &narrow.peer)
            && has_range(&wide.guest_ports, &narrow.guest_ports)
            && has_range(&wide.peer_ports, &narrow.peer_ports)
            && self.covers_ports(wide.port_sets, narrow.port_sets)
    }

    fn covers_ports(&self, wide: u64, narrow: u64) -> bool {
        let sets = |bits: u64| {
            let all = self.port_sets.iter().enumerate();
            all.filter(move |(index, _)| bits & (1 << index) != 0)
        };
        wide == 0
            || narrow != 0
                && sets(narrow).all(|(_, narrow)| sets(wide).any(|(_, wide)| wide.covers(narrow)))
    }
}
