//! What a packet costs at a link: arrival, queue, service and departure, for each discipline.
//!
//! Ten flows keep 200 packets going round a link of 1 Gbit/s: whatever comes out or is dropped
//! arrives again at once, so that the queue is never empty.

use std::time::Duration;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use fairwater_net::{
    Capacity, CoDelConfig, DrrConfig, Ecn, FqCoDelConfig, Limit, Link, LinkConfig, Packet,
    PieConfig, PriorityConfig, Queue, QueueConfig, Rate, RedConfig, SfqConfig, Sink, StepConfig,
    Time, WdrrConfig,
};

fn main() {
    divan::main();
}

/// As large as what a simulator might pass on.
#[derive(Clone, Copy)]
struct Segment {
    flow: u64,
    ecn: Ecn,
    _rest: [u64; 6],
}

impl Packet for Segment {
    fn size_bytes(&self) -> u32 {
        1500
    }

    fn flow(&self) -> u64 {
        self.flow
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn mark_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }
}

const DISCIPLINES: [&str; 10] = [
    "drop-tail",
    "step",
    "RED",
    "CoDel",
    "FQ-CoDel",
    "SFQ",
    "DRR",
    "priority",
    "WDRR",
    "PIE",
];

fn queue(name: &str) -> QueueConfig {
    let limit = Limit::Packets(1000);
    match name {
        "step" => QueueConfig::Step(StepConfig {
            limit,
            threshold: Limit::Packets(65),
        }),
        "RED" => QueueConfig::Red(RedConfig {
            ecn: true,
            ..RedConfig::with_limit(1_000_000, RATE)
        }),
        "CoDel" => QueueConfig::CoDel(CoDelConfig::default()),
        "FQ-CoDel" => QueueConfig::FqCoDel(FqCoDelConfig::default()),
        "SFQ" => QueueConfig::Sfq(SfqConfig {
            limit,
            ..SfqConfig::default()
        }),
        "DRR" => QueueConfig::Drr(DrrConfig::default()),
        "priority" => QueueConfig::Priority(PriorityConfig {
            classes: vec![QueueConfig::DropTail(limit); 3],
            limit,
        }),
        "WDRR" => QueueConfig::Wdrr(WdrrConfig {
            classes: vec![QueueConfig::DropTail(limit); 3],
            weights: vec![4, 2, 1],
            quantum_bytes: 1500,
            limit,
        }),
        "PIE" => QueueConfig::Pie(PieConfig::default()),
        _ => QueueConfig::DropTail(limit),
    }
}

const RATE: Rate = match Rate::from_bps(1_000_000_000) {
    Some(rate) => rate,
    None => panic!("not zero"),
};

const PACKETS: usize = 10_000;

#[divan::bench(args = DISCIPLINES)]
fn packet(bencher: Bencher<'_, '_>, name: &str) {
    let config = LinkConfig::new(
        Capacity::Rate(RATE),
        queue(name),
        Duration::from_micros(100),
    );
    let mut link = Link::new(&config);
    for flow in 0..200 {
        let segment = Segment {
            flow: flow % 10,
            ecn: Ecn::Ect0,
            _rest: [0; 6],
        };
        link.enqueue(Time::ZERO, segment);
    }
    let mut dropped = Vec::new();
    bencher.counter(ItemsCount::new(PACKETS)).bench_local(|| {
        for _ in 0..PACKETS {
            let Some(now) = link.next_departure() else {
                return;
            };
            while let Some(delivered) = link.poll(now) {
                let mut segment = black_box(delivered).packet;
                segment.ecn = Ecn::Ect0;
                link.enqueue(now, segment);
            }
            dropped.extend(link.drain_dropped());
            for drop in dropped.drain(..) {
                link.enqueue(now, drop.packet);
            }
        }
    });
}

/// The fair disciplines, each with a limit of as many packets as it has flows.
fn full(name: &str, flows: u32) -> QueueConfig {
    let limit = Limit::Packets(flows.into());
    let buckets = 65_536;
    match name {
        "FQ-CoDel" => QueueConfig::FqCoDel(FqCoDelConfig {
            limit,
            flows: buckets,
            ..FqCoDelConfig::default()
        }),
        "SFQ" => QueueConfig::Sfq(SfqConfig {
            limit,
            flows: buckets,
            ..SfqConfig::default()
        }),
        _ => QueueConfig::Drr(DrrConfig {
            limit,
            flows: buckets,
            ..DrrConfig::default()
        }),
    }
}

const OVERFLOWS: [(&str, u32); 12] = [
    ("FQ-CoDel", 16),
    ("FQ-CoDel", 256),
    ("FQ-CoDel", 4_096),
    ("FQ-CoDel", 65_536),
    ("SFQ", 16),
    ("SFQ", 256),
    ("SFQ", 4_096),
    ("SFQ", 65_536),
    ("DRR", 16),
    ("DRR", 256),
    ("DRR", 4_096),
    ("DRR", 65_536),
];

/// Arrivals that each overflow a queue in which so many packets wait, of about as many flows: an
/// attack with random ports. Each makes the queue look for its longest, and empties it.
#[divan::bench(args = OVERFLOWS)]
fn overflow(bencher: Bencher<'_, '_>, (name, flows): (&str, u32)) {
    let mut queue = Queue::new(&full(name, flows), 1);
    let mut sink = Sink::default();
    let mut flow = 0u64;
    let mut arrive = |queue: &mut Queue<Segment>| {
        flow += 1;
        let segment = Segment {
            flow,
            ecn: Ecn::NotEct,
            _rest: [0; 6],
        };
        queue.enqueue(Time::ZERO, segment, &mut sink);
        sink.dropped.clear();
    };
    for _ in 0..2 * flows {
        arrive(&mut queue);
    }
    bencher.counter(ItemsCount::new(PACKETS)).bench_local(|| {
        for _ in 0..PACKETS {
            arrive(&mut queue);
        }
    });
}
