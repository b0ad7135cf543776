//! Strict priority.

use fairwater_net::{DropReason, FqCoDelConfig, Limit, PriorityConfig, QueueConfig, Time};
use proptest::prelude::*;

use super::support::{Bench, Probe, of_flow};

fn of_class(priority: u8) -> Probe {
    Probe {
        priority,
        ..of_flow(priority.into(), 1000)
    }
}

fn bands() -> QueueConfig {
    let classes = vec![
        QueueConfig::DropTail(Limit::Packets(100)),
        QueueConfig::FqCoDel(FqCoDelConfig::default()),
        QueueConfig::DropTail(Limit::Packets(3)),
    ];
    let limit = Limit::Unlimited;
    QueueConfig::Priority(PriorityConfig { classes, limit })
}

proptest! {
    #[test]
    fn nothing_is_served_while_something_better_waits(
        steps in prop::collection::vec(prop::option::of(0..5u8), 1..300),
    ) {
        let mut bench = Bench::new(bands());
        let mut waiting = [0u32; 3];
        for step in steps {
            match step {
                Some(class) => {
                    let before = bench.dropped().len();
                    bench.put(Time::ZERO, of_class(class));
                    // Classes beyond the last share it; each band has a limit of its own.
                    let band = usize::from(class).min(2);
                    let full = band == 2 && waiting[2] == 3;
                    prop_assert_eq!(bench.dropped().len() > before, full);
                    waiting[band] += u32::from(!full);
                }
                None => {
                    let served = bench.take(Time::ZERO).map(|h| usize::from(h.packet.priority).min(2));
                    prop_assert_eq!(served, waiting.iter().position(|count| *count > 0));
                    if let Some(band) = served {
                        waiting[band] -= 1;
                    }
                }
            }
            prop_assert_eq!(bench.queue.len(), waiting.iter().sum::<u32>() as usize);
        }
    }
}

#[test]
fn a_busy_class_starves_those_after_it() {
    let mut bench = Bench::new(bands());
    bench.put(Time::ZERO, of_class(1));
    for _ in 0..1_000 {
        bench.put(Time::ZERO, of_class(0));
        let held = bench.take(Time::ZERO).expect("two wait");
        assert_eq!(held.packet.priority, 0);
    }
    assert_eq!(
        bench.take(Time::ZERO).map(|held| held.packet.priority),
        Some(1)
    );
}

#[test]
fn no_bands_hold_nothing() {
    let mut bench = Bench::new(QueueConfig::Priority(PriorityConfig {
        classes: Vec::new(),
        limit: Limit::Unlimited,
    }));
    bench.put(Time::ZERO, of_class(0));
    assert_eq!(bench.dropped()[0].reason, DropReason::QueueFull);
    assert!(bench.take(Time::ZERO).is_none());
}

proptest! {
    /// A joint limit takes from the last class: what is served first loses nothing while anything
    /// that is served later waits.
    #[test]
    fn a_joint_limit_takes_from_the_last_class(
        arrivals in prop::collection::vec((0..3u8, 40..=1500u32), 1..300),
        limit in 1_500..20_000u64,
    ) {
        let mut bench = Bench::new(QueueConfig::Priority(PriorityConfig {
            classes: vec![QueueConfig::DropTail(Limit::Unlimited); 3],
            limit: Limit::Bytes(limit),
        }));
        let mut waiting = [0i64; 3];
        for (class, size_bytes) in arrivals {
            let before = bench.dropped().len();
            bench.put(Time::ZERO, Probe { size_bytes, ..of_class(class) });
            waiting[usize::from(class)] += i64::from(size_bytes);
            for dropped in &bench.dropped()[before..] {
                let class = usize::from(dropped.packet.priority);
                prop_assert!(waiting[class + 1..].iter().all(|bytes| *bytes == 0));
                waiting[class] -= i64::from(dropped.packet.size_bytes);
            }
            let sum: i64 = waiting.iter().sum();
            prop_assert_eq!(bench.queue.bytes(), sum as u64);
            prop_assert!(sum as u64 <= limit);
        }
    }
}
