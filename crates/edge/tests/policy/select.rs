//! Selectors: the examples that ship, and what hysteresis is to keep.

use std::sync::Arc;
use std::time::Duration;

use fairwater_edge::policy::EdgePolicy;
use fairwater_edge::select::{Measures, Selector, SelectorConfig};
use fairwater_net::Time;
use proptest::prelude::*;

use crate::policy;

const MYSTIQUE: &str = include_str!("../../../../examples/edge/mystique.toml");
const STEADY: &str = include_str!("../../../../examples/edge/mystique-steady.toml");

fn config(source: &str) -> Arc<SelectorConfig> {
    Arc::clone(&policy(source).selectors()[0])
}

fn measures(ms: u64, rtt_us: u64, acked: u64, lost: u64) -> Measures {
    Measures {
        now: Time::from_millis(ms),
        rtt_us,
        min_rtt_us: rtt_us,
        acked_packets: acked,
        lost_packets: lost,
        marked_packets: 0,
    }
}

#[test]
fn the_examples_select_for_every_connection() {
    for source in [MYSTIQUE, STEADY] {
        let known = ["hybla", "illinois", "bbr"];
        let parsed = EdgePolicy::parse("edge.toml", source, Some(&known)).unwrap();
        assert!(parsed.warnings.is_empty(), "{}", parsed.warnings);
        let policy = parsed.policy;
        let (_, treatment) = policy
            .treatment(&crate::key("10.0.0.1:80", "10.0.0.2:2"), 0)
            .unwrap();
        assert_eq!(&*treatment.algorithm, "hybla");
        let selector = treatment.selector.as_ref().unwrap();
        assert_eq!(policy.selector(&selector.name), Some(selector));
        assert_eq!(policy.algorithms(), known.map(Arc::from));
    }
}

#[test]
fn algorithm_1_is_followed_case_by_case() {
    let mut selector = Selector::new(config(MYSTIQUE));
    // Lines 2 to 8: loss at this report, RTT, and what controls the flow from then on.
    for (index, (lost, rtt_us, expected)) in [
        (0, 300_000, "hybla"),
        (0, 10_000, "hybla"),
        (1, 10_000, "illinois"),
        (7, 49_999, "illinois"),
        (1, 50_000, "bbr"),
        (1, 300_000, "bbr"),
        (0, 300_000, "hybla"),
        (1, 1, "illinois"),
        (0, 49_999, "hybla"),
        (0, 50_000, "hybla"),
    ]
    .into_iter()
    .enumerate()
    {
        let ms = 1_000 + index as u64;
        let before = Arc::clone(selector.algorithm());
        let switch = selector.on_measures(&measures(ms, rtt_us, 10, lost));
        assert_eq!(&**selector.algorithm(), expected, "case {index}");
        let switched = switch.map(|switch| switch.algorithm);
        let expected = (*before != *expected).then(|| Arc::from(expected));
        assert_eq!(switched, expected, "case {index}");
    }
}

#[test]
fn what_is_not_known_yet_changes_nothing() {
    let mut selector = Selector::new(config(STEADY));
    // Of 50 packets one is lost: that says nothing about their share.
    assert_eq!(selector.on_measures(&measures(1_000, 80_000, 49, 1)), None);
    let said = selector.explain(Time::from_millis(1_000));
    assert!(said[0].contains("not known yet"), "{said:?}");
    // Of 1,000 it does.
    let switch = selector.on_measures(&measures(1_100, 80_000, 949, 1));
    assert_eq!(&*switch.unwrap().algorithm, "bbr");
    insta::assert_snapshot!(selector.explain(Time::from_millis(2_000)).join("\n"));
    // RTT unknown.
    let mut selector = Selector::new(config(MYSTIQUE));
    assert_eq!(selector.on_measures(&measures(1_000, 0, 9, 1)), None);
}

#[test]
fn losses_count_for_their_window_and_no_longer() {
    let mut selector = Selector::new(config(STEADY));
    selector.on_measures(&measures(1_000, 30_000, 990, 10));
    assert_eq!(&**selector.algorithm(), "illinois");
    let mut back = None;
    for ms in (1_100..30_000).step_by(100) {
        if let Some(switch) = selector.on_measures(&measures(ms, 30_000, 100, 0)) {
            assert!(back.is_none());
            assert_eq!(&*switch.algorithm, "hybla");
            back = Some(ms);
        }
    }
    // The window, and one part of it more.
    let back = back.unwrap();
    assert!((9_000..=12_000).contains(&back), "{back}");
}

#[test]
fn losses_before_a_pause_are_forgotten() {
    let mut selector = Selector::new(config(STEADY));
    selector.on_measures(&measures(1_000, 30_000, 990, 10));
    assert_eq!(&**selector.algorithm(), "illinois");
    selector.on_measures(&measures(60_000, 30_000, 1_000, 0));
    assert_eq!(&**selector.algorithm(), "hybla");
}

/// Random measures at random intervals.
fn path() -> impl Strategy<Value = Vec<(u64, u64, u64, u64)>> {
    let one = (1_u64..2_000, 1_000_u64..200_000, 0_u64..400, 0_u64..4);
    prop::collection::vec(one, 1..200)
}

proptest! {
    #[test]
    fn there_is_one_switch_in_a_hold_time_at_most(path in path()) {
        let mut selector = Selector::new(config(STEADY));
        let (mut now, mut last) = (1_000, None::<u64>);
        for (interval, rtt_us, acked, lost) in path {
            now += interval;
            if selector.on_measures(&measures(now, rtt_us, acked, lost)).is_some() {
                if let Some(last) = last {
                    prop_assert!(now - last >= 5_000);
                }
                last = Some(now);
            }
        }
    }

    /// A path whose RTT and loss scatter about the thresholds by less than the margin.
    #[test]
    fn noise_within_the_margin_switches_once_at_most(
        noise in prop::collection::vec((40_000_u64..=59_999, 0_u64..2), 50..300),
        loss_ppm in prop::sample::select(vec![0_u64, 450, 500, 550, 20_000]),
    ) {
        let mut selector = Selector::new(config(STEADY));
        let mut switches = 0;
        for (index, (rtt_us, jitter)) in noise.into_iter().enumerate() {
            // Every 100 ms 10^4 packets: those lost are within 20 % of 0.05 % but for 0 and 2 %.
            let lost = loss_ppm / 100 + if (450..=550).contains(&loss_ppm) { jitter } else { 0 };
            let now = 1_000 + 100 * index as u64;
            let switch = selector.on_measures(&measures(now, rtt_us, 10_000 - lost, lost));
            switches += u32::from(switch.is_some());
        }
        prop_assert!(switches <= 1, "{}", switches);
    }

    /// Algorithm 1 on random paths, against the paper's lines.
    #[test]
    fn algorithm_1_remembers_nothing(path in path()) {
        let mut selector = Selector::new(config(MYSTIQUE));
        let mut now = 1_000;
        for (interval, rtt_us, acked, lost) in path {
            now += interval;
            selector.on_measures(&measures(now, rtt_us, acked, lost));
            let expected = if lost == 0 {
                "hybla"
            } else if Duration::from_micros(rtt_us) < Duration::from_millis(50) {
                "illinois"
            } else {
                "bbr"
            };
            prop_assert_eq!(&**selector.algorithm(), expected);
        }
    }
}
