//! What holds for every discipline, whatever arrives.

use std::collections::HashMap;
use std::time::Duration;

use fairwater_net::{
    Capacity, CoDelConfig, DropReason, DrrConfig, Ecn, FqCoDelConfig, Jitter, Limit, Link,
    LinkConfig, LossConfig, PacketTimes, PieConfig, PriorityConfig, Probability, QueueConfig,
    RedConfig, Reordering, SfqConfig, StepConfig, Time, WdrrConfig,
};
use proptest::prelude::*;

use super::support::{Bench, Probe, of_flow, rate};

fn limit() -> impl Strategy<Value = Limit> {
    prop_oneof![
        (1..40u64).prop_map(Limit::Packets),
        (1500..40_000u64).prop_map(Limit::Bytes),
    ]
}

fn red() -> impl Strategy<Value = QueueConfig> {
    (1_500..40_000u64, 1..=20u32, any::<[bool; 3]>()).prop_map(|(limit, tenths, flags)| {
        QueueConfig::Red(RedConfig {
            probability: Probability::percent(tenths * 5),
            ecn: flags[0],
            harddrop: flags[1],
            nodrop: flags[2],
            ..RedConfig::with_limit(limit, rate(10_000_000))
        })
    })
}

fn codel() -> impl Strategy<Value = CoDelConfig> {
    (limit(), 0..5_000u64, 1..50_000u64, any::<bool>()).prop_map(
        |(limit, target, interval, ecn)| CoDelConfig {
            limit,
            target: Duration::from_micros(target),
            interval: Duration::from_micros(interval),
            ecn,
        },
    )
}

fn pie() -> impl Strategy<Value = QueueConfig> {
    (limit(), 0..10_000u64, 0..30_000u64, any::<bool>()).prop_map(|(limit, target, burst, ecn)| {
        QueueConfig::Pie(PieConfig {
            limit,
            target: Duration::from_micros(target),
            update: Duration::from_micros(500),
            max_burst: Duration::from_micros(burst),
            ecn,
            ..PieConfig::default()
        })
    })
}

fn fair() -> impl Strategy<Value = QueueConfig> {
    let shape = (limit(), 1..8u32, 1..3_000u32);
    let perturb = prop::option::of((1..50u64).prop_map(Duration::from_millis));
    (0..3, shape, perturb, codel()).prop_map(|(kind, shape, perturb, codel)| {
        let (limit, flows, quantum_bytes) = shape;
        match kind {
            0 => QueueConfig::FqCoDel(FqCoDelConfig {
                limit,
                flows,
                quantum_bytes,
                codel,
            }),
            1 => QueueConfig::Drr(DrrConfig {
                limit,
                flows,
                quantum_bytes,
            }),
            _ => QueueConfig::Sfq(SfqConfig {
                limit,
                flows,
                quantum_bytes,
                perturb,
            }),
        }
    })
}

fn queue() -> impl Strategy<Value = QueueConfig> {
    let leaf = prop_oneof![
        limit().prop_map(QueueConfig::DropTail),
        (limit(), limit())
            .prop_map(|(limit, threshold)| QueueConfig::Step(StepConfig { limit, threshold })),
        red(),
        codel().prop_map(QueueConfig::CoDel),
        pie(),
        fair(),
    ];
    let classes = prop::collection::vec((leaf.clone(), 1..5u32), 0..4);
    let joint = prop_oneof![1 => Just(Limit::Unlimited), 2 => limit()];
    let between = (classes, joint, prop::option::of(1..3_000u32));
    let between = between.prop_map(|(classes, limit, quantum)| {
        let (classes, weights) = classes.into_iter().unzip();
        match quantum {
            None => QueueConfig::Priority(PriorityConfig { classes, limit }),
            Some(quantum_bytes) => QueueConfig::Wdrr(WdrrConfig {
                classes,
                weights,
                quantum_bytes,
                limit,
            }),
        }
    });
    prop_oneof![6 => leaf, 2 => between]
}

fn in_order() -> impl Strategy<Value = LinkConfig> {
    let jitter = prop::option::of((0..5_000u64).prop_map(|us| Jitter {
        max: Duration::from_micros(us),
        reorders: false,
    }));
    let link = (
        1_000_000..100_000_000u64,
        0..20_000u64,
        0..3u32,
        any::<u64>(),
    );
    (queue(), jitter, link).prop_map(|(queue, jitter, (bps, delay_us, loss, seed))| LinkConfig {
        jitter,
        loss: LossConfig::Random(Probability::percent(loss)),
        seed,
        ..LinkConfig::new(
            Capacity::Rate(rate(bps)),
            queue,
            Duration::from_micros(delay_us),
        )
    })
}

