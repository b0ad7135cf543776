//! Algorithms behind a pure rate limiter, as in a bundle's sendbox (Bundler §6): nothing holds data in
//! flight below cwnd.

use crate::support::driver::Driver;
use crate::support::limiter::{Feedback, limited};

/// 96 Mbit/s, and 24 Mbit/s from 10 s to 20 s, bytes/ms.
fn steps(now_ms: usize) -> f64 {
    if (10_000..20_000).contains(&now_ms) {
        3_000.0
    } else {
        12_000.0
    }
}

fn within(feedbacks: &[Feedback], from_ms: usize, to_ms: usize) -> &[Feedback] {
    let at = |ms: usize| feedbacks.partition_point(|f| f.now_ms < ms);
    &feedbacks[at(from_ms)..at(to_ms)]
}

/// The share of the capacity that was used, and the longest queueing delay, ms.
fn used(feedbacks: &[Feedback], from_ms: usize, to_ms: usize) -> (f64, f64) {
    let inside = within(feedbacks, from_ms, to_ms);
    let (first, last) = (inside[0], inside[inside.len() - 1]);
    let could: f64 = (first.now_ms..last.now_ms).map(|ms| steps(ms + 1)).sum();
    let longest = inside.iter().map(|f| f.queue_ms).fold(0.0, f64::max);
    ((last.departed - first.departed) / could, longest)
}

/// The capacity falls to a quarter and comes back: no algorithm freezes, though more is in flight than
/// its window, and the link stays used. `basicdelay` keeps the queue short as well.
#[test]
fn a_fall_of_the_capacity_is_followed() {
    for (spec, longest_ms) in [
        // Rates of a round trip, which the queue makes longer, tell of the fall late.
        ("basicdelay", 50.0),
        ("copa:mode=default", 600.0),
        ("copa", 600.0),
        ("bbr:probe_rtt=false", 2_000.0),
        ("bbr:probe_rtt_share=0.5", 2_000.0),
    ] {
        for rtt_ms in [20, 50, 100] {
            let feedbacks = limited(&mut Driver::of_bundle(spec), rtt_ms, steps, 30);
            for (from_ms, to_ms) in [(5_000, 10_000), (12_500, 20_000), (25_000, 29_900)] {
                let (share, longest) = used(&feedbacks, from_ms, to_ms);
                let what =
                    format!("{spec}, {rtt_ms} ms, from {from_ms} ms: {share:.3}, {longest:.1} ms");
                println!("{what}");
                assert!(share > 0.9 && longest < longest_ms, "{what}");
            }
        }
    }
}
