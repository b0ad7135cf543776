//! RED by Floyd & Jacobson, in tc-red(8)'s parameters.

use std::time::Duration;

use fairwater_net::{DropReason, Probability, QueueConfig, RedConfig, Time};
use proptest::prelude::*;

use super::support::{Bench, markable, of_flow, rate};

/// Between 10 and 30 packets of 1000 bytes, at most 10 %.
fn config() -> RedConfig {
    RedConfig {
        min_bytes: 10_000,
        max_bytes: 30_000,
        avpkt_bytes: 1000,
        burst_packets: 11,
        probability: Probability::percent(10),
        ecn: true,
        ..RedConfig::with_limit(100_000, rate(8_000_000))
    }
}

/// A queue in which `packets` of 1000 bytes have been waiting for so long that the average is that.
fn steady(config: RedConfig, packets: usize) -> Bench {
    let mut bench = Bench::new(QueueConfig::Red(config));
    while bench.queue.len() < packets {
        bench.put(Time::ZERO, markable(1000));
    }
    for _ in 0..2_000 {
        bench.put(Time::ZERO, markable(1000));
        bench.take(Time::ZERO);
    }
    bench
}

/// How many packets come from one mark to the next, at a steady queue.
fn gaps(bench: &mut Bench, count: usize) -> Vec<usize> {
    let mut gaps = Vec::new();
    let mut gap = 0;
    while gaps.len() <= count {
        gap += 1;
        if bench.marks(Time::ZERO, markable(1000)) == Some(true) {
            gaps.push(gap);
            gap = 0;
        }
        bench.take(Time::ZERO);
    }
    gaps.split_off(1)
}

#[test]
fn marks_are_uniformly_apart() {
    // Half way between the thresholds: p_b = 5 %, so from 1 to 20 packets, each as often
    // (Floyd & Jacobson §7).
    let gaps = gaps(&mut steady(config(), 20), 20_000);
    for gap in 1..=20 {
        let share = gaps.iter().filter(|g| **g == gap).count();
        assert!((800..1200).contains(&share), "{share} marks {gap} apart");
    }
    assert!(gaps.iter().all(|gap| *gap <= 20));
}

#[test]
fn the_probability_rises_with_the_average() {
    for (waiting, p_b) in [(12, 0.01), (15, 0.025), (25, 0.075)] {
        let gaps = gaps(&mut steady(config(), waiting), 5_000);
        let mean = gaps.iter().sum::<usize>() as f64 / gaps.len() as f64;
        let expected = (1.0 / p_b + 1.0) / 2.0;
        assert!((mean / expected - 1.0).abs() < 0.08, "{mean} of {expected}");
    }
}

#[test]
fn nothing_is_marked_below_and_everything_above() {
    let mut below = steady(config(), 9);
    let mut above = steady(config(), 31);
    for _ in 0..1_000 {
        assert_eq!(below.marks(Time::ZERO, markable(1000)), Some(false));
        assert_eq!(above.marks(Time::ZERO, markable(1000)), Some(true));
        below.take(Time::ZERO);
        above.take(Time::ZERO);
    }
    assert_eq!(above.marks(Time::ZERO, of_flow(0, 1000)), None);
    assert_eq!(above.dropped()[0].reason, DropReason::Aqm);
}

#[test]
fn the_flags_do_what_tc_red_says() {
    let harddrop = RedConfig {
        harddrop: true,
        ..config()
    };
    assert_eq!(steady(harddrop, 29).sink.dropped.len(), 0);
    let mut hard = Bench::new(QueueConfig::Red(harddrop));
    let fates: Vec<_> = (0..90)
        .map(|_| hard.marks(Time::ZERO, markable(1000)))
        .collect();
    assert!(fates.contains(&None) && hard.dropped().iter().all(|d| d.reason == DropReason::Aqm));

    let nodrop = RedConfig {
        nodrop: true,
        ..config()
    };
    let mut lenient = steady(nodrop, 40);
    assert_eq!(lenient.marks(Time::ZERO, of_flow(0, 1000)), Some(false));

    let deaf = RedConfig {
        ecn: false,
        ..config()
    };
    let mut deaf = Bench::new(QueueConfig::Red(deaf));
    let fates: Vec<_> = (0..90)
        .map(|_| deaf.marks(Time::ZERO, markable(1000)))
        .collect();
    assert!(fates.contains(&None) && !fates.contains(&Some(true)));
}

