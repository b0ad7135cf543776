//! Verdicts tell what the numbers tell: sabotage fails, noise cannot be told, and the same runs have the
//! same verdict.

#![expect(clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;

use fairwater_reproduce::{Entry, Judged, Verdict, judge, judge_benchmark};
use fairwater_results::{BenchmarkResult, FlowResult, GroupResult, PointResult};
use proptest::prelude::*;
use support::{Files, entry};

/// The point of `cubic`, and of `constant`, both on the near path.
const CUBIC: usize = 0;
const CONSTANT: usize = 2;

/// A claim: under `algorithm` the tested flow is within 5 % of the others.
fn alike(algorithm: &str) -> String {
    format!(
        r#"
measure = "flow_throughput"
flows = "tested"
where = {{ algorithm = "{algorithm}", path = "near" }}
against = {{ flows = "others" }}
as = "change"
within = [-5, 5]
"#
    )
}

/// Runs of these seeds, each with the two flows' throughput in Mbit/s.
fn runs(flows: &[(f64, f64)]) -> Vec<PointResult> {
    let group = |name: &str| GroupResult {
        name: name.to_owned(),
        algorithm: String::new(),
        flows: 1,
        throughput_bps: 0.0,
        jain: 1.0,
        retransmissions: 0,
        timeouts: 0,
        marked: 0,
        unfinished: 0,
        requests: Vec::new(),
        completions: Vec::new(),
    };
    let flow = |group, mbit: f64| FlowResult {
        name: String::new(),
        group,
        throughput_bps: mbit * 1e6,
        segments: 1,
        retransmissions: 0,
        timeouts: 0,
        marked: 0,
        rtt_us: None,
        queueing_us: None,
        fallback: None,
        samples: Vec::new(),
    };
    let run = |(seed, (tested, others)): (u64, &(f64, f64))| PointResult {
        point: 0,
        variables: BTreeMap::new(),
        seed,
        backend: "sim".to_owned(),
        measured_s: 10.0,
        jain: 1.0,
        groups: vec![group("tested"), group("others")],
        flows: vec![flow(0, *tested), flow(1, *others)],
        edges: Vec::new(),
        disturbed: false,
        notices: Vec::new(),
    };
    (1..).zip(flows).map(run).collect()
}

fn judged(claim: &str, runs: &BTreeMap<usize, Vec<PointResult>>) -> Judged {
    let entry = entry(claim);
    let Some(run) = entry.runs.first() else {
        panic!("the entry runs nothing")
    };
    let mut judged = judge(&entry, run, &run.full.plan, runs);
    judged.remove(0)
}

/// Numbers that vary by this share from seed to seed, both flows by the same chance.
fn noisy(center: f64, noise: &[f64], own: &[f64]) -> Vec<(f64, f64)> {
    let pair = |(common, own): (&f64, &f64)| (center * (1.0 + common + own), 10.0 * (1.0 + common));
    noise.iter().zip(own).map(pair).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// The numbers of an algorithm that is not alike, in the place of one that is.
    #[test]
    fn sabotage_does_not_hold(
        noise in prop::collection::vec(-0.3_f64..0.3, 8..20),
        own in prop::collection::vec(-0.02_f64..0.02, 20),
        wrong in prop_oneof![0.1_f64..0.85, 1.15_f64..3.0],
    ) {
        let good = BTreeMap::from([
            (CUBIC, runs(&noisy(10.0, &noise, &own))),
            (CONSTANT, runs(&noisy(10.0 * wrong, &noise, &own))),
        ]);
        // Paired by seed, what all flows of a run have in common does no harm.
        prop_assert_eq!(judged(&alike("cubic"), &good).verdict, Verdict::Holds);
        prop_assert_eq!(judged(&alike("constant"), &good).verdict, Verdict::DoesNotHold);
    }

    #[test]
    fn wide_noise_cannot_be_told(own in prop::collection::vec(0.2_f64..0.9, 4..10)) {
        // As much above as below, so that the mean is right.
        let own: Vec<f64> = own.iter().flat_map(|x| [*x, -x]).collect();
        let flows = noisy(10.0, &vec![0.0; own.len()], &own);
        let found = judged(&alike("cubic"), &BTreeMap::from([(CUBIC, runs(&flows))]));
        prop_assert_eq!(found.verdict, Verdict::CannotBeTold);
    }

    #[test]
    fn the_same_runs_have_the_same_verdict(
        flows in prop::collection::vec((1.0_f64..20.0, 1.0_f64..20.0), 0..12),
    ) {
        let runs = BTreeMap::from([(CUBIC, runs(&flows))]);
        let found = judged(&alike("cubic"), &runs);
        prop_assert_eq!(&found, &judged(&alike("cubic"), &runs));
        if flows.len() < 2 {
            prop_assert_eq!(found.verdict, Verdict::CannotBeTold);
            prop_assert!(found.reason.is_some());
        }
    }

    /// What is within a range is within a wider one, and a bound that holds holds when it is looser.
    #[test]
    fn looser_checks_hold_too(
        flows in prop::collection::vec((1.0_f64..20.0, 1.0_f64..20.0), 3..12),
        most in 0.0_f64..30.0,
    ) {
        let runs = BTreeMap::from([(CUBIC, runs(&flows))]);
        let verdict = |check: String| {
            let claim = format!(
                "measure = \"flow_throughput\"\nflows = \"tested\"\nwhere = {{ algorithm = \"cubic\", path = \"near\" }}\n{check}\n"
            );
            judged(&claim, &runs).verdict
        };
        if verdict(format!("at_most = {most:?}")) == Verdict::Holds {
            let looser = most + 1.0;
            prop_assert_eq!(verdict(format!("at_most = {looser:?}")), Verdict::Holds);
            prop_assert_ne!(verdict(format!("at_least = {looser:?}")), Verdict::Holds);
        }
    }
}

