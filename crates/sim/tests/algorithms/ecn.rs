//! Reno and Cubic with ECN (RFC 3168), over queues that mark.

use std::time::Duration;

use fairwater_net::{CoDelConfig, Limit, QueueConfig, StepConfig};
use fairwater_sim::{Controller, Ecn, Native, Outcome, Traffic};

use crate::support::series::Fall;
use crate::support::{BOTTLENECK, Dumbbell, each_seed, observed, series};

const MSS: u32 = 1448;

fn queues() -> [(&'static str, QueueConfig); 2] {
    let step = StepConfig {
        limit: Limit::Packets(300),
        threshold: Limit::Packets(60),
    };
    let codel = CoDelConfig {
        ecn: true,
        ..CoDelConfig::default()
    };
    [
        ("step", QueueConfig::Step(step)),
        ("codel", QueueConfig::CoDel(codel)),
    ]
}

fn over(controller: &Controller, queue: &QueueConfig, ecn: Ecn, seed: u64) -> Outcome {
    let network = Dumbbell::new(24, 40, 30.0).flow(controller.clone(), Traffic::Bulk);
    let mut config = network.config(seed);
    config.edges[BOTTLENECK].link.queue = queue.clone();
    config.flows[0].tcp.ecn = ecn;
    config.flows[0].start_jitter = Duration::from_millis(50);
    observed(&config, &["reno", "cubic"])
}

/// Reductions after slow start.
fn reductions(outcome: &Outcome) -> Vec<Fall> {
    let cwnd = series::cwnd(&outcome.flows[0], MSS);
    let mut falls = series::falls(&cwnd, 0.95);
    falls.retain(|fall| fall.at_s > 3.0);
    falls
}

/// RFC 3168 §6.1.2 and §6.1.3: the queue marks instead of dropping, the receiver echoes until it
/// sees CWR, and the sender reduces once a window, by as much as for a loss and as often as one
/// whose congestion control is inside.
#[test]
fn marks_instead_of_losses_and_one_reduction_a_window() {
    for (algorithm, native, left) in [("reno", Native::Reno, 0.5), ("cubic", Native::Cubic, 0.7)] {
        let ours = Controller::Plane(algorithm.to_owned());
        for (name, queue) in queues() {
            let runs = each_seed([2, 5, 11], |seed| {
                let run = |controller| over(controller, &queue, Ecn::Classic, seed);
                (run(&ours), run(&Controller::Native(native)))
            });
            for (outcome, native) in runs {
                let (flow, edge) = (&outcome.flows[0], &outcome.edges[BOTTLENECK]);
                let context = format!("{algorithm} over {name}");
                assert_eq!((edge.dropped, flow.retransmissions), (0, 0), "{context}");
                assert!(edge.marked > 0, "{context}");
                let falls = reductions(&outcome);
                assert!(falls.len() >= 4, "{context}: {falls:?}");
                // The packets that follow a reduction may find the queue as long still, and be
                // marked: that is another window's.
                for fall in &falls {
                    let share = fall.to / fall.from;
                    let once = (share - left).abs() < 0.03;
                    let twice = (share - left * left).abs() < 0.03;
                    assert!(once || twice, "{context}: {fall:?}");
                }
                let inside = reductions(&native);
                assert!(
                    falls.len().abs_diff(inside.len()) <= 2,
                    "{context}: {falls:?}, {inside:?}"
                );
                let ratio = edge.utilisation / native.edges[BOTTLENECK].utilisation;
                assert!((0.95..1.05).contains(&ratio), "{context}: {ratio}");
            }
        }
    }
}

/// Without ECN the same queues drop, or the buffer does.
#[test]
fn without_ecn_nothing_is_marked() {
    for (name, queue) in queues() {
        let outcome = over(&Controller::Plane("reno".to_owned()), &queue, Ecn::Off, 1);
        let edge = &outcome.edges[BOTTLENECK];
        assert_eq!(edge.marked, 0, "{name}");
        assert!(edge.dropped > 0, "{name}");
    }
}
