//! Configurations of a host: the example that ships, and every mistake at once.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::Duration;

use fairwater_hosting::bundle::create_key;
use fairwater_hosting::host::{HostConfig, MetricsAddress};

fn parse(source: &str) -> Result<HostConfig, String> {
    HostConfig::parse("host.toml", source, Path::new("")).map_err(|errors| errors.to_string())
}

#[test]
fn the_example_that_ships_is_sound_as_it_is_and_with_everything_in_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/fairwater.toml");
    let example = std::fs::read_to_string(path).unwrap();
    let config = parse(&example).unwrap();
    assert_eq!(config.algorithms.len(), 4);
    assert!(config.linux.is_some() && config.policy.rules.is_empty());
    // A comment without a space is a key that may be used.
    let everything: Vec<_> = example
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(key) if !key.starts_with(' ') => key,
            _ => line,
        })
        .filter(|line| !line.contains("netops"))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    for key in ["tokyo.key", "osaka.key"] {
        create_key(&folder.path().join(key)).unwrap();
    }
    let here = format!("{}/", folder.path().display());
    let everything = everything.join("\n").replace("/etc/fairwater/", &here);
    let config = parse(&everything).unwrap();
    let sendbox = config.sendbox.unwrap();
    assert_eq!(sendbox.bundles[0].0.algorithm, "copa");
    assert_eq!(config.receivebox.unwrap().bundles[0].0, "osaka");
    assert_eq!(config.policy.rules.len(), 2);
    let rule = &config.policy.rules[1];
    assert_eq!(
        (rule.mark, rule.remote_port.clone()),
        (Some(7), Some(8000..=8999))
    );
    let edge = config.edge.unwrap();
    assert_eq!(edge.policy_file, Path::new("edge.toml"));
    assert!(edge.on[0].matches("vnet12") && !edge.on[0].matches("eth0"));
    let linux = config.linux.unwrap();
    assert_eq!(linux.default.as_deref(), Some("cubic"));
    assert_eq!(linux.options.silent_after, Duration::from_millis(200));
    assert_eq!(
        config.metrics,
        Some(MetricsAddress::Tcp("127.0.0.1:9464".parse().unwrap()))
    );
}

#[test]
fn every_mistake_is_named_at_once() {
    let errors = parse(include_str!("wrong.toml")).unwrap_err();
    insta::assert_snapshot!(errors);
}

#[test]
fn what_runs_nothing_is_refused() {
    let errors = parse("algorithms = [\"cubic\"]\n").unwrap_err();
    assert!(errors.contains("nothing to run"), "{errors}");
    let errors = parse("[linux]\n").unwrap_err();
    assert!(
        errors.contains("the configuration has no `algorithms`"),
        "{errors}"
    );
    let errors = parse("algorithms = []\n[linux]\n").unwrap_err();
    assert!(errors.contains("no algorithm is listed"), "{errors}");
}

#[test]
fn algorithms_can_be_named() {
    let config = parse(
        "algorithms = { slow = \"cubic:report=100ms\", fast = \"cubic\" }\n[linux]\ndefault = \"fast\"\n",
    );
    let config = config.unwrap();
    let names: Vec<_> = config
        .algorithms
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    // The first of the file is that of who asks for none.
    assert_eq!(names, ["slow", "fast"]);
}

/// Both boxes in one configuration, with mistakes in each.
#[test]
fn mistakes_of_boxes_are_named_with_all_others() {
    let errors = parse(
        "algorithms = [\"copa\"]\n\
         [sendbox]\nport = \"lan0\"\n[[sendbox.bundle]]\nname = \"a\"\nnumber = 1\nalgorithm = \"coba\"\n\
         [receivebox]\nports = []\n[linux]\nmax_flow = 3\n",
    )
    .unwrap_err();
    for mistake in [
        "`[sendbox]` has no `ports`",
        "`[sendbox]` has no key `port`",
        "a bundle has no `key`",
        "no algorithm of `algorithms` is called `coba`",
        "did you mean `copa`?",
        "`[receivebox]` has no `bundle`",
        "no interface is listed",
        "`[linux]` has no key `max_flow`",
    ] {
        assert!(errors.contains(mistake), "{mistake}: {errors}");
    }
}
