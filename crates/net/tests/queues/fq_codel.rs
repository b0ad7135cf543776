//! FQ-CoDel by RFC 8290.

use std::collections::{HashMap, VecDeque};

use fairwater_net::{DropReason, FqCoDelConfig, Limit, QueueConfig, Time};
use proptest::prelude::*;

use super::support::{Bench, Probe, of_flow};

fn bench(config: FqCoDelConfig) -> Bench {
    Bench::new(QueueConfig::FqCoDel(config))
}

proptest! {
    #[test]
    fn flows_of_different_packets_get_equal_bytes(sizes in prop::array::uniform2(40..=1500u32)) {
        let mut bench = bench(FqCoDelConfig::default());
        for flow in 0..2 {
            for _ in 0..4_000 {
                bench.put(Time::ZERO, of_flow(flow, sizes[flow as usize]));
            }
        }
        let mut sent = [0i64; 2];
        for _ in 0..4_000 {
            let held = bench.take(Time::ZERO).expect("both are backlogged");
            sent[held.packet.flow as usize] += i64::from(held.size_bytes);
            // A quantum, and the packet that goes beyond it.
            prop_assert!((sent[0] - sent[1]).abs() <= 3_000);
        }
    }
}

#[test]
fn a_sparse_flow_goes_before_those_that_wait() {
    let mut bench = bench(FqCoDelConfig::default());
    for flow in 0..10 {
        for _ in 0..100 {
            bench.put(Time::ZERO, of_flow(flow, 1500));
        }
    }
    // Each had its quantum as a new flow.
    for _ in 0..10 {
        bench.take(Time::ZERO);
    }
    for sparse in 100..150 {
        bench.put(Time::ZERO, of_flow(sparse, 100));
        let next = bench.take(Time::ZERO).expect("many wait");
        assert_eq!(next.packet.flow, sparse);
        // It has gone empty; the others go on.
        assert!(bench.take(Time::ZERO).expect("many wait").packet.flow < 10);
    }
}

#[test]
fn a_flow_that_comes_again_and_again_does_not_starve_the_others() {
    let mut bench = bench(FqCoDelConfig::default());
    for _ in 0..1_000 {
        bench.put(Time::ZERO, of_flow(1, 1500));
    }
    let mut sent = HashMap::new();
    for _ in 0..1_000 {
        // Always just one packet: were it new each time, it would always be first.
        if bench.queue.len() + sent.get(&1).copied().unwrap_or(0) <= 1_000 {
            bench.put(Time::ZERO, of_flow(2, 1500));
        }
        let held = bench.take(Time::ZERO).expect("many wait");
        *sent.entry(held.packet.flow).or_insert(0) += 1;
    }
    assert!(sent[&1] >= 490, "{sent:?}");
}

#[test]
fn the_fattest_flow_pays_for_a_full_queue_from_its_head() {
    let limit = Limit::Packets(1_000);
    let mut bench = bench(FqCoDelConfig {
        limit,
        ..FqCoDelConfig::default()
    });
    for thin in 0..10 {
        bench.put(Time::ZERO, of_flow(100 + thin, 1500));
    }
    for number in 0..2_000 {
        let mut packet = of_flow(1, 1500);
        packet.number = number;
        bench.put(Time::ZERO, packet);
        assert!(bench.queue.len() <= 1_000);
    }
    let dropped: Vec<usize> = bench.dropped().iter().map(|d| d.packet.number).collect();
    // 64 at once, as RFC 8290 §4.1 has it, and the oldest.
    assert_eq!(dropped.len() % 64, 0);
    assert_eq!(dropped, (0..dropped.len()).collect::<Vec<_>>());
    for drop in bench.dropped() {
        assert_eq!((drop.packet.flow, drop.reason), (1, DropReason::QueueFull));
    }
}

#[test]
fn a_flow_that_waits_too_long_loses_packets_and_another_does_not() {
    let mut bench = bench(FqCoDelConfig::default());
    for _ in 0..9_000 {
        bench.put(Time::ZERO, of_flow(1, 1500));
    }
    for ms in 0..4_000 {
        let now = Time::from_millis(ms);
        if ms % 2 == 0 {
            bench.put(now, of_flow(2, 500));
        }
        bench.take(now);
    }
    let (bad, good): (Vec<_>, Vec<_>) = bench.dropped().iter().partition(|d| d.packet.flow == 1);
    assert!(bad.len() > 100 && good.is_empty());
    assert!(bad.iter().all(|drop| drop.reason == DropReason::Aqm));
}

#[test]
fn packets_without_bytes_are_dropped_as_well() {
    let mut bench = bench(FqCoDelConfig {
        limit: Limit::Packets(10),
        ..FqCoDelConfig::default()
    });
    // A queue that has had its turn stays among the others, empty.
    bench.put(Time::ZERO, of_flow(1, 0));
    assert!(bench.take(Time::ZERO).is_some());
    for _ in 0..30 {
        bench.put(Time::ZERO, of_flow(2, 0));
    }
    let left = std::iter::from_fn(|| bench.take(Time::ZERO)).count();
    assert!((5..=10).contains(&left), "{left}");
}

proptest! {
    /// RFC 8290 §4.1: a full queue drops from the head of the flow with the most bytes, as a search
    /// through all flows finds it. The flows have queues of their own: 65,536 for a few flows.
    #[test]
    fn overflow_drops_from_the_head_of_the_longest(
        steps in prop::collection::vec((0..12u64, 1..=1500u32, any::<bool>()), 1..400),
        limit in 1_500..40_000u64,
    ) {
        let mut bench = Bench::new(QueueConfig::FqCoDel(FqCoDelConfig {
            limit: Limit::Bytes(limit),
            flows: 65_536,
            ..FqCoDelConfig::default()
        }));
        let mut waiting: Vec<VecDeque<Probe>> = vec![VecDeque::new(); 12];
        for (number, (flow, size_bytes, takes)) in steps.into_iter().enumerate() {
            let packet = Probe { number, ..of_flow(flow, size_bytes) };
            let before = bench.dropped().len();
            // At one time, so that nothing is dropped for its age.
            bench.put(Time::ZERO, packet);
            waiting[flow as usize].push_back(packet);
            let size = |queue: &VecDeque<Probe>| {
                let bytes = queue.iter().map(|packet| u64::from(packet.size_bytes)).sum::<u64>();
                (bytes, queue.len())
            };
            if let Some(first) = bench.dropped().get(before) {
                let longest = waiting.iter().map(size).max();
                prop_assert_eq!(Some(size(&waiting[first.packet.flow as usize])), longest);
            }
            for dropped in &bench.dropped()[before..] {
                let queue = &mut waiting[dropped.packet.flow as usize];
                prop_assert_eq!(queue.pop_front(), Some(dropped.packet));
            }
            prop_assert!(bench.queue.bytes() <= limit);
            if takes && let Some(held) = bench.take(Time::ZERO) {
                let queue = &mut waiting[held.packet.flow as usize];
                prop_assert_eq!(queue.pop_front(), Some(held.packet));
            }
        }
    }
}