#[test]
fn an_order_holds_if_each_step_rises() {
    let order = |first: &str, second: &str| {
        format!(
            "measure = \"flow_throughput\"\nflows = \"tested\"\nwhere = {{ path = \"near\" }}\norders = [{{ where = {{ algorithm = \"{first}\" }} }}, {{ where = {{ algorithm = \"{second}\" }} }}]\n"
        )
    };
    let seeds = [0.0, 0.1, -0.1, 0.05, -0.05];
    let of = |mbit: f64| runs(&seeds.map(|noise| (mbit + noise, 10.0)));
    let runs = BTreeMap::from([(CUBIC, of(9.0)), (CONSTANT, of(8.0))]);
    let rising = judged(&order("constant", "cubic"), &runs);
    assert_eq!(rising.verdict, Verdict::Holds);
    let ours = rising.ours.unwrap_or_else(|| panic!("no number"));
    assert_eq!(ours.means.len(), 2);
    assert!((ours.value - 1.0).abs() < 1e-9, "{ours:?}");
    assert_eq!(
        judged(&order("cubic", "constant"), &runs).verdict,
        Verdict::DoesNotHold
    );
    // Equal points do not rise.
    let equal = BTreeMap::from([(CUBIC, of(9.0)), (CONSTANT, of(9.0))]);
    assert_eq!(
        judged(&order("cubic", "constant"), &equal).verdict,
        Verdict::DoesNotHold
    );
}

#[test]
fn a_run_without_the_measure_leaves_the_claim_open() {
    let claim = "measure = \"resent\"\nflows = \"others\"\nwhere = { algorithm = \"cubic\", path = \"near\" }\nat_most = 1\n";
    let mut all = runs(&[(1.0, 2.0), (1.0, 2.0)]);
    all[1].flows[1].segments = 0;
    let found = judged(claim, &BTreeMap::from([(CUBIC, all)]));
    assert_eq!(found.verdict, Verdict::CannotBeTold);
    assert_eq!(
        found.reason.as_deref(),
        Some("the run of seed 2 has no such measure")
    );
}

#[test]
fn runs_that_were_disturbed_do_not_count() {
    let against = |disturbed: &[usize]| {
        // What a disturbed run measured is far from the truth.
        let mut flows = vec![(10.0, 10.0); 6];
        for seed in disturbed {
            flows[*seed].0 = 2.0;
        }
        let mut runs = runs(&flows);
        for seed in disturbed {
            runs[*seed].disturbed = true;
        }
        judged(&alike("cubic"), &BTreeMap::from([(CUBIC, runs)]))
    };
    let calm = against(&[]);
    assert_eq!(calm.verdict, Verdict::Holds);
    let some = against(&[0, 4]);
    assert_eq!(some.verdict, Verdict::Holds);
    assert_eq!(some.ours.map(|ours| ours.seeds), Some(4));
    for all in [&[0, 1, 2, 3, 4, 5][..], &[0, 1, 3, 4, 5]] {
        let found = against(all);
        assert_eq!(found.verdict, Verdict::CannotBeTold);
        let reason = found.reason.unwrap_or_default();
        let expected = format!("the machine disturbed {} of 6 seeds", all.len());
        assert!(reason.starts_with(&expected), "{reason}");
    }
}

#[test]
fn a_benchmark_is_judged_by_its_calm_rounds() {
    let source = r#"
title = "A benchmark"
section = "§1"
world = "bench"
benchmark = "loopback"

[[claim]]
id = "kept"
text = "Nothing is lost"
section = "§1"
theirs = "all"
measure = "loopback_kept"
where = { report = "ack" }
at_least = 95
bound = "ours"

[[claim]]
id = "order"
text = "Reports for each ACK cost more"
section = "§1"
theirs = "more"
measure = "loopback_kept"
orders = [{ where = { report = "ack" } }, { where = { report = "10ms" } }]
bound = "more"
"#;
    let entry = Entry::parse("test", "1", "1.toml", source, &Files)
        .unwrap_or_else(|refused| panic!("{}", refused.render(false)));
    let judge = |rounds: &[(f64, bool)]| {
        let mut result = BenchmarkResult::new("loopback");
        for (kept, disturbed) in rounds {
            result.push("loopback_kept", &[("report", "ack")], *kept);
            result.push("loopback_kept", &[("report", "10ms")], kept + 1.0);
            result.disturbed.push(disturbed.then(|| "noise".to_owned()));
        }
        let judged = judge_benchmark(&entry, &entry.runs[0], &result);
        judged.into_iter().map(|j| j.verdict).collect::<Vec<_>>()
    };
    let calm = [(97.0, false), (97.2, false), (96.9, false), (97.1, false)];
    assert_eq!(judge(&calm), [Verdict::Holds, Verdict::Holds]);
    let slow = calm.map(|(kept, _)| (kept - 20.0, false));
    assert_eq!(judge(&slow), [Verdict::DoesNotHold, Verdict::Holds]);
    let one = [(20.0, true), (97.0, false), (97.2, false), (97.1, false)];
    assert_eq!(judge(&one), [Verdict::Holds, Verdict::Holds]);
    let none = calm.map(|(kept, _)| (kept, true));
    assert_eq!(judge(&none), [Verdict::CannotBeTold; 2]);
}
