//! Policies as files: what is read, and every mistake at once.

use std::time::Duration;

use fairwater_edge::buffer::BufferConfig;
use fairwater_edge::policy::{Action, EdgePolicy, MAX_MATCHES, Mode, OnPlaneLoss, Share};
use fairwater_proto::Fallback;

use proptest::prelude::*;

use crate::policy;

#[test]
fn what_a_policy_says() {
    let policy = policy(crate::EXAMPLE);
    let defaults = policy.defaults();
    assert_eq!(defaults.grace, Duration::from_millis(100));
    assert_eq!(defaults.on_plane_loss, OnPlaneLoss::Hold);
    assert_eq!(defaults.on_plane_loss.fallback(), Fallback::Cubic);
    assert_eq!(defaults.table.max_flows, 4096);
    assert_eq!(defaults.table.max_flows_per_interface, 1024);
    let lines: Vec<_> = policy.rules().iter().map(|rule| rule.line).collect();
    assert_eq!(lines, [15, 19, 29, 36]);
    assert_eq!(policy.rules()[0].action, Action::Pass);
    let Action::Control(blue) = &policy.rules()[1].action else {
        panic!("{:?}", policy.rules()[1]);
    };
    assert_eq!(
        (&*blue.algorithm, blue.ecn, blue.police, blue.max_scale),
        ("cubic", true, true, Some(3))
    );
    let Action::Control(red) = &policy.rules()[2].action else {
        panic!("{:?}", policy.rules()[2]);
    };
    let share = Share {
        group: "uplink".into(),
        weight: 3,
    };
    assert_eq!(red.share.as_ref(), Some(&share));
    // One entry for each guest, peer and VLAN.
    let rules: Vec<_> = policy.matches().iter().map(|each| each.rule).collect();
    assert_eq!(rules, [0, 1, 1, 2, 2, 3]);
    assert_eq!(policy.port_sets().len(), 2);
    let algorithms = policy.algorithms();
    assert_eq!(algorithms, ["cubic".into(), "reno".into()]);
}

#[test]
fn a_policy_asks_for_buffers_and_bounds_them() {
    let source = "[defaults]\nmax_buffer_per_flow = \"2MB\"\n\
        [[rule]]\nalgorithm = \"cubic\"\nmode = \"buffer\"\n";
    let with = policy(source);
    let usual = BufferConfig::default();
    let buffers = with.defaults().buffers;
    assert_eq!(buffers.max_flow_bytes, 2_000_000);
    assert_eq!(buffers.max_bytes, usual.max_bytes);
    let Action::Control(treatment) = &with.rules()[0].action else {
        panic!("{:?}", with.rules());
    };
    assert_eq!(treatment.mode, Mode::Buffer);
    let sentences = treatment.sentences().join("; ");
    assert!(
        sentences.contains("sends again what is lost"),
        "{sentences}"
    );

    let without = policy(
        &source
            .replace("buffer\"\n", "window\"\n")
            .replace("2MB", "3MB"),
    );
    let different = EdgePolicy::difference(&with, &without).join("; ");
    for what in ["`max_buffer_per_flow`: from 2000000 to 3000000", "buffered"] {
        assert!(different.contains(what), "{different}");
    }
    let small = EdgePolicy::parse("edge.toml", &source.replace("2MB", "1kB"), None);
    let mistakes = small.unwrap_err();
    assert!(mistakes.to_string().contains("64kB"), "{mistakes}");
}

#[test]
fn an_empty_policy_passes_everything() {
    let policy = policy("");
    assert_eq!(policy, EdgePolicy::default());
    let key = crate::key("10.0.0.1:1", "10.0.0.2:2");
    assert_eq!(policy.treatment(&key, u64::MAX), None);
}

#[test]
fn every_mistake_is_named_at_once() {
    let errors = EdgePolicy::parse(
        "edge.toml",
        include_str!("wrong.toml"),
        Some(&["cubic", "reno"]),
    );
    insta::assert_snapshot!(errors.unwrap_err());
}

