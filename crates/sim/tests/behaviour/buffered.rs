//! Guests whose data the box at their host's edge holds, paces and repairs (vCC §2, "Buffer packets"; Mystique §3.3).

use std::sync::Arc;
use std::time::Duration;

use fairwater_edge::select::{Clause, Condition, Measure, SelectorConfig};
use fairwater_net::{Capacity, Jitter, LossConfig, Probability, Rate, RateSchedule, Time};
use fairwater_sim::{
    BoxOutcome, Controller, EdgeMode, EdgeTreatment, Experiment, FlowConfig, Native, Outcome,
    Simulation, Traffic, run,
};
use proptest::prelude::*;

use crate::support::{BOTTLENECK, Dumbbell, plane, rate};

fn held(algorithm: &str) -> Option<EdgeTreatment> {
    Some(EdgeTreatment {
        algorithm: algorithm.to_owned(),
        mode: EdgeMode::Buffer,
        ..EdgeTreatment::default()
    })
}

/// One Cubic guest with one file.
fn transfer(
    (mbit, rtt_ms): (u64, u64),
    bytes: u64,
    seconds: f64,
    edge: Option<EdgeTreatment>,
) -> Dumbbell {
    let mut network = Dumbbell::new(mbit, rtt_ms, seconds)
        .flow(Controller::Native(Native::Cubic), Traffic::Bytes(bytes));
    network.flows[0].edge = edge;
    network
}

const ALGORITHMS: [&str; 5] = ["cubic", "bbr", "hybla", "illinois", "constant:cwnd=20"];

fn run_it(config: &Experiment) -> Outcome {
    let outcome = run(config, plane(&ALGORITHMS), &mut ()).unwrap();
    for (node, done) in &outcome.boxes {
        let faults = (done.early_acks, done.altered_packets);
        assert_eq!(faults, (0, 0), "seed {}, {node:?}: {done:?}", config.seed);
        assert_eq!(done.buffers.corrupt, 0);
    }
    outcome
}

fn took_s(outcome: &Outcome) -> f64 {
    let [request] = outcome.flows[0].requests.as_slice() else {
        panic!("{:?}", outcome.flows[0]);
    };
    request.took.as_secs_f64()
}

fn only(outcome: &Outcome) -> &BoxOutcome {
    let [(_, done)] = outcome.boxes.as_slice() else {
        panic!("{:?}", outcome.boxes);
    };
    done
}

/// Rates from times on, ms.
fn steps(steps: &[(u64, Rate)]) -> Capacity {
    let steps = steps
        .iter()
        .map(|(at_ms, rate)| (Time::from_millis(*at_ms), *rate));
    Capacity::Schedule(Arc::new(RateSchedule::new(steps.collect()).unwrap()))
}

fn kbit(kbit: u64) -> Rate {
    Rate::from_bps(1_000 * kbit).unwrap()
}

/// A box that holds data under the guest's own algorithm costs nothing where nothing is lost.
#[test]
fn without_a_loss_a_held_flow_is_no_slower_than_3_percent() {
    for path in [(50, 35), (50, 180), (10, 20), (200, 10), (5, 300)] {
        for bytes in [100_000, 1_200_000, 20_000_000] {
            let config = |edge| {
                let mut network = transfer(path, bytes, 60.0, edge);
                // Room for all that slow start overshoots by.
                network.limit = fairwater_net::Limit::Unlimited;
                network.config(1)
            };
            let free = took_s(&run_it(&config(None)));
            let outcome = run_it(&config(held("cubic")));
            let through = took_s(&outcome);
            assert!(
                through < 1.03 * free,
                "{path:?} {bytes}: {through} {free} {:?}",
                outcome.boxes
            );
            assert_eq!(only(&outcome).buffers.retransmissions, 0);
            assert_eq!(outcome.flows[0].retransmissions, 0);
        }
    }
}

