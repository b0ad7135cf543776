//! What a link promises, whatever arrives and whenever it is polled.

#![expect(
    clippy::expect_used,
    reason = "helpers of tests fail the test by panicking"
)]

use std::sync::Arc;
use std::time::Duration;

use fairwater_net::{
    Capacity, Delivered, DeliveryTrace, DropReason, Limit, Link, LinkConfig, LossConfig, Packet,
    PacketTimes, Probability, QueueConfig, Rate, Time,
};
use proptest::prelude::*;

/// A packet with a number.
struct Numbered {
    number: usize,
    size_bytes: u32,
}

impl Packet for Numbered {
    fn size_bytes(&self) -> u32 {
        self.size_bytes
    }
}

/// A packet's gap to the one before it and its size.
type Offered = Vec<(u64, u32)>;

fn offered() -> impl Strategy<Value = Offered> {
    let gap = prop_oneof![Just(0), 1..2_000_000u64, 1_000_000..80_000_000u64];
    prop::collection::vec((gap, 40..=1500u32), 1..200)
}

fn capacity() -> impl Strategy<Value = Capacity> {
    prop_oneof![
        4 => (1_000..1_000_000_000u64)
            .prop_map(|bps| Capacity::Rate(Rate::from_bps(bps).expect("not zero"))),
        4 => prop::collection::vec(0..20u64, 1..40).prop_map(|steps| {
            let mut ms = 0;
            let mut lines: Vec<String> = steps
                .iter()
                .map(|step| {
                    ms += step;
                    ms.to_string()
                })
                .collect();
            lines.push((ms + 1).to_string());
            let trace = DeliveryTrace::parse(&lines.join("\n")).expect("well-formed");
            Capacity::Trace(Arc::new(trace))
        }),
        1 => Just(Capacity::Unlimited),
    ]
}

fn config() -> impl Strategy<Value = LinkConfig> {
    let limit = prop_oneof![
        (1..50u64).prop_map(Limit::Packets),
        (1500..60_000u64).prop_map(Limit::Bytes),
        Just(Limit::Unlimited),
    ];
    let loss = prop_oneof![Just(0), 0..=1_000_000_000u32];
    (capacity(), limit, 0..100_000_000u64, loss, any::<u64>()).prop_map(
        |(capacity, limit, delay_ns, ppb, seed)| LinkConfig {
            loss: LossConfig::Random(Probability::from_ppb(ppb).expect("at most a billion")),
            seed,
            ..LinkConfig::new(
                capacity,
                QueueConfig::DropTail(limit),
                Duration::from_nanos(delay_ns),
            )
        },
    )
}

/// What a link did with numbered packets.
#[derive(Debug, PartialEq)]
struct Outcome {
    delivered: Vec<(usize, PacketTimes)>,
    dropped: Vec<(usize, DropReason)>,
}

/// Offers the packets, polling at each of `polls` (times of the whole run, ns) as well.
fn run(config: &LinkConfig, offered: &Offered, polls: &[u64]) -> Outcome {
    let mut link = Link::new(config);
    let mut outcome = Outcome {
        delivered: Vec::new(),
        dropped: Vec::new(),
    };
    let mut polls: Vec<u64> = polls.to_vec();
    polls.sort_unstable();
    let mut polls = polls.into_iter().peekable();
    let mut now = 0;
    let poll = |link: &mut Link<Numbered>, at: u64, outcome: &mut Outcome| {
        while let Some(Delivered { times, packet }) = link.poll(Time::from_nanos(at)) {
            assert!(times.due <= Time::from_nanos(at), "out before it is due");
            outcome.delivered.push((packet.number, times));
        }
        let next = link.next_departure();
        assert!(next.is_none_or(|next| next > Time::from_nanos(at)));
    };
    for (number, &(gap, size)) in offered.iter().enumerate() {
        now += gap;
        while let Some(at) = polls.next_if(|&at| at < now) {
            poll(&mut link, at, &mut outcome);
        }
        let packet = Numbered {
            number,
            size_bytes: size,
        };
        link.enqueue(Time::from_nanos(now), packet);
        for dropped in link.drain_dropped() {
            outcome
                .dropped
                .push((dropped.packet.number, dropped.reason));
        }
        let counters = link.counters();
        let gone = counters.delivered
            + counters.dropped_full
            + counters.dropped_aqm
            + counters.dropped_lost;
        assert_eq!(counters.arrived, gone + link.in_transit() as u64);
    }
    while let Some(next) = link.next_departure() {
        poll(&mut link, next.as_nanos().max(now), &mut outcome);
    }
    assert_eq!(link.in_transit(), 0);
    outcome
}