#[test]
fn rules_that_never_match_and_what_no_rule_uses_are_warned_of() {
    let parsed = EdgePolicy::parse("edge.toml", include_str!("hidden.toml"), None).unwrap();
    insta::assert_snapshot!(parsed.warnings);
}

#[test]
fn a_policy_that_a_kernel_table_cannot_hold_is_refused() {
    let rules = |count: usize, rule: fn(usize) -> String| -> String {
        let rule = |n| format!("[[rule]]\n{}\npass = true\n", rule(n));
        (0..count).map(rule).collect()
    };
    let parse = |source: &str| EdgePolicy::parse("edge.toml", source, None);
    let by_port = |n| format!("port = \"vnet{n}\"");
    assert!(parse(&rules(64, by_port)).is_ok());
    let errors = parse(&rules(65, by_port)).unwrap_err().to_string();
    assert!(errors.contains("more than 64 sets of ports"), "{errors}");
    let errors = parse(&rules(65, |n| format!("guest_port = {}", n + 1)));
    let errors = errors.unwrap_err().to_string();
    assert!(errors.contains("more than 64 entries"), "{errors}");
    assert!(errors.contains("edge.toml:193:1"), "{errors}");
    // One rule can do that.
    let many: Vec<_> = (0..=MAX_MATCHES)
        .map(|n| format!("\"10.{n}.0.0/16\""))
        .collect();
    let source = format!("[[rule]]\nguest = [{}]\npass = true\n", many.join(", "));
    assert!(parse(&source).is_err());
}

#[test]
fn nonsense_is_refused_and_never_panics() {
    for source in [
        "rule = 3",
        "[rule]\npass = true",
        "[[tenant]]",
        "tenant = 1",
        "[tenant]\nblue = 3",
        "[defaults]\nidle = 5",
        "defaults = []",
        "[[rule]]\nport = 3\npass = true",
        "[[rule]]\nport = [[\"a\"]]\npass = true",
        "[[rule]]\npass = \"yes\"",
        "[[rule]]\nalgorithm = \"\"",
        "[[rule]]\n[[rule",
        "\u{feff}[[rule]]\nvlan = -1",
    ] {
        let parsed = EdgePolicy::parse("edge.toml", source, None);
        assert!(parsed.is_err(), "{source}");
    }
}

#[test]
fn what_the_page_shows_is_a_policy() {
    let page = include_str!("../../../../docs/edge-policy.md");
    let mut blocks = 0;
    for block in page.split("```toml\n").skip(1) {
        let source = block.split("```").next().unwrap();
        let parsed = EdgePolicy::parse("edge.toml", source, None).unwrap();
        assert!(parsed.warnings.is_empty(), "{}", parsed.warnings);
        blocks += 1;
    }
    assert!(blocks >= 3, "{blocks}");
}

proptest! {
    /// Policies with parts cut out, moved or replaced: every diagnostic can be shown.
    #[test]
    fn damaged_policies_never_panic(
        which in 0_usize..4,
        from in 0.0..1.0_f64,
        length in 0_usize..40,
        put in prop::sample::select(vec!["", "\"", "[", "]]", "=", "\n", "é", "0", "[[rule]]\n", "{}", "-1", "true"]),
    ) {
        let source = [
            crate::EXAMPLE,
            include_str!("wrong.toml"),
            include_str!("hidden.toml"),
            include_str!("../../../../examples/edge/mystique-steady.toml"),
        ][which];
        let start = source.floor_char_boundary((from * source.len() as f64) as usize);
        let end = source.floor_char_boundary((start + length).min(source.len()));
        let damaged = [&source[..start], put, &source[end..]].concat();
        match EdgePolicy::parse("edge.toml", &damaged, None) {
            Ok(parsed) => drop(parsed.warnings.render(false)),
            Err(errors) => prop_assert!(!errors.render(false).is_empty()),
        }
    }
}