/// Mystique §3.3: the box repairs losses, and the guest, which does not see them, goes on at the algorithm's pace.
#[test]
fn losses_on_the_path_do_not_slow_a_held_guest_down() {
    for seed in 1..4 {
        let config = |edge| {
            let mut network = transfer((50, 48), 10_000_000, 120.0, edge);
            network.loss_per_mille = 10;
            network.config(seed)
        };
        let free = took_s(&run_it(&config(None)));
        let outcome = run_it(&config(held("bbr")));
        let through = took_s(&outcome);
        assert!(through < 0.2 * free, "seed {seed}: {through} {free}");
        let flow = &outcome.flows[0];
        let again = (flow.retransmissions, flow.timeouts);
        assert_eq!(again, (0, 0), "hidden: {:?}", outcome.boxes);
        assert!(only(&outcome).buffers.retransmissions > 30);
    }
}

/// A path that loses, delays, and puts packets out of order.
#[derive(Debug, Clone)]
struct Rough {
    seed: u64,
    mbit: u64,
    rtt_ms: u64,
    loss_per_mille: u32,
    back_loss_per_mille: u32,
    jitter_ms: u64,
    sack: bool,
    ecn: bool,
    algorithm: &'static str,
    connections: usize,
}

fn rough() -> impl Strategy<Value = Rough> {
    let path = (1_u64..100, 1_u64..150, 0_u32..120, 0_u32..120, 0_u64..20);
    let guest = (
        any::<u64>(),
        any::<bool>(),
        any::<bool>(),
        0..ALGORITHMS.len(),
        1_usize..6,
    );
    (path, guest).prop_map(|(path, (seed, sack, ecn, algorithm, connections))| Rough {
        seed,
        mbit: path.0,
        rtt_ms: path.1,
        loss_per_mille: path.2,
        back_loss_per_mille: path.3,
        jitter_ms: path.4,
        sack,
        ecn,
        algorithm: ["cubic", "bbr", "hybla", "illinois", "constant"][algorithm],
        connections,
    })
}

