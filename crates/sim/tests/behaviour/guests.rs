//! Senders behind a box at their host's edge: the box of `fairwater_edge` sees their packets as bytes.

use std::time::Duration;

use fairwater_net::{Jitter, LossConfig, Probability, QueueConfig, RedConfig, Time};
use fairwater_sim::{
    Controller, Ecn, EdgeTreatment, Experiment, FlowConfig, FlowOutcome, Native, Outcome,
    TcpConfig, Traffic, run,
};

use crate::support::{BOTTLENECK, Dumbbell, jain, plane, rate};

/// vCC figure 11: senders over a bottleneck of 10 Mbit/s with RED1, 1 ms of round trip.
fn shared(flows: Vec<FlowConfig>, seed: u64, seconds: f64) -> Experiment {
    let mut network = Dumbbell::new(10, 1, seconds);
    network.flows = flows;
    let mut config = network.warm_config(seed, 0.15);
    config.edges[BOTTLENECK].link.queue = QueueConfig::Red(RedConfig::vcc_red1(rate(10)));
    // The last flow's SYN comes before there is a queue that drops it: a box offers ECN with the first SYN only.
    let (_, others) = config.flows.split_last_mut().unwrap();
    for flow in others {
        flow.start = Time::from_millis(50);
        flow.start_jitter = Duration::from_millis(500);
    }
    config
}

fn sender(native: Native, ecn: Ecn) -> FlowConfig {
    let network = Dumbbell::new(10, 1, 1.0).native(native);
    let mut flow = network.flows.into_iter().next().unwrap();
    flow.tcp.ecn = ecn;
    flow
}

fn ecn_reno() -> FlowConfig {
    sender(Native::Reno, Ecn::Classic)
}

fn behind(algorithm: &str, ecn: bool, guest: FlowConfig) -> FlowConfig {
    FlowConfig {
        edge: Some(EdgeTreatment {
            algorithm: algorithm.to_owned(),
            ecn,
            police: false,
            max_scale: Some(3),
            ..EdgeTreatment::default()
        }),
        ..guest
    }
}

/// Of nine ECN flows, and of the last beside them: the last one's share of the others' mean.
fn share(outcome: &Outcome) -> f64 {
    let (last, others) = outcome.flows.split_last().unwrap();
    let mean = others.iter().map(|flow| flow.delivered_bytes).sum::<u64>() as f64;
    last.delivered_bytes as f64 / (mean / others.len() as f64)
}

fn beside_nine(last: &FlowConfig, seed: u64) -> Outcome {
    let mut flows = vec![ecn_reno(); 9];
    flows.push(last.clone());
    run(&shared(flows, seed, 30.0), plane(&["reno"]), &mut ()).unwrap()
}

/// vCC §3.3, figure 11: a guest without ECN starves beside flows with it, and does not once the box speaks ECN for
/// it; then nothing is sent again.
#[test]
fn a_guest_for_which_the_box_speaks_ecn_gets_its_share() {
    for seed in [1, 2, 3] {
        let starved = beside_nine(&sender(Native::Reno, Ecn::Off), seed);
        assert!(share(&starved) < 0.5, "{}", share(&starved));

        let guest = behind("reno", true, sender(Native::Reno, Ecn::Off));
        let outcome = beside_nine(&guest, seed);
        let share = share(&outcome);
        assert!(jain(&outcome) > 0.99, "seed {seed}: {}", jain(&outcome));
        assert!((0.8..1.2).contains(&share), "seed {seed}: {share}");
        let last = outcome.flows.last().unwrap();
        assert_eq!((last.retransmissions, last.timeouts), (0, 0), "seed {seed}");
        assert!(last.marked > 0 && last.fallback.is_none());
        let [(_, edge)] = outcome.host_edges[..] else {
            panic!("{:?}", outcome.host_edges);
        };
        assert_eq!((edge.controlled, edge.exempt, edge.ignored), (1, 0, 0));
    }
}

/// One Cubic guest on 48 Mbit/s and 20 ms, with a buffer of one BDP: 80 segments.
fn alone(edge: Option<EdgeTreatment>, seconds: f64) -> Experiment {
    let mut network = Dumbbell::new(48, 20, seconds).native(Native::Cubic);
    network.flows[0].edge = edge;
    let mut config = network.warm_config(1, 0.2);
    config.measure.interval = Some(Duration::from_millis(10));
    config
}