fn any_order() -> impl Strategy<Value = LinkConfig> {
    let held = prop::option::of((0..=100u32, 0..10_000u64));
    (in_order(), held, any::<bool>()).prop_map(|(config, held, reorders)| LinkConfig {
        jitter: config.jitter.map(|jitter| Jitter { reorders, ..jitter }),
        reordering: held.map(|(percent, us)| Reordering {
            probability: Probability::percent(percent),
            extra: Duration::from_micros(us),
        }),
        ..config
    })
}

/// Packets and the gap before each, ns.
fn offered() -> impl Strategy<Value = Vec<(u64, Probe)>> {
    let gap = prop_oneof![4 => 0..200_000u64, 1 => Just(0), 1 => 1_000_000..30_000_000u64];
    let ecn = prop_oneof![
        Just(Ecn::NotEct),
        Just(Ecn::Ect0),
        Just(Ecn::Ect1),
        Just(Ecn::Ce)
    ];
    let packet = (gap, 0..6u64, 40..=1500u32, ecn);
    prop::collection::vec(packet, 1..300).prop_map(|packets| {
        let probe = |(number, (gap, flow, size_bytes, ecn)): (usize, (u64, u64, u32, Ecn))| {
            let priority = flow as u8 % 5;
            (
                gap,
                Probe {
                    number,
                    flow,
                    priority,
                    size_bytes,
                    ecn,
                },
            )
        };
        packets.into_iter().enumerate().map(probe).collect()
    })
}

/// What a link did.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    delivered: Vec<(Probe, PacketTimes)>,
    dropped: Vec<(usize, DropReason, Time)>,
    marked: u64,
}

