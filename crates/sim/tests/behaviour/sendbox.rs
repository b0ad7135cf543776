//! Boxes around a bundle of flows.

use std::time::Duration;

use fairwater_net::{Limit, LossConfig, Probability, QueueConfig, SfqConfig, Time};
use fairwater_sim::{
    Balancing, BoxError, BundleConfig, BundleMode, ConfigError, EdgeId, EdgeOutcome, Experiment,
    Native, Outcome, Path, SendboxSample, Simulation, Traffic, check, run,
};

use crate::support::{BOTTLENECK, Dumbbell, plane, rate};

/// The algorithm's name, and how the plane hosts it: its competitive mode is for single flows.
const COPA: &str = "copa";
const COPA_SPEC: &str = "copa:mode=default";

const RTT: Duration = Duration::from_millis(50);

/// Four flows of Cubic through a bottleneck of 96 Mbit/s and 50 ms with a buffer of two bandwidth-delay products,
/// measured from 5 s on.
fn site(seed: u64, algorithm: Option<&str>) -> Experiment {
    let mut network = Dumbbell::new(96, 50, 20.0);
    network.limit = Limit::Bytes(rate(96).bytes_in(2 * RTT));
    for _ in 0..4 {
        network = network.native(Native::Cubic);
    }
    for flow in &mut network.flows {
        flow.bundle = Some("site".to_owned());
    }
    let mut config = network.warm_config(seed, 0.25);
    config.measure.interval = Some(Duration::from_millis(100));
    config
        .bundles
        .extend(algorithm.map(|algorithm| BundleConfig {
            name: "site".to_owned(),
            at: EdgeId(BOTTLENECK as u32),
            algorithm: algorithm.to_owned(),
            queue: QueueConfig::Sfq(SfqConfig {
                limit: Limit::Bytes(rate(96).bytes_in(4 * RTT)),
                ..SfqConfig::default()
            }),
            queue_time: Duration::from_millis(250),
            observe: false,
            detect: true,
        }));
    config
}

fn outcome(config: &Experiment) -> Outcome {
    run(config, plane(&[COPA_SPEC, "basicdelay"]), &mut ()).unwrap()
}

/// Mean queueing delay of the network, ms.
fn network_ms(outcome: &Outcome) -> f64 {
    outcome.edges[BOTTLENECK].queueing_us.unwrap().mean / 1e3
}

/// The edge of the way back.
const BACK: usize = 1;

/// Bytes/s of the bottleneck.
const CAPACITY: f64 = 96e6 / 8.0;

#[test]
fn the_queue_moves_to_the_sendbox() {
    let before = outcome(&site(1, None));
    assert!(network_ms(&before) > 30.0, "{}", network_ms(&before));
    assert!(before.sendboxes.is_empty());
    for seed in 1..=2 {
        let outcome = outcome(&site(seed, Some(COPA)));
        let sendbox = &outcome.sendboxes[0];
        assert_eq!(sendbox.bundle, "site");
        let network = network_ms(&outcome);
        let at_site = sendbox.queue.queueing_us.unwrap().mean / 1e3;
        let used = outcome.edges[BOTTLENECK].utilisation;
        println!("seed {seed}: {network:.2} and {at_site:.2} ms, {used:.4} used");
        assert!(network <= 5.0);
        assert!(at_site >= 9.0 * network);
        assert!(used >= 0.95);
        // It is measured, then taken over, for good.
        assert_eq!(sendbox.changes.len(), 1, "{:?}", sendbox.changes);
        assert!(sendbox.changes[0].1.contains("measure to control"));
    }
}

/// A bundle's rates are of a round trip: with those of single reports a third of the link stayed unused.
#[test]
fn basicdelay_holds_its_target_and_fills_the_link() {
    let outcome = outcome(&site(1, Some("basicdelay")));
    let network = network_ms(&outcome);
    let used = outcome.edges[BOTTLENECK].utilisation;
    println!("{network:.2} ms, {used:.4} used");
    assert!((2.0..3.5).contains(&network) && used > 0.98);
}

/// From 96 to 24 Mbit/s at 10 s.
#[test]
fn copa_drains_the_queue_of_a_fall_to_a_quarter_of_the_capacity() {
    let mut config = site(1, Some(COPA));
    let steps = vec![
        (Time::ZERO, rate(96)),
        (Time::from_millis(10_000), rate(24)),
    ];
    let schedule = fairwater_net::RateSchedule::new(steps).unwrap();
    config.edges[BOTTLENECK].link.capacity =
        fairwater_net::Capacity::Schedule(std::sync::Arc::new(schedule));
    config.measure.from = Time::from_millis(12_000);
    let outcome = outcome(&config);
    let network = network_ms(&outcome);
    let used = outcome.edges[BOTTLENECK].utilisation;
    println!("{network:.2} ms, {used:.4} used");
    assert!(network < 5.0 && used > 0.95);
}

