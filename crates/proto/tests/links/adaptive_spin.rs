//! When it is looked for packets before waiting, and when no more.

use std::iter::repeat_n;
use std::time::Duration;

use fairwater_proto::link::AdaptiveSpin;
use proptest::prelude::*;

const LIMIT: Duration = Duration::from_micros(50);
const WAKE: Duration = Duration::from_micros(30);

/// What became of a run of packets.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    looks: u32,
    found: u32,
    waits: u32,
}

/// Packets, each so long after the last was handled; a peer that `shares_processor` cannot send
/// while it is looked for.
fn run(
    spin: &mut AdaptiveSpin,
    gaps: impl IntoIterator<Item = Duration>,
    shares_processor: bool,
) -> Tally {
    let mut tally = Tally::default();
    for gap in gaps {
        let look = spin.look();
        assert!(look.is_zero() || look == LIMIT);
        if look.is_zero() {
            tally.waits += 1;
            spin.waited(gap + WAKE);
            continue;
        }
        tally.looks += 1;
        let found = gap <= look && !shares_processor;
        tally.found += u32::from(found);
        spin.looked(if found { gap } else { look }, found);
    }
    tally
}

fn micros(us: u64) -> Duration {
    Duration::from_micros(us)
}

#[test]
fn it_looks_where_packets_come_soon() {
    let mut spin = AdaptiveSpin::new(LIMIT);
    assert!(spin.look().is_zero(), "nothing is known yet");
    let tally = run(&mut spin, repeat_n(micros(20), 1000), false);
    assert!(tally.found >= 998, "{tally:?}");
}

#[test]
fn an_idle_plane_never_looks() {
    let mut spin = AdaptiveSpin::new(LIMIT);
    let tally = run(&mut spin, repeat_n(micros(10_000), 10_000), false);
    assert_eq!(tally.looks, 0);
    // Nor one that has just been busy, but for the few looks that show it.
    run(&mut spin, repeat_n(micros(5), 1000), false);
    let tally = run(&mut spin, repeat_n(micros(10_000), 10_000), false);
    assert!(tally.looks <= 4, "{tally:?}");
}

#[test]
fn a_peer_on_the_same_processor_is_waited_for() {
    let mut spin = AdaptiveSpin::new(LIMIT);
    run(&mut spin, repeat_n(micros(5), 1000), false);
    let tally = run(&mut spin, repeat_n(micros(5), 100_000), true);
    assert!(tally.looks <= 4 + 10 + 100_000 / 1024, "{tally:?}");
}

#[test]
fn looking_is_taken_up_again_when_it_pays_again() {
    let mut spin = AdaptiveSpin::new(LIMIT);
    run(&mut spin, repeat_n(micros(5), 100_000), true);
    let tally = run(&mut spin, repeat_n(micros(5), 10_000), false);
    assert!(tally.found >= 8_900, "{tally:?}");
}

#[test]
fn what_is_found_too_late_is_no_success() {
    let mut spin = AdaptiveSpin::new(LIMIT);
    run(&mut spin, repeat_n(micros(5), 1000), false);
    let mut looks = 0;
    while !spin.look().is_zero() {
        // Something else had the processor for a time slice.
        spin.looked(micros(3000), true);
        looks += 1;
    }
    assert_eq!(looks, 4);
}

#[test]
fn a_limit_of_zero_is_never_to_look() {
    let mut spin = AdaptiveSpin::new(Duration::ZERO);
    for _ in 0..10_000 {
        assert!(spin.look().is_zero());
        spin.waited(Duration::ZERO);
    }
}

proptest! {
    /// Whatever comes, it is looked in vain no more often than something was found or waited for.
    #[test]
    fn looking_in_vain_is_bounded(gaps in prop::collection::vec(0..200u64, 1..5000)) {
        let mut spin = AdaptiveSpin::new(LIMIT);
        let all = gaps.len() as u32;
        let tally = run(&mut spin, gaps.into_iter().map(micros), false);
        prop_assert_eq!(tally.looks + tally.waits, all);
        let vain = tally.looks - tally.found;
        // Each vain look costs credit that was earned, or is a try after a wait at least.
        prop_assert!(vain <= tally.found + tally.waits, "{:?}", tally);
    }

    /// A plane whose packets come at odd times, most of them later than any look lasts, spends
    /// next to nothing on looking.
    #[test]
    fn odd_times_are_waited_for(seed in prop::collection::vec(0..312u64, 2000)) {
        let mut spin = AdaptiveSpin::new(LIMIT);
        let gaps = seed.iter().cycle().take(20_000).map(|us| micros(*us));
        let tally = run(&mut spin, gaps, false);
        prop_assert!(tally.looks <= 400, "{:?}", tally);
    }
}