#[test]
fn the_average_ages_while_the_queue_is_empty() {
    // 1000 bytes at 8 Mbit/s are 1 ms: after m of them the average is (1 - w)^m of what it was.
    let config = RedConfig {
        burst_packets: 40,
        probability: Probability::NEVER,
        ..config()
    };
    let mut average = 40_000.0;
    for idle_ms in 1..100 {
        let mut bench = steady(config, 40);
        while bench.take(Time::ZERO).is_some() {}
        average *= 1.0 - config.weight();
        let fate = bench.marks(Time::from_millis(idle_ms), markable(1000));
        assert_eq!(fate, Some(average >= 30_000.0), "after {idle_ms} ms");
    }
    assert!(average < 30_000.0);
}

proptest! {
    #[test]
    fn a_burst_as_long_as_asked_for_passes_unmarked(
        min_packets in 2..100u64,
        more in 0..100u32,
        avpkt_bytes in 64..1500u32,
    ) {
        let burst_packets = 1 + min_packets as u32 + more;
        let config = RedConfig {
            min_bytes: min_packets * u64::from(avpkt_bytes),
            max_bytes: min_packets * u64::from(avpkt_bytes) + 1,
            avpkt_bytes,
            burst_packets,
            probability: Probability::ALWAYS,
            ..RedConfig::with_limit(1_000_000, rate(1_000_000))
        };
        let mut bench = Bench::new(QueueConfig::Red(config));
        for _ in 0..burst_packets {
            prop_assert_eq!(bench.marks(Time::ZERO, of_flow(0, avpkt_bytes)), Some(false));
        }
        // And one far longer does not.
        let longer = (0..40 * burst_packets).map(|_| bench.marks(Time::ZERO, of_flow(0, avpkt_bytes)));
        prop_assert!(longer.last() == Some(None));
    }
}

#[test]
fn the_presets_are_those_of_the_table() {
    // vCC Table 1; the limits are in bytes.
    let bandwidth = rate(10_000_000);
    let rows = [
        (
            RedConfig::vcc_red1(bandwidth),
            90_000,
            90_001,
            1_000_000,
            61,
            100,
        ),
        (
            RedConfig::vcc_red2(bandwidth),
            30_000,
            90_000,
            400_000,
            55,
            2,
        ),
        (
            RedConfig::vcc_red3(bandwidth),
            30_000,
            90_000,
            400_000,
            55,
            100,
        ),
    ];
    for (red, min, max, limit, burst, percent) in rows {
        assert_eq!(
            (red.min_bytes, red.max_bytes, red.limit_bytes),
            (min, max, limit)
        );
        assert_eq!(red.burst_packets, burst);
        assert_eq!(red.probability, Probability::percent(percent));
        assert!(red.ecn);
    }
    // 61 is the least burst that tc-red takes: the queue may not be shorter than the burst.
    let red1 = RedConfig::vcc_red1(bandwidth);
    assert_eq!(1 + red1.min_bytes / u64::from(red1.avpkt_bytes), 61);
}

#[test]
fn an_interval_that_is_long_ages_the_average_in_no_time() {
    let mut bench = steady(config(), 40);
    while bench.take(Time::ZERO).is_some() {}
    let much_later = Time::ZERO + Duration::from_secs(1 << 30);
    assert_eq!(bench.marks(much_later, markable(1000)), Some(false));
}