proptest! {
    #[test]
    fn every_packet_comes_out_in_order_or_is_dropped(config in config(), offered in offered()) {
        let outcome = run(&config, &offered, &[]);
        prop_assert!(outcome.delivered.is_sorted_by(|a, b| a.0 < b.0 && a.1.due <= b.1.due));
        let mut all: Vec<usize> = outcome.delivered.iter().map(|(number, _)| *number).collect();
        all.extend(outcome.dropped.iter().map(|(number, _)| *number));
        all.sort_unstable();
        prop_assert_eq!(all, (0..offered.len()).collect::<Vec<_>>());
    }

    #[test]
    fn polling_changes_nothing(
        config in config(),
        offered in offered(),
        polls in prop::collection::vec(0..2_000_000_000u64, 0..100),
    ) {
        prop_assert_eq!(run(&config, &offered, &polls), run(&config, &offered, &[]));
    }

    #[test]
    fn service_starts_at_the_later_of_arrival_and_the_end_of_the_one_before(
        mut config in config(),
        bps in 1_000..1_000_000_000u64,
        offered in offered(),
    ) {
        let rate = Rate::from_bps(bps).expect("not zero");
        config.capacity = Capacity::Rate(rate);
        let mut free = Time::ZERO;
        for (_, times) in run(&config, &offered, &[]).delivered {
            prop_assert_eq!(times.served, times.enqueued.max(free));
            let service = times.departed.since(times.served);
            let exact = rate.time_for(times.size_bytes.into());
            prop_assert!(service <= exact && exact - service <= Duration::from_nanos(1));
            prop_assert_eq!(times.due, times.departed + config.delay);
            free = times.departed;
        }
    }

    #[test]
    fn no_interval_carries_more_than_the_rate(
        mut config in config(),
        bps in 1_000..1_000_000_000u64,
        offered in offered(),
        from in any::<prop::sample::Index>(),
        to in any::<prop::sample::Index>(),
    ) {
        let rate = Rate::from_bps(bps).expect("not zero");
        config.capacity = Capacity::Rate(rate);
        let delivered = run(&config, &offered, &[]).delivered;
        prop_assume!(!delivered.is_empty());
        let (a, b) = (from.index(delivered.len()), to.index(delivered.len()));
        let part = &delivered[a.min(b)..=a.max(b)];
        let bytes: u64 = part.iter().map(|(_, times)| u64::from(times.size_bytes)).sum();
        let took = part[part.len() - 1].1.departed.since(part[0].1.served);
        prop_assert!(took + Duration::from_nanos(1) >= rate.time_for(bytes));
    }

    #[test]
    fn a_trace_never_carries_more_than_its_opportunities(
        mut config in config(),
        capacity in capacity(),
        offered in offered(),
    ) {
        let Capacity::Trace(trace) = &capacity else { return Ok(()) };
        config.capacity = capacity.clone();
        let delivered = run(&config, &offered, &[]).delivered;
        for window in [1, 7, 50] {
            for part in delivered.windows(window) {
                let last = part[part.len() - 1].1;
                prop_assert!(last.departed >= last.enqueued);
                // All but the first packet's bytes went within the window for certain.
                let bytes: u64 = part[1..].iter().map(|(_, p)| u64::from(p.size_bytes)).sum();
                let until = last.departed + Duration::from_nanos(1);
                prop_assert!(bytes <= trace.bytes_between(part[0].1.departed, until));
            }
        }
    }

    #[test]
    fn a_busy_trace_carries_a_packet_at_each_opportunity(
        steps in prop::collection::vec(1..20u64, 2..30),
    ) {
        let mut ms = 0;
        let times: Vec<u64> = steps.iter().map(|step| { ms += step; ms }).collect();
        let text: Vec<String> = times.iter().map(u64::to_string).collect();
        let trace = DeliveryTrace::parse(&text.join("\n")).expect("well-formed");
        let capacity = Capacity::Trace(Arc::new(trace));
        let queue = QueueConfig::DropTail(Limit::Unlimited);
        let config = LinkConfig::new(capacity, queue, Duration::ZERO);
        let offered = vec![(0, 1500); 2 * times.len()];
        let departed: Vec<u64> = run(&config, &offered, &[])
            .delivered
            .iter()
            .map(|(_, times)| times.departed.as_nanos() / 1_000_000)
            .collect();
        let again = times.iter().map(|at| at + ms);
        prop_assert_eq!(departed, times.iter().copied().chain(again).collect::<Vec<_>>());
    }

    #[test]
    fn the_queue_never_exceeds_its_limit(mut config in config(), offered in offered()) {
        for limit in [Limit::Packets(7), Limit::Bytes(9_000)] {
            config.queue = QueueConfig::DropTail(limit);
            let mut link = Link::new(&config);
            let mut now = Time::ZERO;
            for &(gap, size) in &offered {
                now = now + Duration::from_nanos(gap);
                let before = (link.queued_packets() as u64, link.queued_bytes());
                link.enqueue(now, Numbered { number: 0, size_bytes: size });
                let full = link
                    .drain_dropped()
                    .any(|dropped| dropped.reason == DropReason::QueueFull);
                match limit {
                    Limit::Packets(max) => {
                        prop_assert!(link.queued_packets() as u64 <= max);
                        prop_assert!(!full || before.0 >= max);
                    }
                    Limit::Bytes(max) => {
                        prop_assert!(link.queued_bytes() <= max);
                        prop_assert!(!full || before.1 + u64::from(size) > max);
                    }
                    Limit::Unlimited => unreachable!("not in the list"),
                }
            }
        }
    }

    #[test]
    fn equal_seeds_lose_the_same_packets_and_the_share_is_as_asked(seed in any::<u64>()) {
        let config = LinkConfig {
            loss: LossConfig::Random(Probability::percent(10)),
            seed,
            ..LinkConfig::new(
                Capacity::Unlimited,
                QueueConfig::DropTail(Limit::Unlimited),
                Duration::ZERO,
            )
        };
        let offered = vec![(1, 100); 20_000];
        let first = run(&config, &offered, &[]);
        prop_assert_eq!(&first, &run(&config, &offered, &[3, 9_000]));
        // 2000 expected; the bounds are over 7 standard deviations away.
        prop_assert!((1_700..2_300).contains(&first.dropped.len()));
        prop_assert!(first.dropped.iter().all(|(_, why)| *why == DropReason::RandomLoss));
    }
}

#[test]
fn a_full_queue_delays_by_its_own_length() {
    let rate = Rate::from_bps(12_000_000).expect("not zero");
    let queue = QueueConfig::DropTail(Limit::Packets(10));
    let config = LinkConfig::new(Capacity::Rate(rate), queue, Duration::from_millis(5));
    let outcome = run(&config, &vec![(0, 1500); 20], &[]);
    // One in service at once, ten waiting, each 1 ms behind the one before; nine dropped.
    assert_eq!(outcome.delivered.len(), 11);
    assert_eq!(outcome.dropped.len(), 9);
    let delays: Vec<Duration> = outcome
        .delivered
        .iter()
        .map(|(_, times)| times.queueing_delay())
        .collect();
    assert_eq!(
        delays,
        (0..=10).map(Duration::from_millis).collect::<Vec<_>>()
    );
}
