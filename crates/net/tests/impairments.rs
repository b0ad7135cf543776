//! Loss, jitter and reordering, held against what they are asked for.

#![expect(
    clippy::expect_used,
    reason = "helpers of tests fail the test by panicking"
)]

use std::time::Duration;

use fairwater_net::{
    Capacity, GilbertElliott, Jitter, Limit, Link, LinkConfig, Loss, LossConfig, Packet,
    Probability, QueueConfig, Reordering, Time,
};
use proptest::prelude::*;

struct Numbered(u64);

impl Packet for Numbered {
    fn size_bytes(&self) -> u32 {
        100
    }
}

fn ppb(ppb: u32) -> Probability {
    Probability::from_ppb(ppb).expect("at most a billion")
}

/// What is lost of so many packets.
fn lost(config: LossConfig, seed: u64, packets: usize) -> Vec<bool> {
    let mut loss = Loss::new(config, seed);
    (0..packets).map(|_| loss.strikes()).collect()
}

fn share(lost: &[bool]) -> f64 {
    lost.iter().filter(|lost| **lost).count() as f64 / lost.len() as f64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn bursts_are_as_long_and_as_frequent_as_the_chain_says(
        to_bad in 5_000_000..50_000_000u32,
        to_good in 50_000_000..500_000_000u32,
        seed in any::<u64>(),
    ) {
        let model = GilbertElliott::bursts(ppb(to_bad), ppb(to_good));
        let lost = lost(LossConfig::GilbertElliott(model), seed, 400_000);
        let (p, r) = (f64::from(to_bad) / 1e9, f64::from(to_good) / 1e9);
        let stationary = p / (p + r);
        // A burst begins where the packet before was not lost.
        let begun = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
        let length = lost.iter().filter(|lost| **lost).count() as f64 / begun;
        // Both within seven standard deviations: a burst's length has a deviation of its mean, at
        // most, and the share is that of about 2 × bursts independent draws.
        let slack = 7.0 / begun.sqrt();
        prop_assert!((length * r - 1.0).abs() < slack, "{length} for {}", 1.0 / r);
        prop_assert!((share(&lost) / stationary - 1.0).abs() < 1.5 * slack);
    }

    #[test]
    fn all_four_parameters_count(seed in any::<u64>()) {
        // Half of the packets meet the bad state; of those 60 % are lost, of the others 10 %.
        let model = GilbertElliott {
            to_bad: Probability::percent(20),
            to_good: Probability::percent(20),
            loss_in_bad: Probability::percent(60),
            loss_in_good: Probability::percent(10),
        };
        let lost = lost(LossConfig::GilbertElliott(model), seed, 200_000);
        prop_assert!((share(&lost) - 0.35).abs() < 0.015);
        // A packet after a lost one is likelier to have met the bad state: by Bayes 6/7 before the
        // step, 0.8 × 6/7 + 0.2 × 1/7 after it.
        let bad = 0.8 * 6.0 / 7.0 + 0.2 / 7.0;
        let after: Vec<bool> = lost.windows(2).filter(|pair| pair[0]).map(|pair| pair[1]).collect();
        prop_assert!((share(&after) - (0.6 * bad + 0.1 * (1.0 - bad))).abs() < 0.02);
    }

    #[test]
    fn jitter_is_even_and_bounded(
        max_us in 1..10_000u64,
        reorders in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let max = Duration::from_micros(max_us);
        let config = LinkConfig {
            jitter: Some(Jitter { max, reorders }),
            seed,
            ..plain()
        };
        // Far enough apart, order is no question.
        let gap = 2 * max;
        let extra = extras(&config, gap, 4_000);
        prop_assert!(extra.iter().all(|(_, extra)| *extra <= max));
        let mean = extra.iter().map(|(_, extra)| extra.as_secs_f64()).sum::<f64>() / 4_000.0;
        prop_assert!((mean / max.as_secs_f64() - 0.5).abs() < 0.035);
        // Close together, they stay in order or do not, as was asked.
        let close = extras(&config, Duration::from_nanos(100), 1_000);
        prop_assert_eq!(close.is_sorted_by_key(|(number, _)| *number), !reorders);
        prop_assert!(close.iter().all(|(_, extra)| *extra <= max));
    }

    #[test]
    fn reordering_holds_back_the_share_that_was_asked_for(
        percent in 0..=100u32,
        seed in any::<u64>(),
    ) {
        let extra = Duration::from_millis(1);
        let config = LinkConfig {
            reordering: Some(Reordering { probability: Probability::percent(percent), extra }),
            seed,
            ..plain()
        };
        let out = extras(&config, Duration::from_micros(300), 10_000);
        let held = out.iter().filter(|(_, late)| *late == extra).count();
        prop_assert!(out.iter().all(|(_, late)| *late == extra || late.is_zero()));
        prop_assert!((held as f64 / 1e4 - f64::from(percent) / 100.0).abs() < 0.04);
        // Three packets overtake one that is held back, unless they are themselves.
        prop_assert_eq!(out.is_sorted_by_key(|(number, _)| *number), percent == 0 || percent == 100);
    }
}

fn plain() -> LinkConfig {
    let queue = QueueConfig::DropTail(Limit::Unlimited);
    LinkConfig::new(Capacity::Unlimited, queue, Duration::from_millis(5))
}

/// The packets as they come out of a link of no capacity to speak of, and how much later than by
/// the link's delay alone.
fn extras(config: &LinkConfig, gap: Duration, packets: u64) -> Vec<(u64, Duration)> {
    let mut link = Link::new(config);
    let mut now = Time::ZERO;
    let mut out = Vec::new();
    let mut take = |link: &mut Link<Numbered>, now| {
        while let Some(delivered) = link.poll(now) {
            let times = delivered.times;
            let late = times.due.since(times.departed + config.delay);
            out.push((delivered.packet.0, late));
        }
    };
    for number in 0..packets {
        now = now + gap;
        take(&mut link, now);
        link.enqueue(now, Numbered(number));
    }
    take(&mut link, now + Duration::from_secs(60));
    out
}

#[test]
fn what_one_part_draws_changes_nothing_for_another() {
    let lossy = |jitter| LinkConfig {
        loss: LossConfig::Random(Probability::percent(10)),
        jitter,
        seed: 7,
        ..plain()
    };
    let max = Duration::from_millis(1);
    let numbers = |config: &LinkConfig| {
        let out = extras(config, Duration::from_millis(2), 1_000);
        out.into_iter()
            .map(|(number, _)| number)
            .collect::<Vec<_>>()
    };
    let jittered = lossy(Some(Jitter {
        max,
        reorders: true,
    }));
    assert_eq!(numbers(&lossy(None)), numbers(&jittered));
}