/// Offers the packets, and polls when the link says and at each of `polls`, ns.
fn run(config: &LinkConfig, offered: &[(u64, Probe)], polls: &[u64]) -> Outcome {
    let mut outcome = Outcome::default();
    let mut link = Link::new(config);
    let mut arrivals = Vec::new();
    let mut now = 0;
    for (gap, packet) in offered {
        now += gap;
        arrivals.push((now, *packet));
    }
    let mut arrivals = arrivals.into_iter().peekable();
    let mut polls: Vec<u64> = polls.to_vec();
    polls.sort_unstable();
    let mut polls = polls.into_iter().peekable();
    loop {
        let arrival = arrivals.peek().map(|(at, _)| *at);
        let departure = link.next_departure().map(Time::as_nanos);
        let poll = polls.peek().copied();
        let Some(at) = [arrival, departure, poll].into_iter().flatten().min() else {
            break;
        };
        let now = Time::from_nanos(at);
        while let Some(delivered) = link.poll(now) {
            assert_eq!(delivered.times.due, now, "not when it was due");
            outcome.delivered.push((delivered.packet, delivered.times));
        }
        while polls.next_if(|poll| *poll == at).is_some() {}
        if let Some((_, packet)) = arrivals.next_if(|(arrival, _)| *arrival == at) {
            link.enqueue(now, packet);
        }
        for dropped in link.drain_dropped() {
            assert!(dropped.enqueued <= dropped.at && dropped.at <= now);
            let drop = (dropped.packet.number, dropped.reason, dropped.at);
            outcome.dropped.push(drop);
        }
        let counters = link.counters();
        let gone = counters.delivered
            + counters.dropped_full
            + counters.dropped_aqm
            + counters.dropped_lost;
        assert_eq!(counters.arrived, gone + link.in_transit() as u64);
    }
    assert_eq!((link.in_transit(), link.queued_bytes()), (0, 0));
    outcome.marked = link.counters().marked;
    outcome
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn every_packet_comes_out_once_or_is_dropped_once(
        config in any_order(),
        offered in offered(),
    ) {
        let outcome = run(&config, &offered, &[]);
        let mut all: Vec<usize> = outcome.delivered.iter().map(|(p, _)| p.number).collect();
        all.extend(outcome.dropped.iter().map(|(number, ..)| *number));
        all.sort_unstable();
        prop_assert_eq!(all, (0..offered.len()).collect::<Vec<_>>());
        // Only what understands marks is marked.
        for (packet, _) in &outcome.delivered {
            let before = offered[packet.number].1.ecn;
            prop_assert!(packet.ecn == before || packet.ecn == Ecn::Ce);
            prop_assert_eq!(packet.ecn == Ecn::NotEct, before == Ecn::NotEct);
        }
    }

    #[test]
    fn when_it_is_polled_changes_nothing(
        config in any_order(),
        offered in offered(),
        polls in prop::collection::vec(0..500_000_000u64, 0..100),
    ) {
        prop_assert_eq!(run(&config, &offered, &polls), run(&config, &offered, &[]));
    }

    #[test]
    fn flows_keep_their_order(config in in_order(), offered in offered()) {
        let mut last = HashMap::new();
        for (packet, times) in run(&config, &offered, &[]).delivered {
            if let Some((number, due)) = last.insert(packet.flow, (packet.number, times.due)) {
                prop_assert!(number < packet.number && due <= times.due);
            }
        }
    }

    #[test]
    fn the_bottleneck_rests_only_while_nothing_waits(config in in_order(), offered in offered()) {
        let mut delivered = run(&config, &offered, &[]).delivered;
        delivered.sort_by_key(|(_, times)| times.served);
        let mut free = Time::ZERO;
        for (packet, times) in &delivered {
            prop_assert!(times.served >= free && times.served >= times.enqueued);
            // Whoever was served later than it could have been had to wait for another.
            let idle = times.served > free;
            prop_assert!(!idle || times.served == times.enqueued, "{packet:?} waited");
            free = times.departed;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// Packets and bytes are conserved whatever else is done to a queue: packets thrown out of it,
    /// another limit, services.
    #[test]
    fn bytes_and_packets_are_conserved(
        config in queue(),
        offered in offered(),
        acts in prop::collection::vec((0..6u8, limit()), 1..200),
    ) {
        let mut bench = Bench::new(config);
        let (mut put, mut taken) = ((0, 0), (0, 0));
        let mut now = 0;
        let add = |sum: &mut (usize, u64), size_bytes: u32| {
            sum.0 += 1;
            sum.1 += u64::from(size_bytes);
        };
        for ((gap, packet), (act, limit)) in offered.iter().zip(acts.iter().cycle()) {
            now += gap;
            let at = Time::from_nanos(now);
            bench.put(at, *packet);
            add(&mut put, packet.size_bytes);
            match act {
                0 => {
                    let waits = !bench.queue.is_empty();
                    let dropped = bench.sink.dropped.len();
                    prop_assert_eq!(bench.queue.evict(at, &mut bench.sink), waits);
                    prop_assert_eq!(bench.sink.dropped.len(), dropped + usize::from(waits));
                }
                1 => bench.queue.set_limit(*limit),
                2 | 3 => {
                    if let Some(held) = bench.take(at) {
                        add(&mut taken, held.size_bytes);
                    }
                }
                _ => {}
            }
            let mut gone = taken;
            for dropped in bench.dropped() {
                add(&mut gone, dropped.packet.size_bytes);
            }
            let waiting = (bench.queue.len(), bench.queue.bytes());
            prop_assert_eq!(put, (gone.0 + waiting.0, gone.1 + waiting.1));
        }
        // A queue that holds packets gives one out, or drops them all for their age.
        while !bench.queue.is_empty() {
            let waiting = bench.queue.len();
            let held = bench.take(Time::from_nanos(now));
            prop_assert!(held.is_some() || bench.queue.is_empty());
            prop_assert!(bench.queue.len() < waiting);
        }
        prop_assert_eq!(bench.queue.bytes(), 0);
    }
}

#[test]
fn the_longest_times_and_extreme_numbers_harm_nobody() {
    let never = CoDelConfig {
        limit: Limit::Unlimited,
        target: Duration::ZERO,
        interval: Duration::MAX,
        ecn: false,
    };
    let always = CoDelConfig {
        interval: Duration::ZERO,
        ..never
    };
    let pie = |update| {
        QueueConfig::Pie(PieConfig {
            update,
            max_burst: Duration::from_millis(10),
            ..PieConfig::default()
        })
    };
    let configs = [
        QueueConfig::CoDel(never),
        QueueConfig::CoDel(always),
        QueueConfig::FqCoDel(FqCoDelConfig {
            limit: Limit::Packets(0),
            flows: 0,
            quantum_bytes: 0,
            codel: always,
        }),
        QueueConfig::Drr(DrrConfig {
            limit: Limit::Packets(3),
            flows: u32::MAX,
            quantum_bytes: 0,
        }),
        QueueConfig::Sfq(SfqConfig {
            limit: Limit::Packets(3),
            flows: 0,
            quantum_bytes: 0,
            perturb: Some(Duration::ZERO),
        }),
        pie(Duration::MAX),
        pie(Duration::ZERO),
        QueueConfig::Red(RedConfig {
            min_bytes: 9,
            max_bytes: 3,
            avpkt_bytes: 0,
            burst_packets: 0,
            ..RedConfig::with_limit(0, rate(1))
        }),
        QueueConfig::Red(RedConfig {
            min_bytes: u64::MAX,
            max_bytes: u64::MAX,
            avpkt_bytes: 0,
            burst_packets: u32::MAX,
            ..RedConfig::with_limit(u64::MAX, rate(1))
        }),
    ];
    for config in configs {
        let mut bench = Bench::new(config);
        for at in [0, 1, 2_000_000, 3_000_000, u64::MAX] {
            for flow in 0..5 {
                bench.put(Time::from_nanos(at), of_flow(flow, 1500));
            }
            bench.take(Time::from_nanos(at));
        }
        let waiting = bench.queue.len();
        assert_eq!(bench.queue.bytes(), 1500 * waiting as u64);
        assert!(waiting + bench.dropped().len() <= 25);
    }
}