fn treated(algorithm: &str, max_scale: Option<u8>) -> Option<EdgeTreatment> {
    Some(EdgeTreatment {
        algorithm: algorithm.to_owned(),
        ecn: false,
        police: true,
        max_scale,
        ..EdgeTreatment::default()
    })
}

fn run_alone(config: &Experiment) -> Outcome {
    let algorithms = ["constant:cwnd=20", "reno", "bbr"];
    run(config, plane(&algorithms), &mut ()).unwrap()
}

/// Most segments in flight at any sample from `from_s` to `to_s`, of the first flow.
fn most_in_flight(outcome: &Outcome, from_s: f64, to_s: f64) -> u64 {
    most_of_flow(&outcome.flows[0], from_s, to_s)
}

fn most_of_flow(flow: &FlowOutcome, from_s: f64, to_s: f64) -> u64 {
    let samples = flow.samples.iter();
    let within = samples.filter(|sample| (from_s..to_s).contains(&sample.at.as_secs_f64()));
    within.map(|sample| sample.in_flight / 1448).max().unwrap()
}

/// Mystique §3.3: the guest sends what the algorithm at the edge allows, whatever its own one would.
#[test]
fn a_guest_keeps_to_the_window_of_the_algorithm_at_the_edge() {
    let free = run_alone(&alone(None, 10.0));
    assert!(most_in_flight(&free, 2.0, 10.0) > 100);
    for max_scale in [None, Some(3), Some(0)] {
        let held = run_alone(&alone(treated("constant", max_scale), 10.0));
        assert_eq!(most_in_flight(&held, 2.0, 10.0), 20, "{max_scale:?}");
        let expected = 20.0 * 1448.0 / 0.020 * 8.0;
        let share = held.flows[0].delivered_bytes as f64 / expected;
        assert!((0.97..=1.0).contains(&share), "{max_scale:?}: {share}");
        assert_eq!(held.flows[0].retransmissions, 0);
        assert_eq!(held.host_edges[0].1.policed, 0, "it obeys");
    }
    // Both fill the link, and BBR keeps the queue short.
    let delay_us = |outcome: &Outcome| outcome.edges[BOTTLENECK].queueing_us.unwrap().p50;
    for (algorithm, longest) in [("reno", 2.0), ("bbr", 0.6)] {
        let held = run_alone(&alone(treated(algorithm, Some(3)), 20.0));
        let utilisation = held.edges[BOTTLENECK].utilisation;
        assert!(utilisation > 0.9, "{algorithm}: {utilisation}");
        let (held_us, free_us) = (delay_us(&held), delay_us(&free));
        assert!(
            held_us < longest * free_us,
            "{algorithm}: {held_us}, {free_us}"
        );
        assert!(held.flows[0].fallback.is_none());
    }
}

/// vCC §4, figure 12: two flows divide the sum of their windows, 1:3, while the preferred one sends; after that the
/// other has its own window again.
#[test]
fn guests_of_one_host_divide_their_windows_by_weight() {
    let behind = |weight| {
        let treatment = treated("constant", Some(3)).unwrap();
        Some(EdgeTreatment {
            weight,
            ..treatment
        })
    };
    for (weights, parts) in [([Some(1), Some(3)], (10, 30)), ([Some(1), None], (20, 20))] {
        let mut config = alone(None, 12.0);
        config.flows.push(config.flows[0].clone());
        for (flow, weight) in config.flows.iter_mut().zip(weights) {
            flow.edge = behind(weight);
        }
        config.flows[1].start = Time::from_millis(4_000);
        config.flows[1].stop = Some(Time::from_millis(8_000));
        let outcome = run_alone(&config);
        let [other, preferred] = &outcome.flows[..] else {
            panic!("two flows");
        };
        assert_eq!(most_of_flow(other, 2.0, 4.0), 20, "alone");
        let of_both = [other, preferred].map(|flow| most_of_flow(flow, 4.3, 8.0));
        assert_eq!(of_both, [parts.0, parts.1], "{weights:?}");
        assert_eq!(most_of_flow(other, 8.3, 12.0), 20, "alone again");
        assert_eq!(most_of_flow(preferred, 8.3, 12.0), 0);
        assert_eq!(other.retransmissions + preferred.retransmissions, 0);
    }
}

