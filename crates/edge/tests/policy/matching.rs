//! Which rule a connection has, by the table and by explanation.

use std::sync::Arc;

use fairwater_edge::policy::EdgePolicy;
use proptest::prelude::*;

use crate::{in_vlan, key, policy};

fn rule_of(policy: &EdgePolicy, key: &fairwater_edge::FlowKey, port: &str) -> Option<usize> {
    policy.rule_of(key, policy.port_sets_of(port))
}

#[test]
fn the_first_rule_that_matches_counts() {
    let policy = policy(crate::EXAMPLE);
    let web = |guest: &str| key(&format!("{guest}:40000"), "192.0.2.7:8080");
    assert_eq!(rule_of(&policy, &web("10.1.2.3"), "vnet0"), Some(1));
    assert_eq!(rule_of(&policy, &web("10.1.2.3"), "tap0"), Some(1));
    assert_eq!(rule_of(&policy, &web("[fd00:1::5]"), "tap0"), Some(1));
    assert_eq!(rule_of(&policy, &web("10.1.2.3"), "tap1"), None);
    assert_eq!(rule_of(&policy, &web("10.2.2.3"), "vnet12"), None);
    assert_eq!(rule_of(&policy, &web("10.2.2.3"), "vnet1"), Some(3));
    let in_red = in_vlan(web("10.2.2.3"), 13);
    assert_eq!(rule_of(&policy, &in_red, "vnet1"), Some(2));
    // The outer tag counts.
    let inside = in_vlan(in_vlan(web("10.2.2.3"), 99), 13);
    assert_eq!(rule_of(&policy, &inside, "eth0"), None);
    let ssh = key("10.1.2.3:22", "192.0.2.7:8080");
    assert_eq!(rule_of(&policy, &ssh, "vnet0"), Some(0));
    assert_eq!(policy.treatment(&ssh, u64::MAX), None);
}

#[test]
fn an_edge_asks_by_the_number_of_a_port() {
    let policy = Arc::new(policy(crate::EXAMPLE));
    let sets = [policy.port_sets_of("eth0"), policy.port_sets_of("vnet1")];
    let ask = Arc::clone(&policy).for_edge(move |port| sets[port as usize]);
    let key = key("10.1.2.3:40000", "192.0.2.7:8080");
    assert_eq!(&*ask(&key).unwrap().algorithm, "cubic");
    let at_0 = fairwater_edge::FlowKey {
        interface: 0,
        ..key
    };
    assert_eq!(ask(&at_0), None);
}

#[test]
fn an_explanation_names_what_was_tried() {
    let policy = policy(crate::EXAMPLE);
    let text = |key: &fairwater_edge::FlowKey, port| policy.explain(key, port).join("\n");
    let blue = key("10.1.2.3:40000", "192.0.2.7:8080");
    let explained = [
        text(&blue, "vnet3"),
        text(&in_vlan(blue, 12), "eth0"),
        text(&key("10.9.0.1:5", "192.0.2.7:80"), "eth0"),
        text(&key("10.9.0.1:22", "192.0.2.7:80"), "eth0"),
    ];
    insta::assert_snapshot!(explained.join("\n\n"));
}

#[test]
fn flows_that_starve_are_proposed_or_controlled_as_rules_say() {
    let rules = "[[rule]]
        guest_port = 1
        pass = true
        when_starved = \"propose\"
        [[rule]]
        guest_port = 2
        algorithm = \"reno\"
        when_starved = \"control\"
        [[rule]]
        guest_port = 3
        pass = true
        [[rule]]
        guest_port = 4
        algorithm = \"reno\"";
    let from = |port: u16| key(&format!("10.0.0.1:{port}"), "10.0.0.2:2");
    for (defaults, expected) in [
        ("", [true, true, false, false, false]),
        ("[defaults]\npropose = true\n", [true; 5]),
    ] {
        let policy = policy(&format!("{defaults}{rules}"));
        let proposes = [1, 2, 3, 4, 5].map(|port| policy.proposes(&from(port), 0));
        assert_eq!(proposes, expected);
        let only = |port| Some(policy.treatment(&from(port), 0)?.1.only_starved);
        assert_eq!(
            [1, 2, 3, 4].map(only),
            [None, Some(true), None, Some(false)]
        );
        let said = policy.explain(&from(2), "eth0").join("\n");
        assert!(said.contains("until one of the same guest"), "{said}");
    }
}

