//! Observations of reports, and what actions make of cwnd.

use fairwater_gym::{FEATURES, OBSERVATION, PolicyAdapter, Reported};
use proptest::prelude::*;

const MSS: u64 = 1448;

/// A report of a flow that delivered so many segments in 20 ms.
fn report(cwnd: u64, delivered: u64, lost: u64, mean_rtt: u64) -> Reported {
    Reported {
        time_us: 1_000_000,
        cwnd: cwnd * MSS,
        delivered: delivered * MSS,
        lost,
        rtt_sum: mean_rtt * 10,
        rtt_samples: 10,
        timeouts: 0,
        elapsed: 20_000,
        min_rtt: 20_000,
    }
}

fn named(observation: [f32; OBSERVATION], name: &str) -> f32 {
    let index = FEATURES.iter().position(|feature| feature.name == name);
    observation[index.unwrap_or(usize::MAX)]
}

fn close(found: f32, expected: f32) {
    assert!((found - expected).abs() < 1e-3, "{found}, not {expected}");
}

#[test]
fn features_are_what_they_say() {
    let mut adapter = PolicyAdapter::new(1448);
    let first = adapter.observe(&report(10, 10, 0, 20_000));
    close(named(first, "queue"), 0.0);
    close(named(first, "gradient"), 0.0);
    close(named(first, "rate"), 1.0);
    close(named(first, "window"), 0.0);
    adapter.apply(0.5);
    let second = adapter.observe(&Reported {
        timeouts: 1,
        ..report(14, 5, 5, 30_000)
    });
    // The least RTT is 20 ms, the mean was 20 and is 30.
    close(named(second, "queue"), 1.5f32.ln());
    close(named(second, "gradient"), 0.5);
    close(named(second, "loss"), 0.5f32.sqrt());
    close(named(second, "rate"), 0.5);
    // What was steered is kept in fractions: 10 × √2 segments for a BDP of 10.
    close(named(second, "window"), 2f32.sqrt().ln());
    close(named(second, "action"), 0.5);
    close(named(second, "timeout"), 1.0);
    // The greatest rate is forgotten after 32 reports.
    for _ in 0..31 {
        adapter.observe(&report(14, 5, 0, 20_000));
    }
    close(
        named(adapter.observe(&report(14, 5, 0, 20_000)), "rate"),
        1.0,
    );
}

#[test]
fn a_report_without_samples_keeps_what_was_known() {
    let mut adapter = PolicyAdapter::new(1448);
    let nothing = Reported {
        cwnd: 10 * MSS,
        min_rtt: u64::MAX,
        ..Reported::default()
    };
    assert_eq!(adapter.observe(&nothing), [0.0; OBSERVATION]);
    adapter.observe(&report(10, 10, 0, 40_000));
    let silent = adapter.observe(&Reported {
        rtt_sum: 0,
        rtt_samples: 0,
        ..report(10, 0, 0, 0)
    });
    close(named(silent, "queue"), 2f32.ln());
    close(named(silent, "gradient"), 0.0);
}

#[test]
fn a_window_that_others_changed_is_taken_up() {
    let mut adapter = PolicyAdapter::new(1448);
    adapter.observe(&report(40, 40, 0, 20_000));
    assert_eq!(adapter.apply(0.0), 40 * MSS);
    adapter.observe(&report(20, 20, 0, 20_000));
    assert_eq!(adapter.apply(0.0), 20 * MSS);
}

proptest! {
    #[test]
    fn whatever_is_reported_observations_are_bounded_and_cwnd_is_right(
        mss in 0u32..100_000,
        reports in prop::collection::vec(
            (any::<[u64; 7]>(), any::<u64>(), any::<u64>(), any::<f32>()), 1..40),
    ) {
        let mut adapter = PolicyAdapter::new(mss);
        for (fields, time_us, cwnd, action) in reports {
            let observation = adapter.observe(&Reported::new(time_us, cwnd, fields));
            for (value, feature) in observation.iter().zip(&FEATURES) {
                let is_in = (feature.low..=feature.high).contains(value);
                prop_assert!(is_in, "{}: {value}", feature.name);
            }
            prop_assert!(adapter.apply(action) >= 1);
        }
    }
}
