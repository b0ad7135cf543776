//! Whatever the network and the traffic: it ends, nothing panics, nothing is delivered that was
//! not sent, and the same comes out twice.
//!
//! A failure prints the case and a line for `proptest-regressions`; with that line in place the
//! case runs first. `PROPTEST_CASES` runs more.

use std::sync::Arc;
use std::time::Duration;

use fairwater_net::{
    Capacity, CoDelConfig, DrrConfig, FqCoDelConfig, Jitter, Limit, LinkConfig, LossConfig,
    PieConfig, PriorityConfig, Probability, QueueConfig, Rate, RateSchedule, Reordering, SfqConfig,
    StepConfig, Time, WdrrConfig,
};
use fairwater_sim::{
    Balancing, Controller, Ecn, EdgeId, Experiment, FlowConfig, Measure, Native, NodeId, Outcome,
    Path, PlaneConfig, SizeCdf, TcpConfig, Traffic, run,
};
use proptest::prelude::*;

use crate::support::{edge, plane};

fn ms(most: u64) -> impl Strategy<Value = Duration> {
    (0..=most * 1000).prop_map(Duration::from_micros)
}

fn capacity() -> impl Strategy<Value = Capacity> {
    let rate = (100_000..100_000_000u64).prop_map(|bps| Rate::from_bps(bps).unwrap());
    prop_oneof![
        6 => rate.clone().prop_map(Capacity::Rate),
        1 => (rate, 1_500..100_000u64)
            .prop_map(|(rate, burst_bytes)| Capacity::token_bucket(rate, burst_bytes)),
        1 => steps().prop_map(Capacity::Schedule),
        1 => (steps(), 1_500..100_000u64)
            .prop_map(|(fill, burst_bytes)| Capacity::TokenBucket { fill, burst_bytes }),
        1 => Just(Capacity::Unlimited),
    ]
}

fn steps() -> impl Strategy<Value = Arc<RateSchedule>> {
    let later = prop::collection::btree_map(1..2_000u64, 100_000..100_000_000u64, 0..4);
    (100_000..100_000_000u64, later).prop_map(|(first, later)| {
        let steps = std::iter::once((0, first)).chain(later);
        let steps = steps.map(|(ms, bps)| (Time::from_millis(ms), Rate::from_bps(bps).unwrap()));
        Arc::new(RateSchedule::new(steps.collect()).unwrap())
    })
}

fn queue() -> impl Strategy<Value = QueueConfig> {
    let limit = prop_oneof![
        (1..100u64).prop_map(Limit::Packets),
        (1_000..200_000u64).prop_map(Limit::Bytes),
        Just(Limit::Unlimited),
    ];
    let marking = (limit.clone(), 1..50u64).prop_map(|(limit, packets)| {
        QueueConfig::Step(StepConfig {
            limit,
            threshold: Limit::Packets(packets),
        })
    });
    let prioritised = prop::collection::vec(limit.clone().prop_map(QueueConfig::DropTail), 1..3);
    let weighted = (prioritised.clone(), 1..5u32, limit.clone());
    let weighted = weighted.prop_map(|(classes, weight, limit)| {
        QueueConfig::Wdrr(WdrrConfig {
            weights: (weight..).take(classes.len()).collect(),
            classes,
            quantum_bytes: 1500,
            limit,
        })
    });
    prop_oneof![
        4 => limit.clone().prop_map(QueueConfig::DropTail),
        1 => marking,
        1 => (prioritised, limit).prop_map(|(classes, limit)| {
            QueueConfig::Priority(PriorityConfig { classes, limit })
        }),
        1 => weighted,
        1 => prop_oneof![
            Just(QueueConfig::CoDel(CoDelConfig::default())),
            Just(QueueConfig::FqCoDel(FqCoDelConfig::default())),
            Just(QueueConfig::Sfq(SfqConfig::default())),
            Just(QueueConfig::Drr(DrrConfig::default())),
            Just(QueueConfig::Pie(PieConfig::default())),
        ],
    ]
}

