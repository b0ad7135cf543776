//! Which flows a command is about.

use fairwater_service::{PolicyKey, Rule};

/// Parses `port=443,prefix=10.0.0.0/8`: what a flow must have.
pub(crate) fn parse(text: &str) -> Result<Rule, String> {
    let mut rule = Rule::default();
    for part in text.split(',') {
        let (key, value) = part
            .split_once('=')
            .ok_or_else(|| format!("`{part}` is not of the form KEY=VALUE"))?;
        let wrong = |expected: &str| format!("`{value}` is no {expected}");
        match key.trim() {
            "port" => rule.local_port = Some(ports(value).ok_or_else(|| wrong("port"))?),
            "remote-port" => {
                rule.remote_port = Some(ports(value).ok_or_else(|| wrong("port"))?);
            }
            "prefix" => {
                rule.prefix = Some(
                    value
                        .parse()
                        .map_err(|_| wrong("prefix, as 10.0.0.0/8 is one"))?,
                );
            }
            "mark" => rule.mark = Some(value.parse().map_err(|_| wrong("mark"))?),
            "cgroup" => rule.cgroup = Some(value.to_owned()),
            "datapath" => rule.datapath = Some(value.to_owned()),
            other => {
                return Err(format!(
                    "`{other}` is no key: port, remote-port, prefix, mark, cgroup or datapath"
                ));
            }
        }
    }
    Ok(rule)
}

fn ports(text: &str) -> Option<std::ops::RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some(first..=last)
}

/// Which flows are recorded: what a flow must have, its algorithm among it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FlowFilter {
    text: String,
    algorithm: Option<String>,
    rule: Rule,
}

impl FlowFilter {
    /// Parses `algorithm=copa,port=443`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (algorithms, others): (Vec<&str>, Vec<&str>) = text
            .split(',')
            .partition(|part| part.trim_start().starts_with("algorithm="));
        let rule = match others.as_slice() {
            [] => Rule::default(),
            others => parse(&others.join(","))
                .map_err(|why| why.replace("is no key: port", "is no key: algorithm, port"))?,
        };
        let algorithm = algorithms.last().and_then(|part| part.split_once('='));
        Ok(Self {
            text: text.to_owned(),
            algorithm: algorithm.map(|(_, name)| name.to_owned()),
            rule,
        })
    }

    /// As it was typed.
    pub(crate) fn text(&self) -> String {
        self.text.clone()
    }

    /// Whether a flow that asks for this algorithm has everything that the filter names. An algorithm is
    /// named with its parameters or without.
    pub(crate) fn matches(&self, algorithm: &str, key: &PolicyKey<'_>) -> bool {
        let bare = algorithm
            .split_once(':')
            .map_or(algorithm, |(name, _)| name);
        let is_it = |wanted: &str| wanted == algorithm || wanted == bare;
        self.algorithm.as_deref().is_none_or(is_it) && self.rule.matches(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_name_what_a_flow_must_have() {
        let rule = parse("port=443,prefix=10.0.0.0/8,mark=7").unwrap();
        assert_eq!(rule.local_port, Some(443..=443));
        assert_eq!(rule.mark, Some(7));
        assert_eq!(rule.prefix, Some("10.0.0.0/8".parse().unwrap()));
        assert!(parse("port").unwrap_err().contains("KEY=VALUE"));
        assert!(parse("sport=1").unwrap_err().contains("no key"));
        assert!(parse("port=9-1").is_err());
    }

    #[test]
    fn an_algorithm_is_named_with_its_parameters_or_without() {
        let key = PolicyKey {
            datapath: "host 0",
            local: "10.0.0.0:1024".parse().unwrap(),
            remote: "10.0.0.1:443".parse().unwrap(),
            tag: 0,
            cgroup: None,
        };
        let filter = FlowFilter::parse("algorithm=copa,remote-port=443").unwrap();
        assert!(filter.matches("copa", &key));
        assert!(filter.matches("copa:delta=0.1", &key));
        assert!(!filter.matches("cubic", &key));
        let other = FlowFilter::parse("remote-port=80").unwrap();
        assert!(!other.matches("copa", &key));
        let refused = FlowFilter::parse("sport=80").unwrap_err();
        assert!(refused.contains("no key: algorithm, port"), "{refused}");
    }
}
