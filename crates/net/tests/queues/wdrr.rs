//! Weighted deficit round robin between classes.

use fairwater_net::{FqCoDelConfig, Limit, QueueConfig, SfqConfig, Time, WdrrConfig};
use proptest::prelude::*;

use super::support::{Bench, Probe, of_flow};

fn of_class(priority: u8, size_bytes: u32) -> Probe {
    Probe {
        priority,
        ..of_flow(priority.into(), size_bytes)
    }
}

/// One of the disciplines that a class may have; none of them drops in a test that takes no time.
fn class() -> impl Strategy<Value = QueueConfig> {
    let limit = Limit::Unlimited;
    prop_oneof![
        Just(QueueConfig::DropTail(limit)),
        Just(QueueConfig::Sfq(SfqConfig {
            limit,
            ..SfqConfig::default()
        })),
        Just(QueueConfig::FqCoDel(FqCoDelConfig {
            limit,
            ..FqCoDelConfig::default()
        })),
    ]
}

proptest! {
    /// Shreedhar & Varghese §V: of classes that always have packets, bytes / weight are never
    /// further apart than one quantum and a packet of each.
    #[test]
    fn backlogged_classes_share_by_weight(
        classes in prop::array::uniform3(class()),
        weights in prop::array::uniform3(1..20u32),
        quantum_bytes in 100..4_000u32,
        sizes in prop::array::uniform3(prop::collection::vec(40..=1500u32, 1..10)),
    ) {
        let mut bench = Bench::new(QueueConfig::Wdrr(WdrrConfig {
            classes: classes.to_vec(),
            weights: weights.to_vec(),
            quantum_bytes,
            limit: Limit::Unlimited,
        }));
        let mut sent = [0u64; 3];
        let mut next = [0usize; 3];
        let mut put = |bench: &mut Bench, class: usize| {
            let size = sizes[class][next[class] % sizes[class].len()];
            next[class] += 1;
            bench.put(Time::ZERO, of_class(class as u8, size));
        };
        for class in (0..3).cycle().take(300) {
            put(&mut bench, class);
        }
        for _ in 0..2_000 {
            let held = bench.take(Time::ZERO).expect("backlogged");
            let class = usize::from(held.packet.priority);
            sent[class] += u64::from(held.size_bytes);
            put(&mut bench, class);
            let service = |class: usize| sent[class] as f64 / f64::from(weights[class]);
            for (one, other) in [(0, 1), (1, 2), (2, 0)] {
                let apart = (service(one) - service(other)).abs();
                let packets = 1500.0 / f64::from(weights[one]) + 1500.0 / f64::from(weights[other]);
                prop_assert!(apart <= f64::from(quantum_bytes) + packets, "{sent:?} {weights:?}");
            }
        }
    }

    /// A class without a backlog leaves its share to the others, and gets the next service that is
    /// its own when it has a packet again: no later than a round.
    #[test]
    fn no_class_waits_longer_than_a_round(
        weights in prop::array::uniform3(1..20u32),
        waits in 1..300usize,
    ) {
        let mut bench = Bench::new(QueueConfig::Wdrr(WdrrConfig {
            classes: vec![QueueConfig::DropTail(Limit::Unlimited); 3],
            weights: weights.to_vec(),
            quantum_bytes: 1500,
            limit: Limit::Unlimited,
        }));
        for _ in 0..2_000 {
            bench.put(Time::ZERO, of_class(0, 1500));
            bench.put(Time::ZERO, of_class(1, 1500));
        }
        for _ in 0..waits {
            bench.take(Time::ZERO);
        }
        bench.put(Time::ZERO, of_class(2, 1500));
        let others = (0..).take_while(|_| {
            bench.take(Time::ZERO).is_some_and(|held| held.packet.priority != 2)
        });
        let round = (weights[0] + weights[1]) as usize;
        prop_assert!(others.count() <= round + 2);
    }

    /// A joint limit takes from the class with the most bytes for its weight.
    #[test]
    fn a_joint_limit_takes_from_the_longest_for_its_weight(
        weights in prop::array::uniform3(1..20u32),
        arrivals in prop::collection::vec((0..3u8, 40..=1500u32), 1..300),
        limit in 1_500..20_000u64,
    ) {
        let mut bench = Bench::new(QueueConfig::Wdrr(WdrrConfig {
            classes: vec![QueueConfig::DropTail(Limit::Unlimited); 3],
            weights: weights.to_vec(),
            quantum_bytes: 1500,
            limit: Limit::Bytes(limit),
        }));
        let mut waiting = [0u64; 3];
        for (class, size) in arrivals {
            let before = bench.dropped().len();
            bench.put(Time::ZERO, of_class(class, size));
            waiting[usize::from(class)] += u64::from(size);
            for dropped in &bench.dropped()[before..] {
                let class = usize::from(dropped.packet.priority);
                for other in 0..3 {
                    let (this, that) = (waiting[class], waiting[other]);
                    let less = this * u64::from(weights[other]) < that * u64::from(weights[class]);
                    prop_assert!(!less, "{waiting:?} {weights:?}: from {class}");
                }
                waiting[class] -= u64::from(dropped.packet.size_bytes);
            }
            prop_assert!(bench.queue.bytes() <= limit);
        }
    }
}

#[test]
fn classes_beyond_the_last_share_it_and_none_hold_nothing() {
    let config = |classes| {
        QueueConfig::Wdrr(WdrrConfig {
            classes,
            weights: Vec::new(),
            quantum_bytes: 1500,
            limit: Limit::Unlimited,
        })
    };
    let mut bench = Bench::new(config(vec![QueueConfig::DropTail(Limit::Unlimited); 2]));
    for class in [1, 7, 255] {
        bench.put(Time::ZERO, of_class(class, 1000));
    }
    let order: Vec<u8> = std::iter::from_fn(|| bench.take(Time::ZERO))
        .map(|held| held.packet.priority)
        .collect();
    assert_eq!(order, [1, 7, 255]);
    let mut bench = Bench::new(config(Vec::new()));
    bench.put(Time::ZERO, of_class(0, 1000));
    assert_eq!(bench.dropped().len(), 1);
    assert!(bench.take(Time::ZERO).is_none());
}
