//! Which algorithm a flow gets that asked for another, by what its host knows of it.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// Rules, of which the first that matches a flow counts. Without one, a flow has the algorithm that
/// it asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// The rules, in their order.
    pub rules: Vec<Rule>,
}

/// One rule: it matches a flow that has everything that it names.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Rule {
    /// Name of the flow's datapath, in any case of letters.
    pub datapath: Option<String>,
    /// The cgroup of the flow's socket, or one above it: `/system.slice`.
    pub cgroup: Option<String>,
    /// The local port.
    pub local_port: Option<RangeInclusive<u16>>,
    /// The remote port.
    pub remote_port: Option<RangeInclusive<u16>>,
    /// The remote address.
    pub prefix: Option<IpNet>,
    /// The flow's tag: `SO_MARK` on Linux.
    pub mark: Option<u32>,
    /// The algorithm that such flows get, by name.
    pub algorithm: String,
}

/// What rules are matched with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyKey<'a> {
    /// Name of the flow's datapath.
    pub datapath: &'a str,
    /// The local address and port.
    pub local: std::net::SocketAddr,
    /// The remote address and port.
    pub remote: std::net::SocketAddr,
    /// The flow's tag; 0 is none.
    pub tag: u32,
    /// The cgroup of the flow's socket, where it is known.
    pub cgroup: Option<&'a str>,
}

impl Policy {
    /// The algorithm that a flow gets; `None` is the one that it asked for.
    #[must_use]
    pub fn choose(&self, key: &PolicyKey<'_>) -> Option<&str> {
        let rule = self.rules.iter().find(|rule| rule.matches(key))?;
        Some(&rule.algorithm)
    }

    /// Whether some rule names a cgroup.
    #[must_use]
    pub fn needs_cgroup(&self) -> bool {
        self.rules.iter().any(|rule| rule.cgroup.is_some())
    }
}

impl Rule {
    /// Whether the flow has everything that the rule names.
    #[must_use]
    pub fn matches(&self, key: &PolicyKey<'_>) -> bool {
        let has = |range: &Option<RangeInclusive<u16>>, port: u16| {
            range.as_ref().is_none_or(|range| range.contains(&port))
        };
        let datapath = self.datapath.as_deref();
        datapath.is_none_or(|datapath| datapath.eq_ignore_ascii_case(key.datapath))
            && self.mark.is_none_or(|mark| mark == key.tag)
            && has(&self.local_port, key.local.port())
            && has(&self.remote_port, key.remote.port())
            && self
                .prefix
                .is_none_or(|prefix| contains(&prefix, key.remote.ip()))
            && self
                .cgroup
                .as_deref()
                .is_none_or(|above| key.cgroup.is_some_and(|path| is_within(path, above)))
    }
}

/// Whether the prefix has the address; an IPv4 address in IPv6 is an IPv4 address.
fn contains(prefix: &IpNet, address: IpAddr) -> bool {
    prefix.contains(&address.to_canonical())
}

/// Whether a cgroup is another, or lies in it.
fn is_within(path: &str, above: &str) -> bool {
    let above = above.trim_end_matches('/');
    let rest = path.strip_prefix(above);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: PolicyKey<'_> = PolicyKey {
        datapath: "Linux TCP",
        local: std::net::SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 443),
        remote: std::net::SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(10, 1, 2, 3)), 50_000),
        tag: 7,
        cgroup: Some("/system.slice/backup.service"),
    };

    fn rule(change: impl FnOnce(&mut Rule)) -> Rule {
        let mut rule = Rule {
            algorithm: "ledbatpp".to_owned(),
            ..Rule::default()
        };
        change(&mut rule);
        rule
    }

    #[test]
    fn a_rule_matches_a_flow_that_has_everything_that_it_names() {
        let matching = [
            rule(|_| {}),
            rule(|rule| rule.datapath = Some("linux tcp".to_owned())),
            rule(|rule| rule.cgroup = Some("/system.slice".to_owned())),
            rule(|rule| rule.cgroup = Some("/".to_owned())),
            rule(|rule| rule.local_port = Some(443..=443)),
            rule(|rule| rule.remote_port = Some(49_152..=65_535)),
            rule(|rule| rule.prefix = Some("10.0.0.0/8".parse().unwrap())),
            rule(|rule| rule.mark = Some(7)),
        ];
        for rule in matching {
            assert!(rule.matches(&KEY), "{rule:?}");
        }
        let others = [
            rule(|rule| rule.datapath = Some("linux".to_owned())),
            rule(|rule| rule.cgroup = Some("/system".to_owned())),
            rule(|rule| rule.cgroup = Some("/system.slice/backup.service/x".to_owned())),
            rule(|rule| rule.local_port = Some(444..=500)),
            rule(|rule| rule.prefix = Some("10.2.0.0/16".parse().unwrap())),
            rule(|rule| {
                rule.mark = Some(7);
                rule.remote_port = Some(1..=2);
            }),
        ];
        for rule in others {
            assert!(!rule.matches(&KEY), "{rule:?}");
        }
    }

    #[test]
    fn an_ipv4_address_in_ipv6_is_an_ipv4_address() {
        let key = PolicyKey {
            remote: "[::ffff:10.1.2.3]:5".parse().unwrap(),
            ..KEY
        };
        assert!(rule(|rule| rule.prefix = Some("10.0.0.0/8".parse().unwrap())).matches(&key));
    }

    #[test]
    fn the_first_rule_that_matches_counts_and_none_leaves_the_flow_alone() {
        let mut policy = Policy {
            rules: vec![
                rule(|rule| rule.mark = Some(8)),
                rule(|rule| rule.algorithm = "copa".to_owned()),
                rule(|rule| rule.algorithm = "bbr".to_owned()),
            ],
        };
        assert_eq!(policy.choose(&KEY), Some("copa"));
        policy.rules.truncate(1);
        assert_eq!(policy.choose(&KEY), None);
        let unknown = PolicyKey {
            cgroup: None,
            ..KEY
        };
        assert!(!rule(|rule| rule.cgroup = Some("/".to_owned())).matches(&unknown));
    }
}
