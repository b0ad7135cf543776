//! Marks as congestion: RFC 3168.

use proptest::prelude::*;

use crate::support::driver::Driver;
use crate::support::path::{Path, run};

/// Those that answer marks as losses, and what a reduction leaves of cwnd.
const ANSWER: [(&str, f64); 3] = [("reno", 0.5), ("cubic", 0.7), ("vegas", 0.5)];

fn wide() -> Path {
    Path::new(40_000, 50_000, 100_000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// RFC 3168 §6.1.2: once a window, however many of its packets are marked.
    #[test]
    fn a_window_with_marks_is_reduced_once(
        which in 0..ANSWER.len(),
        // More than 40 packets are out by then, whoever doubles how often.
        first in 100_u64..400,
        marks in prop::collection::btree_set(0_u64..40, 1..20),
    ) {
        let (name, left) = ANSWER[which];
        let mut path = wide();
        path.mark = Box::new(move |n, _| n >= first && marks.contains(&(n - first)));
        let samples = run(path, &mut Driver::new(name), 0.8);
        let at = samples.iter().position(|s| s.marked_now > 0).unwrap();
        let before = samples[at - 1].cwnd as f64;
        let settled = samples[at..].iter().find(|s| s.now_us > samples[at].now_us + 60_000);
        let settled = settled.unwrap().cwnd as f64;
        prop_assert!(
            (before * left - 3.0..before * left + 4.0).contains(&settled),
            "{name}: {before} to {settled}"
        );
    }
}

/// Where marks are not to count, they do not.
#[test]
fn without_ecn_marks_are_nothing() {
    for (name, _) in ANSWER {
        let windows = |marked: bool| {
            let mut path = wide();
            path.mark = Box::new(move |n, _| marked && n % 7 == 0);
            let samples = run(path, &mut Driver::new(&format!("{name}:ecn=false")), 0.5);
            samples.iter().map(|s| s.cwnd).collect::<Vec<_>>()
        };
        assert_eq!(windows(true), windows(false), "{name}");
    }
}
