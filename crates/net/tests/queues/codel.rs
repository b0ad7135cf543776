//! CoDel by RFC 8289.

use std::time::Duration;

use fairwater_net::{CoDelConfig, DropReason, QueueConfig, Time};

use super::support::{Bench, Probe, markable, of_flow};

/// Between dequeues.
const TICK: Duration = Duration::from_micros(100);

/// A queue of `packets` that came at once, served one a tick from `from` on, for `ticks`.
fn served(config: CoDelConfig, packet: Probe, packets: usize, from: Time, ticks: u32) -> Bench {
    let mut bench = Bench::new(QueueConfig::CoDel(config));
    for _ in 0..packets {
        bench.put(Time::ZERO, packet);
    }
    for tick in 0..ticks {
        bench.take(from + TICK * tick);
    }
    bench
}

fn unlimited() -> CoDelConfig {
    CoDelConfig {
        limit: fairwater_net::Limit::Unlimited,
        ..CoDelConfig::default()
    }
}

#[test]
fn drops_come_at_intervals_over_the_root_of_their_number() {
    // The first packet that waited too long starts the interval, so the first drop is 100 ms after;
    // drop n + 1 is 100 ms / √n after drop n was due (RFC 8289 §5.6).
    let from = Time::from_millis(10);
    let bench = served(unlimited(), of_flow(0, 1000), 60_000, from, 40_000);
    let mut due = 110e6;
    let mut n = 0.0;
    for drop in bench.dropped() {
        let late = drop.at.as_nanos() as f64 - due;
        assert!(
            (-1_000.0..=100_000.0).contains(&late),
            "drop {n}: {late} ns late"
        );
        assert_eq!(drop.reason, DropReason::Aqm);
        n += 1.0;
        due += 100e6 / f64::sqrt(n);
    }
    // Σ 1/√n up to 400 is about 38.5 intervals, and 3.9 s were served.
    assert!((380.0..420.0).contains(&n), "{n} drops");
}

#[test]
fn marks_replace_drops_one_for_one() {
    let from = Time::from_millis(10);
    let ecn = CoDelConfig {
        ecn: true,
        ..unlimited()
    };
    let dropping = served(unlimited(), markable(1000), 60_000, from, 20_000);
    let marking = served(ecn, markable(1000), 60_000, from, 20_000);
    assert!(marking.dropped().is_empty());
    assert_eq!(marking.sink.marked, dropping.dropped().len() as u64);
}

#[test]
fn what_waits_no_longer_than_the_target_is_left_alone() {
    let mut bench = Bench::new(QueueConfig::CoDel(unlimited()));
    // Fifty packets always wait, 4.9 ms each.
    for tick in 0..50_000u32 {
        let now = Time::ZERO + TICK * tick;
        bench.put(now, of_flow(0, 1000));
        if tick >= 49 {
            bench.take(now);
        }
    }
    assert!(bench.dropped().is_empty());
}

#[test]
fn a_queue_above_the_target_for_less_than_an_interval_is_left_alone() {
    // 900 packets take 90 ms to go, and wait from 10 to 100 ms.
    let bench = served(
        unlimited(),
        of_flow(0, 1000),
        900,
        Time::from_millis(10),
        900,
    );
    assert!(bench.dropped().is_empty() && bench.queue.is_empty());
}

#[test]
fn the_last_packet_is_never_dropped() {
    let mut bench = Bench::new(QueueConfig::CoDel(unlimited()));
    // One packet at a time, each a second old.
    for second in 0..1_000 {
        bench.put(Time::from_millis(1_000 * second), of_flow(0, 1500));
        assert!(
            bench
                .take(Time::from_millis(1_000 * second + 999))
                .is_some()
        );
    }
    assert!(bench.dropped().is_empty());
}

#[test]
fn dropping_resumes_at_the_rate_that_worked() {
    let from = Time::from_millis(10);
    let mut bench = served(unlimited(), of_flow(0, 1000), 30_000, from, 20_000);
    let first = bench.dropped().len();
    let now = from + TICK * 20_000;
    while bench.queue.len() > 1 {
        bench.take(now);
    }
    bench.sink.dropped.clear();
    // One good packet ends it; then it is bad again at once.
    bench.take(now);
    for _ in 0..30_000 {
        bench.put(now, of_flow(0, 1000));
    }
    for tick in 100..4_000 {
        bench.take(now + TICK * tick);
    }
    let gaps: Vec<Duration> = bench
        .dropped()
        .windows(2)
        .map(|pair| pair[1].at.since(pair[0].at))
        .collect();
    // RFC 8289 §5.5: not 100 ms again, but about 100 ms / √count as it was.
    let expected = 100e6 / f64::sqrt(first as f64);
    let gap = gaps[0].as_nanos() as f64;
    assert!(
        (gap - expected).abs() < 0.2 * expected + 1e5,
        "{gap} of {expected} ns"
    );
}
