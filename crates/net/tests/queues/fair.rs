//! DRR by Shreedhar & Varghese, and SFQ by McKenney.

use std::time::Duration;

use fairwater_net::{DropReason, DrrConfig, Limit, QueueConfig, SfqConfig, Time};
use proptest::prelude::*;

use super::support::{Bench, of_flow};

/// Both, with a quantum.
fn both(quantum_bytes: u32) -> [QueueConfig; 2] {
    [
        QueueConfig::Drr(DrrConfig {
            quantum_bytes,
            limit: Limit::Unlimited,
            ..DrrConfig::default()
        }),
        QueueConfig::Sfq(SfqConfig {
            quantum_bytes,
            limit: Limit::Unlimited,
            ..SfqConfig::default()
        }),
    ]
}

proptest! {
    #[test]
    fn no_backlogged_flow_is_ahead_by_more_than_a_quantum_and_two_packets(
        quantum in 100..4_000u32,
        sizes in prop::array::uniform3(prop::collection::vec(40..=1500u32, 1..10)),
    ) {
        for config in both(quantum) {
            let mut bench = Bench::new(config);
            for (flow, sizes) in (0..).zip(&sizes) {
                for &size in sizes.iter().cycle().take(2_000) {
                    bench.put(Time::ZERO, of_flow(flow, size));
                }
            }
            let mut sent = [0u64; 3];
            for _ in 0..1_500 {
                let held = bench.take(Time::ZERO).expect("backlogged");
                sent[held.packet.flow as usize] += u64::from(held.size_bytes);
                let ahead = sent.iter().max().expect("three") - sent.iter().min().expect("three");
                // Shreedhar & Varghese §IV: Quantum + 2 Max.
                prop_assert!(ahead <= u64::from(quantum) + 2 * 1500, "{sent:?}");
            }
        }
    }
}

proptest! {
    /// What is too much goes from the end of the longest queue, as a search through all of them
    /// finds it. Flows of these disciplines have queues of their own: 65,536 for a few flows.
    #[test]
    fn overflow_drops_from_the_longest(
        is_drr in any::<bool>(),
        steps in prop::collection::vec((0..12u64, 1..=1500u32, any::<bool>()), 1..400),
        limit in prop_oneof![
            (1..60u64).prop_map(Limit::Packets),
            (1_500..40_000u64).prop_map(Limit::Bytes),
        ],
    ) {
        let flows = 65_536;
        let mut bench = Bench::new(if is_drr {
            QueueConfig::Drr(DrrConfig { limit, flows, ..DrrConfig::default() })
        } else {
            QueueConfig::Sfq(SfqConfig { limit, flows, ..SfqConfig::default() })
        });
        let mut waiting = vec![Vec::new(); 12];
        for (number, (flow, size_bytes, takes)) in steps.into_iter().enumerate() {
            let packet = super::support::Probe { number, ..of_flow(flow, size_bytes) };
            let before = bench.dropped().len();
            bench.put(Time::ZERO, packet);
            waiting[flow as usize].push(packet);
            let bytes = |queue: &Vec<super::support::Probe>| {
                queue.iter().map(|packet| u64::from(packet.size_bytes)).sum::<u64>()
            };
            for dropped in &bench.dropped()[before..] {
                let longest = waiting.iter().map(|queue| (bytes(queue), queue.len())).max();
                let queue = &mut waiting[dropped.packet.flow as usize];
                prop_assert_eq!(Some((bytes(queue), queue.len())), longest);
                prop_assert_eq!(queue.pop(), Some(dropped.packet));
            }
            let holds = match limit {
                Limit::Packets(most) => bench.queue.len() as u64 <= most,
                Limit::Bytes(most) => bench.queue.bytes() <= most,
                Limit::Unlimited => true,
            };
            prop_assert!(holds);
            if takes && let Some(held) = bench.take(Time::ZERO) {
                let queue = &mut waiting[held.packet.flow as usize];
                prop_assert_eq!(queue.remove(0), held.packet);
            }
        }
    }
}

#[test]
fn drr_sends_no_more_than_the_deficit() {
    // Shreedhar & Varghese Figure 2: a quantum of 500; 200, 750 and 20 wait in the first queue and
    // 500 and 500 in the second. 750 has to wait for the second round.
    let mut bench = Bench::new(QueueConfig::Drr(DrrConfig {
        quantum_bytes: 500,
        ..DrrConfig::default()
    }));
    for (flow, size) in [(1, 200), (1, 750), (1, 20), (2, 500), (2, 500)] {
        bench.put(Time::ZERO, of_flow(flow, size));
    }
    let order: Vec<(u64, u32)> = std::iter::from_fn(|| bench.take(Time::ZERO))
        .map(|held| (held.packet.flow, held.size_bytes))
        .collect();
    assert_eq!(order, [(1, 200), (2, 500), (1, 750), (1, 20), (2, 500)]);
}

#[test]
fn the_longest_queue_gives_up_its_last_packet() {
    let limit = Limit::Packets(20);
    let configs = [
        QueueConfig::Drr(DrrConfig {
            limit,
            ..DrrConfig::default()
        }),
        QueueConfig::Sfq(SfqConfig {
            limit,
            ..SfqConfig::default()
        }),
    ];
    for config in configs {
        let mut bench = Bench::new(config);
        for number in 0..50 {
            let mut packet = of_flow(1, 1000);
            packet.number = number;
            bench.put(Time::ZERO, packet);
        }
        for thin in 2..7 {
            bench.put(Time::ZERO, of_flow(thin, 1000));
        }
        let dropped: Vec<usize> = bench.dropped().iter().map(|d| d.packet.number).collect();
        let expected: Vec<usize> = (20..50).chain([19, 18, 17, 16, 15]).collect();
        assert_eq!(dropped, expected);
        assert!(
            bench
                .dropped()
                .iter()
                .all(|d| d.reason == DropReason::QueueFull)
        );
        assert_eq!(bench.queue.len(), 20);
    }
}

#[test]
fn perturbation_separates_flows_that_share_a_queue() {
    // Eight flows, two queues: some share. For as long as the hash stays, so do the shares.
    let shares = |perturb: Option<Duration>| {
        let mut bench = Bench::new(QueueConfig::Sfq(SfqConfig {
            flows: 2,
            perturb,
            limit: Limit::Unlimited,
            ..SfqConfig::default()
        }));
        let mut sent = [0u64; 3];
        for ms in 0..100_000 {
            for flow in 0..3 {
                // Three flows that each have two packets waiting.
                if ms == 0 || sent[flow as usize] > 0 {
                    bench.put(Time::from_millis(ms), of_flow(flow, 1500));
                }
            }
            if let Some(held) = bench.take(Time::from_millis(ms)) {
                sent[held.packet.flow as usize] += 1;
            }
        }
        sent
    };
    let fixed = shares(None);
    let moving = shares(Some(Duration::from_secs(1)));
    let spread = |sent: [u64; 3]| {
        *sent.iter().max().expect("three") as f64 / *sent.iter().min().expect("three") as f64
    };
    assert!(spread(moving) < spread(fixed), "{moving:?} {fixed:?}");
}
