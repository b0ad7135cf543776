//! A rate that changes while packets wait.

#![expect(
    clippy::expect_used,
    reason = "helpers of tests fail the test by panicking"
)]

use std::time::Duration;

use fairwater_net::{Capacity, Limit, Link, LinkConfig, Packet, QueueConfig, Rate, Time};
use proptest::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Numbered(u32, u32);

impl Packet for Numbered {
    fn size_bytes(&self) -> u32 {
        self.1
    }
}

fn rate(bps: u64) -> Rate {
    Rate::from_bps(bps).expect("not zero")
}

fn link(capacity: Capacity) -> Link<Numbered> {
    let queue = QueueConfig::DropTail(Limit::Unlimited);
    Link::new(&LinkConfig::new(capacity, queue, Duration::from_millis(1)))
}

/// Which capacity a link begins with.
fn capacity(kind: u8, bps: u64, burst: u64) -> Capacity {
    match kind {
        0 => Capacity::Rate(rate(bps)),
        _ => Capacity::token_bucket(rate(bps), burst),
    }
}

/// Takes everything out until `until`; the bytes and when the last came.
fn drain(link: &mut Link<Numbered>, until: Time, out: &mut Vec<(Time, Numbered)>) {
    while let Some(at) = link.next_departure().filter(|at| *at <= until) {
        while let Some(delivered) = link.poll(at) {
            assert_eq!(delivered.times.due, at);
            out.push((delivered.times.departed, delivered.packet));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// A backlogged link delivers exactly what its rates allow, however often they change: no
    /// refill, no loss, no packet that waits for an old rate.
    #[test]
    fn a_backlogged_link_delivers_the_integral_of_its_rates(
        kind in 0..2u8,
        burst in 1_500..30_000u64,
        steps in prop::collection::vec((1u64..200_000_000, 0u64..20_000_000), 1..60),
        sizes in prop::collection::vec(40..=1500u32, 1..20),
    ) {
        let mut link = link(capacity(kind, steps[0].0, burst));
        let mut total = 0;
        for (number, size) in (0u32..4_000).zip(sizes.iter().copied().cycle()) {
            link.enqueue(Time::ZERO, Numbered(number, size));
            total += u128::from(size);
        }
        let (mut now, mut work, mut out) = (Time::ZERO, 0u128, Vec::new());
        for (bps, ns) in &steps {
            link.set_rate(now, rate(*bps)).expect("it has a rate");
            now = now.plus_nanos(*ns);
            work += u128::from(*bps) * u128::from(*ns);
            drain(&mut link, now, &mut out);
        }
        // In the end a rate that empties the queue: the last packet leaves when the work is done.
        let last = rate(1_000_000_000);
        link.set_rate(now, last).expect("it has a rate");
        let saved = if kind == 0 { 0 } else { u128::from(burst.max(1500)) };
        drain(&mut link, Time::from_nanos(u64::MAX), &mut out);
        let numbers: Vec<u32> = out.iter().map(|(_, packet)| packet.0).collect();
        prop_assert_eq!(numbers, (0..4_000).collect::<Vec<_>>());
        let per_byte = 8_000_000_000u128;
        let left = (total * per_byte).saturating_sub(work + saved.min(total) * per_byte);
        let end = now.plus_nanos(u64::try_from(left.div_ceil(1_000_000_000)).expect("short"));
        let (found, _) = out[out.len() - 1];
        let tolerance = if kind == 0 { 2 } else {
            // A packet passes as the tokens for it are there: no more than a bucket early.
            last.time_for(burst.max(1500)).as_nanos() as u64 + 2
        };
        if left > 0 {
            prop_assert!(found.as_nanos().abs_diff(end.as_nanos()) <= tolerance,
                "{found:?} instead of {end:?}");
        }
        // At no time did more pass than the rates and one bucket allow.
        let mut passed = 0u128;
        for (at, packet) in &out {
            passed += u128::from(packet.1);
            let mut possible = saved * per_byte;
            let mut from = Time::ZERO;
            for (bps, ns) in steps.iter().copied().chain([(last.bps(), u64::MAX / 2)]) {
                let to = from.plus_nanos(ns).min(*at);
                possible += to.since(from).as_nanos() * u128::from(bps);
                from = to;
            }
            // Departures are rounded up to a nanosecond: never early.
            prop_assert!(passed * per_byte <= possible + u128::from(last.bps()), "{at:?}");
        }
    }

    /// Setting the same rate again and again changes nothing.
    #[test]
    fn the_same_rate_again_changes_nothing(
        kind in 0..2u8,
        bps in 1_000_000..100_000_000u64,
        burst in 1_500..30_000u64,
        arrivals in prop::collection::vec((0..3_000_000u64, 40..=1500u32), 1..100),
        changes in prop::collection::vec(0..100_000_000u64, 0..50),
    ) {
        let run = |changes: &[u64]| {
            let mut link = link(capacity(kind, bps, burst));
            let (mut now, mut out) = (0, Vec::new());
            let mut events: Vec<(u64, Option<Numbered>)> =
                changes.iter().map(|at| (*at, None)).collect();
            for (number, (gap, size)) in (0..).zip(&arrivals) {
                now += gap;
                events.push((now, Some(Numbered(number, *size))));
            }
            events.sort_by_key(|(at, packet)| (*at, packet.map(|packet| packet.0)));
            for (at, packet) in events {
                let at = Time::from_nanos(at);
                drain(&mut link, at, &mut out);
                match packet {
                    Some(packet) => link.enqueue(at, packet),
                    None => link.set_rate(at, rate(bps)).expect("it has a rate"),
                }
            }
            drain(&mut link, Time::from_nanos(u64::MAX), &mut out);
            out
        };
        let (with, without) = (run(&changes), run(&[]));
        prop_assert_eq!(with.len(), without.len());
        for (one, other) in with.iter().zip(&without) {
            prop_assert_eq!(one.1, other.1);
            // Each change may round up by a nanosecond once.
            prop_assert!(one.0.as_nanos().abs_diff(other.0.as_nanos()) <= 1, "{:?} {:?}", one, other);
        }
    }
}

/// Bundler had to patch tc-tbf, which fills its bucket at each change.
#[test]
fn a_bucket_is_not_refilled_by_a_change() {
    let mut link = link(Capacity::token_bucket(rate(24_000_000), 30_000));
    for number in 0..10_000 {
        link.enqueue(Time::ZERO, Numbered(number, 1500));
    }
    let mut out = Vec::new();
    // 1 s of changes each 10 ms between 24 and 96 Mbit/s: 60 Mbit/s on average.
    for step in 0..100u64 {
        let now = Time::from_millis(step * 10);
        let bps = if step % 2 == 0 {
            24_000_000
        } else {
            96_000_000
        };
        link.set_rate(now, rate(bps)).expect("it has a rate");
        drain(&mut link, Time::from_millis(step * 10 + 10), &mut out);
    }
    // The delay of 1 ms keeps back what left in the last of them.
    let sent = out.len() as u64 * 1500;
    let possible = 7_500_000 + 30_000;
    assert!(sent <= possible && sent + 15_000 >= possible, "{sent}");
}

#[test]
fn a_packet_in_service_goes_on_at_the_new_rate() {
    let mut link = link(Capacity::Rate(rate(1)));
    link.enqueue(Time::ZERO, Numbered(0, 1500));
    link.enqueue(Time::ZERO, Numbered(1, 1500));
    link.set_rate(Time::from_millis(500), rate(12_000_000))
        .expect("it has a rate");
    let mut out = Vec::new();
    drain(&mut link, Time::from_millis(600), &mut out);
    // 1 ms each; half a bit of the first was sent before.
    let departed: Vec<u64> = out.iter().map(|(at, _)| at.as_nanos()).collect();
    assert_eq!(departed, [500_999_959, 501_999_959]);
}

#[test]
fn capacities_without_a_rate_refuse_one() {
    let mut link = link(Capacity::Unlimited);
    let error = link.set_rate(Time::ZERO, rate(1)).expect_err("unlimited");
    assert_eq!(
        error.to_string(),
        "a link with unlimited capacity has no rate that can be changed"
    );
}