/// A rule's conditions in TOML, of few values so that some match.
fn conditions() -> impl Strategy<Value = String> {
    let one = |key: &'static str, values: &'static [&'static str]| {
        let line = prop::sample::select(values).prop_map(move |value| format!("{key} = {value}\n"));
        prop::option::of(line).prop_map(Option::unwrap_or_default)
    };
    (
        one("port", &["\"vnet*\"", "\"vnet1\"", "[\"tap0\", \"vnet?\"]"]),
        one(
            "guest",
            &["\"10.1.0.0/16\"", "[\"10.1.2.0/24\", \"fd00::/8\"]"],
        ),
        one("peer", &["\"0.0.0.0/0\"", "[\"192.0.2.0/24\", \"::/0\"]"]),
        one("guest_port", &["22", "\"1000-2000\""]),
        one("peer_port", &["80", "\"1-1023\""]),
        one("vlan", &["12", "[12, 13]"]),
    )
        .prop_map(|parts| [parts.0, parts.1, parts.2, parts.3, parts.4, parts.5].concat())
}

fn flow() -> impl Strategy<Value = (fairwater_edge::FlowKey, &'static str)> {
    let v4 = ["10.1.2.3", "10.1.9.9", "10.2.0.1"].map(str::to_owned);
    let v6 = ["[fd00::1]", "[2001:db8::1]"].map(str::to_owned);
    let guests = prop_oneof![
        prop::sample::select(v4.to_vec()),
        prop::sample::select(v6.to_vec())
    ];
    let ports = || prop::sample::select(vec![22_u16, 80, 1500, 40_000]);
    let names = prop::sample::select(vec!["vnet1", "vnet12", "tap0", "eth0"]);
    let vlan = prop::sample::select(vec![None, Some(12), Some(13), Some(14)]);
    (guests, ports(), ports(), names, vlan).prop_map(|(guest, from, to, name, vlan)| {
        let peer = if guest.starts_with('[') {
            "[fd00::2]"
        } else {
            "192.0.2.1"
        };
        let key = key(&format!("{guest}:{from}"), &format!("{peer}:{to}"));
        (vlan.map_or(key, |vlan| in_vlan(key, vlan)), name)
    })
}

proptest! {
    /// The table of plain data and the conditions of the file choose the same rule, and a rule that is said to be
    /// hidden is never chosen.
    #[test]
    fn the_table_does_what_the_file_says(
        rules in prop::collection::vec(conditions(), 1..6),
        flows in prop::collection::vec(flow(), 1..20),
    ) {
        let source: String = rules.iter().map(|rule| format!("[[rule]]\n{rule}pass = true\n")).collect();
        let policy = match EdgePolicy::parse("edge.toml", &source, None) {
            Ok(parsed) => parsed.policy,
            // IPv4 guests with IPv6 peers alone.
            Err(errors) => {
                prop_assert!(errors.to_string().contains("IP versions"), "{}", errors);
                return Ok(());
            }
        };
        let shadowed = policy.shadowed();
        for (key, port) in flows {
            let chosen = rule_of(&policy, &key, port);
            let said = policy.rules().iter().position(|rule| rule.mismatch(&key, port).is_none());
            prop_assert_eq!(chosen, said);
            prop_assert!(shadowed.iter().all(|(rule, _)| Some(*rule) != chosen));
            let explained = policy.explain(&key, port);
            let matching = chosen.map_or("no rule matches".to_owned(), |rule| format!("rule {} ", rule + 1));
            prop_assert!(explained.iter().any(|text| text.starts_with(&matching) && text.contains("matches:")));
        }
    }
}