fn link_config() -> impl Strategy<Value = LinkConfig> {
    let parts = |most: u32| (0..most).prop_map(|ppb| Probability::from_ppb(ppb).unwrap());
    let loss = prop_oneof![
        3 => Just(LossConfig::None),
        1 => parts(300_000_000).prop_map(LossConfig::Random),
    ];
    let jitter = (ms(20), any::<bool>()).prop_map(|(max, reorders)| Jitter { max, reorders });
    let reordering = (parts(200_000_000), ms(30))
        .prop_map(|(probability, extra)| Reordering { probability, extra });
    let odd = (
        prop::option::weighted(0.2, jitter),
        prop::option::weighted(0.2, reordering),
    );
    (capacity(), queue(), ms(40), loss, odd, any::<u64>()).prop_map(
        |(capacity, queue, delay, loss, (jitter, reordering), seed)| LinkConfig {
            jitter,
            reordering,
            loss,
            seed,
            ..LinkConfig::new(capacity, queue, delay + Duration::from_nanos(1))
        },
    )
}

fn traffic() -> impl Strategy<Value = Traffic> {
    let sizes = SizeCdf {
        points: vec![(0.0, 0.1), (3_000.0, 0.6), (100_000.0, 1.0)],
    };
    let sizes = Arc::new(sizes);
    prop_oneof![
        3 => Just(Traffic::Bulk),
        1 => (1..2_000_000u64).prop_map(Traffic::Bytes),
        1 => (ms(400), ms(400)).prop_map(|(on, off)| Traffic::OnOff {
            on: on + Duration::from_micros(1),
            off: off + Duration::from_micros(1),
        }),
        1 => (1..2_000_000u64).prop_map(|rate| Traffic::Limited { rate }),
        1 => (1_000.0..3e5f64).prop_map(move |load| Traffic::Requests {
            sizes: Arc::clone(&sizes),
            load,
        }),
        1 => (1..100_000u64, ms(100), prop::option::of(0..20u64)).prop_map(
            |(bytes, think, count)| Traffic::PingPong { bytes, think, count },
        ),
    ]
}

fn tcp() -> impl Strategy<Value = TcpConfig> {
    let sizes = (1..9_000u32, 1..40u32, 1..64u64);
    let switches = any::<[bool; 5]>();
    let ecn = prop_oneof![
        Just(Ecn::Off),
        Just(Ecn::Classic),
        Just(Ecn::Dctcp),
        Just(Ecn::Accurate),
    ];
    (sizes, switches, ecn, ms(300), [ms(50), ms(3)]).prop_map(
        |((mss, initial_window, segments), [a, b, c, d, e], ecn, min_rto, delays)| TcpConfig {
            // Tiny segments make many events of few bytes.
            mss: mss.max(200),
            initial_window,
            receive_window: segments * u64::from(mss.max(200)),
            sack: a,
            prr: b,
            pace: c,
            idle_restart: d,
            handshake: e,
            min_rto: min_rto + Duration::from_millis(1),
            delayed_ack: delays[0],
            sack_delay: delays[1],
            ecn,
            ..TcpConfig::default()
        },
    )
}

fn flow() -> impl Strategy<Value = FlowConfig> {
    let controller = prop_oneof![
        2 => Just(Controller::Native(Native::Reno)),
        2 => Just(Controller::Native(Native::Cubic)),
        1 => (1..200_000u64).prop_map(|cwnd| Controller::Native(Native::Constant(cwnd))),
        2 => Just(Controller::Plane("reno".to_owned())),
        2 => Just(Controller::Plane("cubic".to_owned())),
    ];
    let times = (ms(500), ms(200), prop::option::of(ms(1_500)));
    let parallel = prop::option::weighted(0.3, any::<bool>());
    (
        controller,
        traffic(),
        times,
        tcp(),
        0..4u8,
        parallel,
        any::<bool>(),
    )
        .prop_map(
            |(
                controller,
                traffic,
                (start, start_jitter, length),
                tcp,
                priority,
                parallel,
                reverse,
            )| {
                let (from, to) = if reverse { (3, 0) } else { (0, 3) };
                // Both of the middle nodes: see `config`.
                let path = parallel.map_or(Path::Shortest, |each| {
                    let ways =
                        |a: [u32; 2], b: [u32; 2]| vec![a.map(EdgeId).into(), b.map(EdgeId).into()];
                    let (there, back) = (ways([0, 2], [4, 6]), ways([3, 1], [7, 5]));
                    let (forward, reverse) = if reverse {
                        (back, there)
                    } else {
                        (there, back)
                    };
                    Path::Along {
                        forward,
                        reverse,
                        balancing: if each {
                            Balancing::PerPacket
                        } else {
                            Balancing::PerFlow
                        },
                    }
                });
                let start = Time::ZERO + start;
                FlowConfig {
                    name: "any".to_owned(),
                    from: NodeId(from),
                    to: NodeId(to),
                    path,
                    controller,
                    traffic,
                    start,
                    start_jitter,
                    stop: length.map(|length| start + length + Duration::from_nanos(1)),
                    priority,
                    tag: 0,
                    bundle: None,
                    edge: None,
                    tcp,
                }
            },
        )
}