#[test]
fn estimates_are_near_the_truth() {
    let config = site(3, Some(COPA));
    let outcome = outcome(&config);
    let sendbox = &outcome.sendboxes[0];
    assert_eq!(sendbox.samples.len(), 200);
    let truth = &outcome.edges[BOTTLENECK].bundles[0].samples;
    let settled = sendbox.samples.iter().zip(truth).skip(100);
    let mut off = 0;
    for (guess, truth) in settled {
        assert_eq!(guess.at, truth.at);
        assert_eq!(guess.mode, BundleMode::Control);
        assert!(guess.min_rtt.unwrap() >= RTT);
        assert!(guess.min_rtt.unwrap() < RTT + Duration::from_millis(2));
        // What is sent leaves the bottleneck in the same interval, but for the RTT in which it is known.
        let rate = truth.bytes as f64 * 10.0;
        let is_off = (guess.receive_rate.unwrap() - rate).abs() > 0.1 * CAPACITY;
        off += u32::from(is_off);
    }
    assert!(off <= 10, "{off} of 100 rates are off by more than a tenth");
}

#[test]
fn what_arrives_leaves_waits_or_is_dropped() {
    let mut config = site(4, Some(COPA));
    // A queue that overflows.
    config.bundles[0].queue = QueueConfig::DropTail(Limit::Bytes(100_000));
    let outcome = outcome(&config);
    let queue = &outcome.sendboxes[0].queue;
    assert!(queue.dropped > 0);
    assert_eq!(
        queue.offered + queue.queued_before,
        queue.packets + queue.dropped + queue.queued_after
    );
    // All that the sendbox let out came to the bottleneck; some waits there at either end.
    let bundle = &outcome.edges[BOTTLENECK].bundles[0];
    let came = bundle.packets + bundle.dropped;
    assert!(
        came.abs_diff(queue.packets) < 800,
        "{came} {}",
        queue.packets
    );
}

#[test]
fn runs_are_equal_and_seeds_differ() {
    let mut config = site(5, Some(COPA));
    config.duration = Duration::from_secs(6);
    let first = outcome(&config);
    assert_eq!(outcome(&config), first);
    let mut stepped = Simulation::new(&config, plane(&[COPA_SPEC]), ()).unwrap();
    for ms in (0..6_000).step_by(170) {
        stepped.step_until(Time::from_millis(ms)).unwrap();
        assert!(stepped.sendbox("site").is_some());
    }
    assert!(stepped.sendbox("town").is_none());
    assert_eq!(stepped.finish().unwrap(), first);
    config.seed = 6;
    assert_ne!(outcome(&config).sendboxes, first.sendboxes);
}

#[test]
fn a_dead_plane_releases_the_bundle_until_it_is_back() {
    let mut config = site(7, Some(COPA));
    config.plane.outages = vec![(Time::from_millis(8_000), Time::from_millis(12_000))];
    let outcome = outcome(&config);
    let mode_at = |ms| {
        let samples = &outcome.sendboxes[0].samples;
        let at = |sample: &&SendboxSample| sample.at == Time::from_millis(ms);
        let sample = samples.iter().find(at).unwrap();
        (sample.mode, sample.rate)
    };
    let changes = &outcome.sendboxes[0].changes;
    assert_eq!(mode_at(7_900).0, BundleMode::Control);
    for ms in [10_500, 11_900] {
        let (mode, rate) = mode_at(ms);
        assert_ne!(mode, BundleMode::Control, "{changes:?}");
        assert_eq!(rate, None, "{changes:?}");
    }
    assert_eq!(mode_at(20_000).0, BundleMode::Control, "{changes:?}");
    // The bundle goes on meanwhile.
    let bytes = outcome.edges[BOTTLENECK].samples[80..120].iter();
    let bytes: u64 = bytes.map(|sample| sample.bytes).sum();
    assert!(bytes as f64 > 0.9 * 4.0 * CAPACITY, "{bytes}");
}

#[test]
fn a_box_that_observes_adds_messages_alone() {
    let mut config = site(8, Some(COPA));
    config.bundles[0].observe = true;
    let (observed, without) = (outcome(&config), outcome(&site(8, None)));
    let share = network_ms(&observed) / network_ms(&without);
    assert!((0.98..1.02).contains(&share), "{share}");
    for (edge, most) in [(BOTTLENECK, 200), (BACK, 20_000)] {
        let (with, without) = (&observed.edges[edge], &without.edges[edge]);
        let sent = |edge: &EdgeOutcome| edge.packets - edge.bundles[0].packets;
        assert_eq!(sent(without), 0);
        assert!((1..most).contains(&sent(with)), "{}", sent(with));
    }
    let sendbox = &observed.sendboxes[0];
    assert_eq!(sendbox.queue.queueing_us.unwrap().mean, 0.0);
    let rtt = sendbox.samples.last().unwrap().rtt.unwrap();
    assert!(rtt > RTT + Duration::from_millis(30), "{rtt:?}");
}

