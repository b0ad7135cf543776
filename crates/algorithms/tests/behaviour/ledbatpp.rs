//! LEDBAT++: draft-irtf-iccrg-ledbat-plus-plus, RFC 6817.

use crate::support::acks::Acks;
use crate::support::driver::Driver;
use crate::support::path::{Path, Sample, run};

fn at(samples: &[Sample], us: u64) -> Sample {
    *samples.iter().find(|s| s.now_us >= us).unwrap()
}

/// cwnd at the end of so long.
fn keep(acks: &mut Acks, rtt_us: u64, for_us: u64) -> u64 {
    let end = acks.now_us + for_us;
    while acks.now_us < end {
        acks.clocked(rtt_us, 0);
    }
    acks.cwnd
}

/// GAIN = 1 / min(16, ⌈2·TARGET / base⌉): over an RTT of 30 ms a quarter of what slow start adds.
#[test]
fn slow_start_begins_with_two_segments_and_grows_by_the_gain() {
    for (rtt_us, divisor) in [(30_000, 4), (120_000, 1), (60_000, 2), (5_000, 16)] {
        let mut acks = Acks::new("ledbatpp");
        acks.clocked(rtt_us, 0);
        assert_eq!(acks.cwnd, 2, "{rtt_us} µs");
        keep(&mut acks, rtt_us, 3 * divisor * rtt_us);
        let before = acks.cwnd;
        let after = keep(&mut acks, rtt_us, rtt_us);
        let growth = after as f64 / before as f64;
        let expected = (1.0 / divisor as f64).exp();
        assert!(
            (growth / expected - 1.0).abs() < 0.15,
            "{rtt_us} µs: {before} to {after}, not by {expected}"
        );
    }
}

/// The first slow start ends at three quarters of the target, here 45 ms.
#[test]
fn slow_start_ends_short_of_the_target() {
    for rtt_ms in [20, 60, 100] {
        let path = Path::new(2_000, rtt_ms * 1_000, 10_000);
        let samples = run(path, &mut Driver::new("ledbatpp:slowdowns=false"), 20.0);
        let end = samples
            .iter()
            .find(|s| s.rtt_us > rtt_ms * 1_000 + 46_000)
            .unwrap();
        let later = at(&samples, end.now_us + 2 * rtt_ms * 1_000 + 200_000);
        // What was sent before the delay was seen arrives a round trip later.
        let bound = end.cwnd + end.cwnd / 2;
        assert!(
            later.cwnd <= bound,
            "{rtt_ms} ms: {} to {}",
            end.cwnd,
            later.cwnd
        );
    }
}

/// Below the target GAIN segments a round trip, whatever the delay: no longer what is left to the
/// target, as in RFC 6817.
#[test]
fn avoidance_adds_the_gain_each_round_trip() {
    let mut acks = Acks::new("ledbatpp:slowdowns=false");
    keep(&mut acks, 20_000, 400_000);
    acks.clocked(66_000, 0);
    keep(&mut acks, 66_000, 66_000);
    let before = acks.cwnd;
    for rtt_us in [66_000, 30_000] {
        let before = acks.cwnd;
        keep(&mut acks, rtt_us, 60 * rtt_us);
        let added = acks.cwnd - before;
        // ⌈120 ms / 20 ms⌉ = 6.
        assert!(
            (9..=11).contains(&added),
            "{rtt_us} µs: {added} in 60 round trips"
        );
    }
    assert!(acks.cwnd > before);
}

#[test]
fn above_the_target_the_window_shrinks_by_how_far_and_never_by_more_than_half() {
    for (queueing_us, share) in [(66_000, 0.9), (90_000, 0.6), (600_000, 0.6)] {
        let mut acks = Acks::new("ledbatpp:slowdowns=false");
        keep(&mut acks, 20_000, 400_000);
        keep(&mut acks, 68_000, 68_000);
        let before = acks.cwnd as f64;
        let rtt_us = 20_000 + queueing_us;
        // A quarter of a round trip, before the least of four samples is seen to have risen.
        for _ in 0..4 {
            acks.clocked(rtt_us, 0);
        }
        let after = keep(&mut acks, rtt_us, rtt_us) as f64;
        let kept = after / before;
        assert!(
            (share - 0.08..share + 0.08).contains(&kept),
            "{queueing_us} µs: {kept}"
        );
    }
}