/// Without its plane the box steps aside: the guest is as it would be, and is limited again afterwards.
#[test]
fn a_guest_is_released_while_the_plane_is_silent_and_its_traffic_goes_on() {
    let mut config = alone(treated("constant", Some(3)), 20.0);
    let second = |s: u64| Time::from_millis(1000 * s);
    config.plane.outages = vec![(second(6), second(12))];
    config.plane.silence = Duration::from_millis(500);
    let outcome = run_alone(&config);
    assert_eq!(most_in_flight(&outcome, 4.0, 6.4), 20);
    assert!(most_in_flight(&outcome, 8.0, 12.0) > 100);
    assert_eq!(most_in_flight(&outcome, 14.0, 20.0), 20);
    let fallback = outcome.flows[0].fallback.unwrap();
    assert!((0.3..0.4).contains(&fallback.share) && !fallback.is_for_good);
    let samples = &outcome.flows[0].samples;
    let stalled = samples[400..]
        .windows(20)
        .filter(|window| window.iter().all(|sample| sample.delivered_bytes == 0));
    assert_eq!(stalled.count(), 0, "nothing for 200 ms");
    assert!(outcome.fallbacks == 1);
}

/// vCC §2 and RFC 3168 §6.1.1: who speaks ECN itself is left alone, and then the box changes nothing at all.
#[test]
fn a_guest_with_ecn_of_its_own_passes_as_if_there_were_no_box() {
    let native = beside_nine(&ecn_reno(), 7);
    let behind = beside_nine(&behind("reno", true, ecn_reno()), 7);
    assert_eq!(native.flows, behind.flows);
    assert_eq!(native.edges, behind.edges);
    let edge = behind.host_edges[0].1;
    assert_eq!((edge.controlled, edge.exempt, edge.ignored), (0, 1, 0));
}

/// A SYN that is lost and sent again opens the connection all the same, to the box too.
#[test]
fn a_guest_whose_first_syn_is_lost_is_controlled_all_the_same() {
    let mut network = Dumbbell::new(48, 20, 10.0).native(Native::Reno);
    network.flows[0].edge = Some(EdgeTreatment {
        ecn: true,
        ..treated("constant", Some(3)).unwrap()
    });
    let mut lost = 0;
    for seed in 0..8 {
        let mut config = network.config(seed);
        config.edges[BOTTLENECK].link.loss = LossConfig::Random(Probability::percent(30));
        config.measure.interval = Some(Duration::from_millis(100));
        let outcome = run_alone(&config);
        let began = outcome.flows[0].samples.iter().find(|s| s.in_flight > 0);
        lost += u32::from(began.is_some_and(|sample| sample.at >= Time::from_millis(1000)));
        let edge = outcome.host_edges[0].1;
        assert_eq!((edge.controlled, edge.exempt), (1, 0));
        assert!(most_in_flight(&outcome, 0.0, 10.0) <= 20);
    }
    assert!(lost > 0, "some first SYN was lost");
}

/// Requests over a path that loses and reorders: every byte arrives, once, of every connection.
#[test]
fn requests_of_guests_are_answered_in_full_over_a_lossy_path() {
    let ask = |count| Traffic::PingPong {
        bytes: 50_000,
        think: Duration::from_millis(5),
        count: Some(count),
    };
    for (algorithm, max_scale) in [("reno", Some(3)), ("bbr", None), ("constant", Some(0))] {
        let mut network = Dumbbell::new(24, 20, 60.0);
        for native in [Native::Cubic, Native::Reno] {
            network = network.flow(Controller::Native(native), ask(40));
        }
        for flow in &mut network.flows {
            flow.edge = treated(algorithm, max_scale);
        }
        network.flows[1].tcp.sack = false;
        network.loss_per_mille = 20;
        let mut config = network.config(3);
        config.edges[BOTTLENECK].link.jitter = Some(Jitter {
            max: Duration::from_millis(2),
            reorders: true,
        });
        let outcome = run_alone(&config);
        for flow in &outcome.flows {
            assert_eq!(
                (flow.requests.len(), flow.unfinished),
                (40, 0),
                "{algorithm}"
            );
            assert_eq!(flow.delivered_bytes, 40 * 50_000, "{algorithm}");
        }
        let statistics: Vec<_> = outcome.host_edges.iter().map(|(_, edge)| *edge).collect();
        for edge in statistics {
            assert_eq!((edge.controlled, edge.policed, edge.full), (1, 0, 0));
            assert_eq!(edge.unreadable.iter().sum::<u64>(), 0);
        }
    }
}