impl Rough {
    fn config(&self, bytes: u64) -> Experiment {
        let mut network = Dumbbell::new(self.mbit, self.rtt_ms, 600.0);
        for _ in 0..self.connections {
            let ask = Traffic::PingPong {
                bytes,
                think: Duration::from_millis(3),
                count: Some(4),
            };
            network = network.flow(Controller::Native(Native::Cubic), ask);
        }
        for flow in &mut network.flows {
            flow.edge = held(self.algorithm);
            if let Some(edge) = &mut flow.edge {
                edge.ecn = self.ecn;
            }
            flow.tcp.sack = self.sack;
        }
        network.loss_per_mille = self.loss_per_mille;
        let mut config = network.config(self.seed);
        let jitter = (self.jitter_ms > 0).then(|| Jitter {
            max: Duration::from_millis(self.jitter_ms),
            reorders: true,
        });
        config.edges[BOTTLENECK].link.jitter = jitter;
        let back = &mut config.edges[BOTTLENECK + 1].link;
        let lost = Probability::from_ppb(self.back_loss_per_mille * 1_000_000).unwrap();
        back.loss = LossConfig::Random(lost);
        back.jitter = jitter;
        config
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever the path does, receivers get the bytes that were sent, all and no others, and nothing is acknowledged
    /// to a guest before its receiver has it.
    #[test]
    fn all_arrives_as_it_was_sent(rough in rough()) {
        let outcome = run_it(&rough.config(60_000));
        for flow in &outcome.flows {
            prop_assert_eq!(flow.delivered_bytes, 4 * 60_000, "{:?}", outcome);
            prop_assert_eq!((flow.requests.len(), flow.unfinished), (4, 0));
        }
    }
}

/// A path on which packets vanish for seconds: timeouts of the box, and of the guest.
#[test]
fn a_path_that_is_silent_for_seconds_delays_and_loses_nothing() {
    for (seed, algorithm) in [(1, "cubic"), (2, "bbr"), (3, "hybla")] {
        let mut config = transfer((20, 40), 8_000_000, 120.0, held(algorithm)).config(seed);
        let mostly = Probability::percent(70);
        config.edges[BOTTLENECK].link.loss = LossConfig::Random(mostly);
        let dead = run_it(&Experiment {
            duration: Duration::from_secs(10),
            ..config.clone()
        });
        assert!(only(&dead).buffers.timeouts > 0, "{algorithm}: {dead:?}");
        let slow = steps(&[(0, rate(20)), (1_000, kbit(1)), (4_000, rate(20))]);
        config.edges[BOTTLENECK].link.loss = LossConfig::None;
        config.edges[BOTTLENECK].link.capacity = slow;
        let outcome = run_it(&config);
        assert_eq!(outcome.flows[0].delivered_bytes, 8_000_000, "{algorithm}");
        assert_eq!(outcome.flows[0].unfinished, 0, "{algorithm}");
    }
}

/// The box carries what it holds when the guest is gone, and no more; it never said that more had arrived.
#[test]
fn a_guest_that_dies_leaves_what_the_box_holds() {
    for seed in 1..6 {
        let mut network = transfer((20, 60), 50_000_000, 30.0, held("bbr"));
        network.loss_per_mille = 20;
        let config = network.config(seed);
        let mut simulation = Simulation::new(&config, plane(&ALGORITHMS), ()).unwrap();
        simulation.step_until(Time::from_millis(2_000)).unwrap();
        let before = simulation.flow(0).unwrap();
        assert!(simulation.kill(0));
        let outcome = simulation.finish().unwrap();
        let flow = &outcome.flows[0];
        let sent = before.sent_bytes;
        assert_eq!(flow.sent_bytes, sent, "the guest sends nothing more");
        // It was not told of more than a window, so that it had sent no more than that.
        assert!(flow.delivered_bytes > before.delivered_bytes, "seed {seed}");
        assert_eq!(
            flow.delivered_bytes, sent,
            "seed {seed}: all that left it: {:?}",
            outcome.boxes
        );
        let faults = only(&outcome);
        assert_eq!(faults.buffers.returned, [0; 4]);
        assert_eq!((faults.early_acks, faults.altered_packets), (0, 0));
    }
}

#[test]
fn many_guests_of_one_host_are_held_at_once() {
    let mut network = Dumbbell::new(100, 20, 20.0);
    for index in 0..60_u64 {
        let traffic = match index % 3 {
            0 => Traffic::Bytes(1_000_000),
            1 => Traffic::PingPong {
                bytes: 30_000,
                think: Duration::from_millis(10),
                count: Some(20),
            },
            _ => Traffic::Bytes(700 + 13 * index),
        };
        network = network.flow(Controller::Native(Native::Reno), traffic);
    }
    for (flow, index) in network.flows.iter_mut().zip(0..) {
        flow.edge = held(["cubic", "bbr", "illinois"][index % 3]);
        flow.start_jitter = Duration::from_secs(2);
    }
    network.loss_per_mille = 5;
    let mut config = network.config(9);
    // All of one host, and of one box.
    for flow in &mut config.flows {
        (flow.from, flow.to) = (fairwater_sim::NodeId(2), fairwater_sim::NodeId(3));
    }
    let outcome = run_it(&config);
    assert_eq!(only(&outcome).buffers.begun, 60);
    for (flow, config) in outcome.flows.iter().zip(&config.flows) {
        let expected = match config.traffic {
            Traffic::Bytes(bytes) => bytes,
            _ => 20 * 30_000,
        };
        assert_eq!(
            (flow.delivered_bytes, flow.unfinished),
            (expected, 0),
            "{}",
            config.name
        );
    }
    assert_eq!((outcome.fallbacks, outcome.notices.len()), (0, 0));
}

/// In one host, flows of both modes and flows without a box do not disturb each other.
#[test]
fn the_same_seed_gives_the_same_outcome() {
    let config = |seed| {
        let mut network = Dumbbell::new(20, 30, 10.0);
        network.loss_per_mille = 10;
        for edge in [
            held("bbr"),
            None,
            Some(EdgeTreatment {
                mode: EdgeMode::Window,
                ..held("cubic").unwrap()
            }),
        ] {
            network = network.native(Native::Cubic);
            network.flows.last_mut().unwrap().edge = edge;
        }
        let mut config = network.config(seed);
        for flow in &mut config.flows {
            (flow.from, flow.to) = (fairwater_sim::NodeId(2), fairwater_sim::NodeId(3));
        }
        config
    };
    let [first, again, other] = [5, 5, 6].map(|seed| run_it(&config(seed)));
    assert_eq!(first, again);
    assert_ne!(first, other);
    assert!(
        first
            .flows
            .iter()
            .all(|flow| flow.delivered_bytes > 100_000)
    );
}

fn selecting(hold: Duration) -> Option<EdgeTreatment> {
    let clause = |conditions: &[Condition], algorithm: &str| Clause {
        conditions: conditions.to_vec(),
        algorithm: algorithm.into(),
    };
    let selector = SelectorConfig {
        name: "by delay".into(),
        first: "cubic".into(),
        hold,
        window: Duration::from_secs(2),
        margin: Probability::percent(10),
        least_packets: 0,
        clauses: vec![
            clause(&[Condition::Above(Measure::Rtt, 100_000)], "constant"),
            clause(&[], "cubic"),
        ],
    };
    Some(EdgeTreatment {
        algorithm: "cubic".to_owned(),
        selector: Some(Arc::new(selector)),
        ..held("cubic").unwrap()
    })
}

/// Mystique §3.4: the flow comes under another algorithm as its path changes. Here the path's rate falls, Cubic's queue
/// makes the delay rise, and the flow is under a small window from then on.
#[test]
fn a_selector_switches_a_held_flow_as_its_path_changes() {
    for mode in [EdgeMode::Buffer, EdgeMode::Window] {
        let mut network = Dumbbell::new(48, 20, 12.0).native(Native::Cubic);
        network.flows[0].edge = selecting(Duration::from_secs(60)).map(|edge| EdgeTreatment {
            mode,
            max_scale: Some(7),
            ..edge
        });
        let mut config = network.config(1);
        config.measure.interval = Some(Duration::from_millis(100));
        config.edges[BOTTLENECK].link.capacity = steps(&[(0, rate(48)), (4_000, rate(6))]);
        let outcome = run_it(&config);
        assert_eq!(
            only(&outcome).switches,
            1,
            "{mode:?}: {:?}",
            outcome.notices
        );
        assert_eq!((outcome.fallbacks, outcome.notices.len()), (0, 0));
        let delivered = |from: usize, to: usize| {
            let samples = outcome.flows[0].samples[from..to].iter();
            samples.map(|sample| sample.delivered_bytes).sum::<u64>() as f64
        };
        assert!(delivered(20, 40) > 0.9 * 2.0 * 48e6 / 8.0, "{mode:?}");
        assert!(delivered(100, 120) > 0.9 * 2.0 * 6e6 / 8.0, "{mode:?}");
        // 20 segments of 1500 bytes, of which the path has ten.
        let queue = outcome.edges[BOTTLENECK].samples.last().unwrap();
        assert!(queue.queued_bytes < 25 * 1500, "{mode:?}: {queue:?}");
    }
}

/// What a box cannot do for a flow that it holds is refused before the run.
#[test]
fn a_held_flow_has_no_weight() {
    let mut network = transfer((10, 20), 1_000, 1.0, held("cubic"));
    if let Some(edge) = &mut network.flows[0].edge {
        edge.weight = Some(2);
        edge.selector = selecting(Duration::ZERO).unwrap().selector;
    }
    let flows: &[FlowConfig] = &network.flows;
    assert_eq!(flows.len(), 1);
    let refused = run(&network.config(1), plane(&["cubic"]), &mut ()).unwrap_err();
    let refused = refused.to_string();
    for wrong in [
        "a box that holds a flow's data gives it no weight",
        "the plane has no algorithm `constant`",
    ] {
        assert!(refused.contains(wrong), "{wrong}: {refused}");
    }
}