/// Two segments for two round trips, and the next nine times the duration later.
#[test]
fn slowdowns_hold_two_segments_and_are_nine_durations_apart() {
    let path = Path::new(2_000, 40_000, 10_000);
    let samples = run(path, &mut Driver::new("ledbatpp"), 60.0);
    let slow: Vec<_> = samples
        .windows(2)
        .filter(|pair| pair[0].cwnd > 10 && pair[1].cwnd == 2)
        .map(|pair| pair[1])
        .collect();
    assert!(slow.len() >= 3, "{}", slow.len());
    for (this, next) in slow.iter().zip(&slow[1..]).skip(1) {
        let before = samples.iter().rfind(|s| s.now_us < this.now_us).unwrap();
        let back = samples
            .iter()
            .find(|s| s.now_us > this.now_us && s.cwnd >= before.cwnd)
            .unwrap();
        let held = samples
            .iter()
            .find(|s| s.now_us > this.now_us && s.cwnd > 2)
            .unwrap();
        assert!(held.now_us - this.now_us >= 2 * before.rtt_us);
        let took = back.now_us - this.now_us;
        let apart = (next.now_us - back.now_us) as f64 / took as f64;
        assert!((9.0..9.3).contains(&apart), "{apart} times {took} µs");
        // The queue was empty: the base delay was seen.
        let least = samples
            .iter()
            .filter(|s| (this.now_us..back.now_us).contains(&s.now_us))
            .map(|s| s.rtt_us)
            .min();
        assert!(least.unwrap() < 41_500, "{least:?}");
    }
}

/// RFC 6817 §2.4.2.
#[test]
fn a_loss_halves_the_window_once_a_round_trip() {
    let mut acks = Acks::new("ledbatpp:slowdowns=false");
    keep(&mut acks, 40_000, 400_000);
    let before = acks.cwnd;
    assert_eq!(acks.clocked(40_000, 1), before / 2);
    for _ in 0..before / 3 {
        acks.clocked(40_000, 1);
    }
    assert_eq!(acks.cwnd, before / 2);
    keep(&mut acks, 40_000, 200_000);
    let again = acks.cwnd;
    assert_eq!(acks.clocked(40_000, 1), again / 2);
}

#[test]
fn a_timeout_restarts_from_one_segment_to_half_of_the_window() {
    let mut path = Path::new(2_000, 60_000, 10_000);
    path.lose = Box::new(|_, now| (4_000_000..4_800_000).contains(&now));
    let samples = run(path, &mut Driver::new("ledbatpp:slowdowns=false"), 12.0);
    let timeout = samples.iter().position(|s| s.timeout).unwrap();
    let before = samples[timeout - 1].cwnd;
    assert_eq!(samples[timeout].cwnd, 1);
    // By the gain of a half at 60 ms, ln(W/2) / ln(1.5) round trips, then a half each.
    let after = at(&samples, 8_500_000).cwnd;
    assert!(
        (before / 2..=before / 2 + 40).contains(&after),
        "{after} of {before}"
    );
}

/// RFC 6817 §2.4.2: a shorter route is seen at once, a longer one after ten minutes.
#[test]
fn the_base_delay_is_remembered_for_ten_minutes() {
    let mut acks = Acks::new("ledbatpp:target=10ms,slowdowns=false");
    keep(&mut acks, 20_000, 60_000);
    keep(&mut acks, 50_000, 595_000_000);
    assert_eq!(acks.cwnd, 2, "30 ms above the base");
    keep(&mut acks, 50_000, 10_000_000);
    assert!(acks.cwnd > 20, "{} after the base is forgotten", acks.cwnd);
}
