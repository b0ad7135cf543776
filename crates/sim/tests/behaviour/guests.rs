//! Senders behind a box at their host's edge: the box of `fairwater_edge` sees their packets as bytes.

use std::time::Duration;

use fairwater_net::{QueueConfig, RedConfig, Time};
use fairwater_sim::{Ecn, EdgeTreatment, Experiment, FlowConfig, Native, Outcome, run};

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
        println!("seed {seed}: {share} {}", jain(&outcome));
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