/// A diamond: from 0 to 3 and back, by 1 or by 2.
fn config() -> impl Strategy<Value = Experiment> {
    let links = prop::collection::vec(link_config(), 8);
    let flows = prop::collection::vec(flow(), 1..5);
    let way = (
        ms(10),
        ms(20),
        prop::option::weighted(0.3, (ms(1_000), ms(1_000))),
    );
    let measure = (ms(500), prop::option::of(ms(100)));
    (any::<u64>(), links, flows, way, measure).prop_map(
        |(seed, links, flows, (delay, period, outage), (from, interval))| {
            let ends = [
                (0, 1),
                (1, 0),
                (1, 3),
                (3, 1),
                (0, 2),
                (2, 0),
                (2, 3),
                (3, 2),
            ];
            let edges = ends.into_iter().zip(links);
            Experiment {
                seed,
                duration: Duration::from_secs(2),
                nodes: 4,
                edges: edges
                    .map(|((from, to), link)| edge("any", from, to, link))
                    .collect(),
                flows,
                bundles: Vec::new(),
                plane: PlaneConfig {
                    delay,
                    period,
                    outages: Vec::from_iter(outage.map(|(start, length)| {
                        let start = Time::ZERO + start;
                        (start, start + length + Duration::from_nanos(1))
                    })),
                    silence: Duration::from_millis(50),
                },
                measure: Measure {
                    from: Time::ZERO + from,
                    interval: interval.map(|i| i + Duration::from_millis(1)),
                    capture: Vec::new(),
                    watch: Some(EdgeId(0)),
                    ..Measure::default()
                },
            }
        },
    )
}

fn once(config: &Experiment) -> Outcome {
    run(config, plane(&["reno", "cubic"]), &mut ()).unwrap()
}

/// What is true of any outcome.
fn conserves(config: &Experiment, outcome: &Outcome) -> Result<(), TestCaseError> {
    let whole = config.measure.from == Time::ZERO;
    for (flow, configured) in outcome.flows.iter().zip(&config.flows) {
        if whole {
            prop_assert!(flow.delivered_bytes <= flow.sent_bytes);
        }
        prop_assert!(flow.retransmissions <= flow.segments);
        for request in &flow.requests {
            prop_assert!(request.start >= config.measure.from.max(configured.start));
            prop_assert!(request.start + request.took <= Time::ZERO + config.duration);
            prop_assert!(request.took >= request.ideal, "{request:?}");
        }
        if let (true, Traffic::Bytes(bytes)) = (whole, &configured.traffic) {
            prop_assert!(flow.delivered_bytes <= *bytes);
            prop_assert_eq!(flow.requests.len() as u64 + flow.unfinished, 1);
        }
    }
    for (edge, configured) in outcome.edges.iter().zip(&config.edges) {
        let bursts = matches!(configured.link.capacity, Capacity::TokenBucket { .. });
        // A packet that began before the summaries did counts as a whole.
        prop_assert!(bursts || edge.utilisation < 1.5, "{edge:?}");
        prop_assert!(edge.bytes >= edge.packets * 52);
        let most = f64::from(u32::try_from(config.duration.as_micros()).unwrap());
        prop_assert!(
            edge.queueing_us
                .is_none_or(|delay| delay.p99 <= most * 1.01)
        );
    }
    let passed: u64 = outcome.edges.iter().map(|edge| edge.packets).sum();
    // What has left a bottleneck and is on its way has not passed yet.
    prop_assert!(!whole || outcome.hops <= passed);
    Ok(())
}

proptest! {
    #[test]
    fn any_network_conserves_and_repeats(config in config()) {
        let outcome = once(&config);
        conserves(&config, &outcome)?;
        prop_assert_eq!(format!("{:?}", once(&config)), format!("{outcome:?}"));
    }
}