/// A guest that answers losses itself sends less than the algorithm at the edge allows: what is delivered then says
/// nothing of the path, and an algorithm that measures rates must not take the window away that the guest would grow
/// into.
#[test]
fn a_guest_that_holds_itself_back_is_not_held_back_more() {
    let mut ratios = Vec::new();
    for seed in 1..=5 {
        let took_s = |edge| {
            let mut network = Dumbbell::new(50, 48, 300.0).flow(
                Controller::Native(Native::Cubic),
                Traffic::Bytes(10_000_000),
            );
            network.flows[0].edge = edge;
            network.loss_per_mille = 10;
            let outcome = run_alone(&network.config(seed));
            let [request] = outcome.flows[0].requests.as_slice() else {
                panic!("seed {seed}: not done: {:?}", outcome.flows[0]);
            };
            request.took.as_secs_f64()
        };
        ratios.push(took_s(treated("bbr", Some(7))) / took_s(None));
    }
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    assert!(mean < 1.1, "{ratios:?}");
}

#[test]
fn the_same_seed_gives_the_same_outcome_and_another_one_other_numbers() {
    let guest = behind("reno", true, sender(Native::Cubic, Ecn::Off));
    let [first, again, other] = [5, 5, 6].map(|seed| beside_nine(&guest, seed));
    assert_eq!(first, again);
    assert_ne!(first, other);
}

/// All mistakes of a flow behind an edge are told at once.
#[test]
fn what_cannot_be_behind_an_edge_is_refused() {
    let mut network = Dumbbell::new(10, 20, 1.0).plane("reno");
    network.flows[0].edge = Some(EdgeTreatment {
        algorithm: "unknown".to_owned(),
        ecn: true,
        police: false,
        max_scale: Some(15),
        weight: Some(0),
        ..EdgeTreatment::default()
    });
    network.flows[0].tcp = TcpConfig {
        ecn: Ecn::Dctcp,
        handshake: false,
        ..TcpConfig::default()
    };
    let refused = run(&network.config(1), plane(&["reno"]), &mut ()).unwrap_err();
    let refused = refused.to_string();
    for wrong in [
        "behind an edge, the flow's own congestion control is a native one",
        "behind an edge, the flow's own ECN is `off` or `classic`",
        "behind an edge, a flow needs the handshake",
        "a window scale is 14 at most",
        "a weight is 1 at least",
        "the plane has no algorithm `unknown`",
    ] {
        assert!(refused.contains(wrong), "{wrong}: {refused}");
    }
}

/// More than 2³² bytes: sequence numbers wrap, and with them what the box remembers, wherever they begin.
#[test]
fn sequence_numbers_of_guests_wrap() {
    let bytes = (1_u64 << 32) + 100_000_000;
    let mut network = Dumbbell::new(40_000, 1, 5.0)
        .flow(Controller::Native(Native::Cubic), Traffic::Bytes(bytes));
    network.flows[0].tcp.mss = 65_000;
    network.flows[0].edge = treated("constant", Some(8));
    let mut config = network.config(1);
    config.measure.interval = Some(Duration::from_millis(10));
    let outcome = run_alone(&config);
    let flow = &outcome.flows[0];
    assert_eq!((flow.delivered_bytes, flow.requests.len()), (bytes, 1));
    assert_eq!((flow.retransmissions, flow.timeouts), (0, 0));
    let most = flow.samples.iter().map(|sample| sample.in_flight / 65_000);
    assert_eq!(most.max(), Some(20));
    let edge = outcome.host_edges[0].1;
    assert_eq!((edge.controlled, edge.ignored, edge.policed), (1, 0, 0));
}