/// Feedback that is lost on its way makes longer epochs.
#[test]
fn the_queue_moves_though_feedback_is_lost() {
    let mut config = site(11, Some(COPA));
    config.edges[BACK].link.loss = LossConfig::Random(Probability::from_ppb(100_000_000).unwrap());
    let outcome = outcome(&config);
    assert!(outcome.edges[BACK].lost > 0);
    let sendbox = &outcome.sendboxes[0];
    assert_eq!(sendbox.changes.len(), 1, "{:?}", sendbox.changes);
    assert!(network_ms(&outcome) < 5.0, "{}", network_ms(&outcome));
    assert!(sendbox.queue.queueing_us.unwrap().mean > 30_000.0);
}

#[test]
fn udp_packets_pass_the_boxes() {
    let mut network = Dumbbell::new(96, 50, 10.0);
    for _ in 0..2 {
        let traffic = Traffic::ConstantRate {
            rate: 4_000_000,
            packet_bytes: 1_200,
        };
        network = network.flow(fairwater_sim::Controller::Native(Native::Reno), traffic);
    }
    let mut config = network.config(9);
    config.bundles = site(9, Some(COPA)).bundles;
    for flow in &mut config.flows {
        flow.bundle = Some("site".to_owned());
    }
    config.measure.interval = Some(Duration::from_millis(100));
    let outcome = outcome(&config);
    let sendbox = &outcome.sendboxes[0];
    let sample = sendbox.samples.last().unwrap();
    assert_eq!(sample.mode, BundleMode::Control, "{:?}", sendbox.changes);
    let rate = sample.receive_rate.unwrap();
    assert!((rate - 8e6).abs() < 4e5, "{rate}");
    // No traffic is held that the path carries.
    assert!(sendbox.queue.queueing_us.unwrap().p95 < 5_000.0);
}

#[test]
fn packets_on_parallel_paths_release_the_bundle() {
    let mut config = site(10, Some(COPA));
    // A second bottleneck, 20 ms longer, behind a node of its own.
    let node = config.nodes;
    config.nodes += 2;
    let mut add = |from, to, delay_ms| {
        let mut edge = config.edges[BOTTLENECK].clone();
        edge.name = format!("{from}-{to}");
        (edge.from, edge.to) = (fairwater_sim::NodeId(from), fairwater_sim::NodeId(to));
        edge.link.delay = Duration::from_millis(delay_ms);
        config.edges.push(edge);
        EdgeId(u32::try_from(config.edges.len()).unwrap() - 1)
    };
    // The bottleneck of before is the way to the node where paths part.
    let (a, b) = (add(1, node, 5), add(1, node, 40));
    let home = add(node, 1, 5);
    let _ = home;
    for (index, flow) in config.flows.iter_mut().enumerate() {
        let access = |there: u32| EdgeId(2 + 4 * index as u32 + there);
        flow.to = fairwater_sim::NodeId(node);
        let forward = |way| vec![access(0), EdgeId(BOTTLENECK as u32), way];
        let back = vec![home, EdgeId(1), access(1)];
        flow.path = Path::Along {
            forward: vec![forward(a), forward(b)],
            reverse: vec![back.clone(), back],
            balancing: Balancing::PerFlow,
        };
    }
    config.nodes -= 1;
    let outcome = outcome(&config);
    let changes = &outcome.sendboxes[0].changes;
    let is_released = |(_, text): &(Time, String)| text.contains("out of order");
    assert!(changes.iter().any(is_released), "{changes:?}");
}

#[test]
fn boxes_that_cannot_be_are_named() {
    let errors_of = |change: fn(&mut Experiment)| {
        let mut config = site(1, Some(COPA));
        change(&mut config);
        let errors = check(&config).unwrap_err().errors;
        let errors = errors.into_iter().map(|error| match error {
            ConfigError::Bundle { error, .. } => error,
            other => panic!("{other}"),
        });
        errors.collect::<Vec<_>>()
    };
    assert_eq!(
        errors_of(|config| config.bundles[0].at = EdgeId(99)),
        [BoxError::UnknownEdge(EdgeId(99))]
    );
    assert_eq!(
        errors_of(|config| config.bundles.push(config.bundles[0].clone())),
        [BoxError::Twice]
    );
    assert_eq!(
        errors_of(|config| config.bundles[0].name = "town".to_owned()),
        [BoxError::NoFlow]
    );
    assert_eq!(
        errors_of(|config| config.bundles[0].at = EdgeId(1)),
        [BoxError::Bypass("flow 0".to_owned())]
    );
    assert_eq!(
        errors_of(|config| config.bundles[0].queue_time = Duration::ZERO),
        [BoxError::NoTime]
    );
    let config = site(1, Some("nobody"));
    let errors = Simulation::new(&config, plane(&[COPA_SPEC]), ())
        .unwrap_err()
        .errors;
    assert!(
        errors[0].to_string().contains("no algorithm `nobody`"),
        "{errors:?}"
    );
}
