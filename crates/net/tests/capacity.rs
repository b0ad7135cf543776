//! Token buckets and schedules, held against the plain rate.

#![expect(
    clippy::expect_used,
    reason = "helpers of tests fail the test by panicking"
)]

use std::sync::Arc;
use std::time::Duration;

use fairwater_net::{
    Capacity, Limit, Link, LinkConfig, Packet, Passage, QueueConfig, Rate, RateSchedule,
    ScheduleProblem, Time,
};
use proptest::prelude::*;

struct Sized(u32);

impl Packet for Sized {
    fn size_bytes(&self) -> u32 {
        self.0
    }
}

fn rate(bps: u64) -> Rate {
    Rate::from_bps(bps).expect("not zero")
}

fn schedule(steps: &[(u64, u64)]) -> Capacity {
    let steps = steps
        .iter()
        .map(|(ms, bps)| (Time::from_millis(*ms), rate(*bps)));
    let schedule = RateSchedule::new(steps.collect()).expect("rising from 0");
    Capacity::Schedule(Arc::new(schedule))
}

/// The passages of packets, each a gap (ns) after the one before.
fn passages(capacity: Capacity, offered: &[(u64, u32)]) -> Vec<Passage> {
    let queue = QueueConfig::DropTail(Limit::Unlimited);
    let mut link = Link::new(&LinkConfig::new(capacity, queue, Duration::ZERO));
    let mut now = 0;
    for (gap, size) in offered {
        now += gap;
        link.enqueue(Time::from_nanos(now), Sized(*size));
    }
    let end = Time::from_nanos(u64::MAX);
    std::iter::from_fn(|| link.poll(end))
        .map(|delivered| delivered.passage)
        .collect()
}

fn offered() -> impl Strategy<Value = Vec<(u64, u32)>> {
    let gap = prop_oneof![Just(0), 1..2_000_000u64, 1_000_000..80_000_000u64];
    prop::collection::vec((gap, 40..=1500u32), 1..200)
}

proptest! {
    #[test]
    fn no_interval_carries_more_than_the_rate_and_the_bucket(
        bps in 10_000..1_000_000_000u64,
        burst_bytes in 1_500..100_000u64,
        offered in offered(),
    ) {
        let capacity = Capacity::TokenBucket { rate: rate(bps), burst_bytes };
        let out = passages(capacity, &offered);
        for first in 0..out.len() {
            let mut bytes = 0;
            for passage in &out[first..] {
                bytes += u64::from(passage.size_bytes);
                let took = passage.departed.since(out[first].departed);
                let most = burst_bytes + rate(bps).bytes_in(took + Duration::from_nanos(1)) + 1;
                prop_assert!(bytes <= most, "{bytes} of {most}");
            }
        }
    }

    #[test]
    fn a_token_bucket_never_holds_up_what_fits(
        bps in 10_000..1_000_000_000u64,
        burst_bytes in 1_500..100_000u64,
        offered in offered(),
    ) {
        // No slower than a link of that rate, for each packet.
        let bucket = passages(Capacity::TokenBucket { rate: rate(bps), burst_bytes }, &offered);
        let plain = passages(Capacity::Rate(rate(bps)), &offered);
        for (bucket, plain) in bucket.iter().zip(&plain) {
            prop_assert!(bucket.departed <= plain.departed);
        }
        // What fits into the full bucket passes at once.
        let mut bytes = 0;
        for passage in &bucket {
            bytes += u64::from(passage.size_bytes);
            if bytes > burst_bytes {
                break;
            }
            prop_assert_eq!(passage.departed, passage.enqueued);
        }
    }

    #[test]
    fn a_schedule_of_one_rate_is_that_rate(
        bps in 10_000..1_000_000_000u64,
        splits in prop::collection::btree_set(1..5_000u64, 0..10),
        offered in offered(),
    ) {
        let mut steps = vec![(0, bps)];
        steps.extend(splits.into_iter().map(|ms| (ms, bps)));
        prop_assert_eq!(
            passages(schedule(&steps), &offered),
            passages(Capacity::Rate(rate(bps)), &offered)
        );
    }

    #[test]
    fn a_busy_schedule_carries_what_it_says(
        steps in prop::collection::btree_map(1..200u64, 100_000..100_000_000u64, 0..20),
        first in 100_000..100_000_000u64,
    ) {
        let mut all = vec![(0, first)];
        all.extend(steps);
        let capacity = schedule(&all);
        let out = passages(capacity.clone(), &[(0, 1500); 400]);
        let mut bytes = 0;
        for passage in out {
            bytes += 1500;
            let until = capacity.bytes_between(Time::ZERO, passage.departed).expect("limited");
            // Rounding up to a nanosecond is at most 13 bytes at 100 Mbit/s.
            prop_assert!((bytes..bytes + 14).contains(&until), "{until} of {bytes}");
        }
    }
}

#[test]
fn a_packet_being_sent_goes_on_at_the_new_rate() {
    // 1500 bytes are 12 ms at 1 Mbit/s: 6 ms of it, and the other half in 0.6 ms at ten times that.
    let capacity = schedule(&[(0, 1_000_000), (6, 10_000_000)]);
    let out = passages(capacity, &[(0, 1500)]);
    assert_eq!(out[0].departed, Time::from_micros(6_600));
}

#[test]
fn a_packet_larger_than_the_bucket_passes_when_that_is_full() {
    let capacity = Capacity::TokenBucket {
        rate: rate(8_000_000),
        burst_bytes: 1_000,
    };
    // The first takes the bucket to −500; it takes 1.5 ms to fill.
    let out = passages(capacity, &[(0, 1500), (0, 1500)]);
    assert_eq!(out[0].departed, Time::ZERO);
    assert_eq!(out[1].departed, Time::from_micros(1_500));
}

#[test]
fn a_schedule_says_all_that_is_wrong_with_it() {
    let at = Time::from_millis;
    let wrong = |steps: &[u64]| {
        let steps = steps.iter().map(|ms| (at(*ms), rate(1)));
        RateSchedule::new(steps.collect())
            .expect_err("wrong")
            .problems
    };
    assert_eq!(wrong(&[]), [ScheduleProblem::Empty]);
    assert_eq!(
        wrong(&[1, 3, 3, 5, 4]),
        [
            ScheduleProblem::LateStart { at: at(1) },
            ScheduleProblem::NotRising {
                step: 3,
                at: at(3),
                previous: at(3)
            },
            ScheduleProblem::NotRising {
                step: 5,
                at: at(4),
                previous: at(5)
            },
        ]
    );
}
