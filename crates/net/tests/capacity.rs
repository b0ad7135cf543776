//! Token buckets and schedules, held against the plain rate.

#![expect(
    clippy::expect_used,
    reason = "helpers of tests fail the test by panicking"
)]

use std::sync::Arc;
use std::time::Duration;

use fairwater_net::{
    Aggregation, Capacity, Limit, Link, LinkConfig, Packet, PacketTimes, QueueConfig, Rate,
    RateSchedule, ScheduleStepError, Time,
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

/// The times of packets, each a gap (ns) after the one before.
fn times(capacity: Capacity, offered: &[(u64, u32)]) -> Vec<PacketTimes> {
    let queue = QueueConfig::DropTail(Limit::Unlimited);
    let mut link = Link::new(&LinkConfig::new(capacity, queue, Duration::ZERO));
    let mut now = 0;
    for (gap, size) in offered {
        now += gap;
        link.enqueue(Time::from_nanos(now), Sized(*size));
    }
    let end = Time::from_nanos(u64::MAX);
    std::iter::from_fn(|| link.poll(end))
        .map(|delivered| delivered.times)
        .collect()
}

fn offered() -> impl Strategy<Value = Vec<(u64, u32)>> {
    let gap = prop_oneof![Just(0), 1..2_000_000u64, 1_000_000..80_000_000u64];
    prop::collection::vec((gap, 40..=1500u32), 1..200)
}

/// Rates that each last some milliseconds.
fn fill() -> impl Strategy<Value = Arc<RateSchedule>> {
    let steps = prop::collection::btree_map(1..200u64, 10_000..1_000_000_000u64, 0..10);
    (10_000..1_000_000_000u64, steps).prop_map(|(first, later)| {
        let steps = std::iter::once((0, first)).chain(later);
        let steps = steps.map(|(ms, bps)| (Time::from_millis(ms), rate(bps)));
        Arc::new(RateSchedule::new(steps.collect()).expect("rising from 0"))
    })
}

proptest! {
    /// No interval carries more than the bucket and what fills it; and a packet that waits could
    /// not have passed a nanosecond earlier.
    #[test]
    fn a_token_bucket_passes_what_it_holds_and_no_more(
        fill in fill(),
        burst_bytes in 1_500..100_000u64,
        offered in offered(),
    ) {
        let capacity = Capacity::TokenBucket { fill: Arc::clone(&fill), burst_bytes };
        let out = times(capacity, &offered[..offered.len().min(60)]);
        let mut free = Time::ZERO;
        for (last, times) in out.iter().enumerate() {
            let ready = times.enqueued.max(free);
            prop_assert!(times.departed >= ready);
            let mut bytes = 0;
            let mut could_not_pass_earlier = times.departed == ready;
            let earlier = Time::from_nanos(times.departed.as_nanos().saturating_sub(1));
            for first in out[..=last].iter().rev() {
                bytes += u64::from(first.size_bytes);
                let filled = fill.bytes_between(first.departed, times.departed);
                prop_assert!(bytes <= burst_bytes + filled + 1, "{bytes} of {burst_bytes} + {filled}");
                let filled = fill.bytes_between(first.departed, earlier);
                could_not_pass_earlier |= bytes > burst_bytes + filled;
            }
            prop_assert!(could_not_pass_earlier, "{times:?}");
            free = times.departed;
        }
    }

    #[test]
    fn a_token_bucket_never_holds_up_what_fits(
        fill in fill(),
        burst_bytes in 1_500..100_000u64,
        offered in offered(),
    ) {
        // No slower than a link of those rates, for each packet.
        let capacity = Capacity::TokenBucket { fill: Arc::clone(&fill), burst_bytes };
        let bucket = times(capacity, &offered);
        let plain = times(Capacity::Schedule(fill), &offered);
        for (bucket, plain) in bucket.iter().zip(&plain) {
            prop_assert!(bucket.departed <= plain.departed);
        }
        // What fits into the full bucket passes at once.
        let mut bytes = 0;
        for times in &bucket {
            bytes += u64::from(times.size_bytes);
            if bytes > burst_bytes {
                break;
            }
            prop_assert_eq!(times.departed, times.enqueued);
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
            times(schedule(&steps), &offered),
            times(Capacity::Rate(rate(bps)), &offered)
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
        let out = times(capacity.clone(), &[(0, 1500); 400]);
        let mut bytes = 0;
        for times in out {
            bytes += 1500;
            let until = capacity.bytes_between(Time::ZERO, times.departed).expect("limited");
            // Rounding up to a nanosecond is at most 13 bytes at 100 Mbit/s.
            prop_assert!((bytes..bytes + 14).contains(&until), "{until} of {bytes}");
        }
    }
}

#[test]
fn a_packet_being_sent_goes_on_at_the_new_rate() {
    // 1500 bytes are 12 ms at 1 Mbit/s: 6 ms of it, and the other half in 0.6 ms at ten times that.
    let capacity = schedule(&[(0, 1_000_000), (6, 10_000_000)]);
    let out = times(capacity, &[(0, 1500)]);
    assert_eq!(out[0].departed, Time::from_micros(6_600));
}

#[test]
fn a_packet_larger_than_the_bucket_passes_when_that_is_full() {
    let capacity = Capacity::token_bucket(rate(8_000_000), 1_000);
    // The first takes the bucket to −500; it takes 1.5 ms to fill.
    let out = times(capacity, &[(0, 1500), (0, 1500)]);
    assert_eq!(out[0].departed, Time::ZERO);
    assert_eq!(out[1].departed, Time::from_micros(1_500));
}

#[test]
fn a_bucket_refills_at_the_rate_of_each_step() {
    // 3 kB pass at once. The 1500 bytes behind take 12 ms to refill at 1 Mbit/s: half by 6 ms, the
    // other half 0.6 ms later at ten times that, and the next 1500 bytes 1.2 ms after these.
    let steps = vec![
        (Time::ZERO, rate(1_000_000)),
        (Time::from_millis(6), rate(10_000_000)),
    ];
    let capacity = Capacity::TokenBucket {
        fill: Arc::new(RateSchedule::new(steps).expect("rising from 0")),
        burst_bytes: 3_000,
    };
    let out = times(capacity, &[(0, 1500); 4]);
    let departed: Vec<_> = out.iter().map(|times| times.departed).collect();
    assert_eq!(departed, [0, 0, 6_600, 7_800].map(Time::from_micros));
}

#[test]
fn a_schedule_says_all_that_is_wrong_with_it() {
    let at = Time::from_millis;
    let wrong = |steps: &[u64]| {
        let steps = steps.iter().map(|ms| (at(*ms), rate(1)));
        RateSchedule::new(steps.collect())
            .expect_err("wrong")
            .errors
    };
    assert_eq!(wrong(&[]), [ScheduleStepError::Empty]);
    assert_eq!(
        wrong(&[1, 3, 3, 5, 4]),
        [
            ScheduleStepError::LateStart { at: at(1) },
            ScheduleStepError::NotRising {
                step: 3,
                at: at(3),
                previous: at(3)
            },
            ScheduleStepError::NotRising {
                step: 5,
                at: at(4),
                previous: at(5)
            },
        ]
    );
}

fn aggregation(mbit: u64, frames: u32, airtime_us: u64, gap_us: u64) -> Aggregation {
    Aggregation {
        rate: rate(mbit * 1_000_000),
        frames,
        airtime: Duration::from_micros(airtime_us),
        gap: Duration::from_micros(gap_us),
    }
}

/// What waits when contention is over leaves together, up to the limits.
#[test]
fn what_waits_leaves_as_one_aggregate() {
    // 1500 bytes last 20 µs; without contention the first packet leaves alone.
    let offered = [(0, 1500); 10];
    let by_frames = times(
        Capacity::Aggregates(aggregation(600, 4, 5_000, 0)),
        &offered,
    );
    let departed: Vec<_> = by_frames
        .iter()
        .map(|times| times.departed.as_nanos() / 1_000)
        .collect();
    assert_eq!(departed, [20, 100, 100, 100, 100, 180, 180, 180, 180, 200]);
    // The packet that reaches 50 µs is an aggregate's last.
    let by_airtime = times(Capacity::Aggregates(aggregation(600, 64, 50, 0)), &offered);
    let departed: Vec<_> = by_airtime
        .iter()
        .map(|times| times.departed.as_nanos() / 1_000)
        .collect();
    assert_eq!(departed, [20, 80, 80, 80, 140, 140, 140, 200, 200, 200]);
}

proptest! {
    /// Packets keep their order; an aggregate is within its limits, follows the one before after
    /// contention within its range, and takes all that waits, or as much as it may.
    #[test]
    fn aggregates_keep_their_limits(
        frames in 1..40u32,
        airtime_us in 1..5_484u64,
        gap_us in 0..2_000u64,
        mbit in 1..1_000u64,
        offered in offered(),
    ) {
        let config = aggregation(mbit, frames, airtime_us, gap_us);
        let times = times(Capacity::Aggregates(config), &offered);
        prop_assert_eq!(times.len(), offered.len());
        let mut free = Time::ZERO;
        for aggregate in times.chunk_by(|a, b| a.departed == b.departed && a.served == b.served) {
            let (first, last) = (aggregate[0], aggregate[aggregate.len() - 1]);
            let bytes = |packets: &[PacketTimes]| {
                packets.iter().map(|times| u64::from(times.size_bytes)).sum::<u64>()
            };
            prop_assert!(aggregate.len() <= frames as usize);
            let before_last = config.rate.time_for(bytes(&aggregate[..aggregate.len() - 1]));
            prop_assert!(aggregate.len() == 1 || before_last < config.airtime);
            let ready = free.max(first.enqueued);
            let contention = first.served.since(ready);
            prop_assert!(first.served >= ready && contention <= config.gap * 2, "{contention:?}");
            prop_assert!(last.enqueued <= first.served);
            let airtime = config.rate.time_for(bytes(aggregate));
            prop_assert_eq!(first.departed, first.served + airtime);
            free = first.departed;
        }
    }

    /// A link that always has packets waiting carries its mean rate.
    #[test]
    fn full_aggregates_have_the_mean_rate(frames in 1..64u32, gap_us in 0..1_000u64, mbit in 10..600u64) {
        let config = aggregation(mbit, frames, 5_484, gap_us);
        let offered = [(0, 1500); 20_000];
        let times = times(Capacity::Aggregates(config), &offered);
        let last = times.last().expect("packets").departed;
        let bits = 8.0 * 1500.0 * times.len() as f64;
        let found = bits / last.as_secs_f64() / config.mean_rate().bps() as f64;
        // Contention is even on 0 to twice the mean: five deviations over the aggregates.
        let aggregates = times.len() as f64 / f64::from(frames).min(46.0 * mbit as f64 / 100.0);
        let slack = 5.0 * 0.58 / aggregates.sqrt() + 0.01;
        prop_assert!((found - 1.0).abs() < slack, "{found} within {slack}");
    }
}
