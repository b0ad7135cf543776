//! Careful Resume (RFC 9959): a transfer that follows another on the same path.

use std::time::Duration;

use fairwater_net::Time;
use fairwater_plane::{CarefulResumeConfig, CarefulResumeStatus};
use fairwater_sim::{Controller, Experiment, Native, NodeId, Traffic, run};

use crate::support::Dumbbell;

const TRANSFER: u64 = 5_000_000;
const RTT_MS: u64 = 200;
/// When the transfer begins that resumes.
const SECOND_MS: u64 = 30_000;

/// What the second transfer came to.
#[derive(Debug, Clone, Copy)]
struct Came {
    took: Duration,
    retransmissions: u64,
    status: Option<CarefulResumeStatus>,
}

/// A transfer of 20 MB, and one of 5 MB after it between the same hosts; `others` bulk flows of Linux's
/// Cubic, of other hosts, begin between the two.
fn experiment(algorithm: &str, mbit: u64, others: usize, seed: u64) -> Experiment {
    let controller = || Controller::Plane(algorithm.to_owned());
    let mut network = Dumbbell::new(mbit, RTT_MS, 70.0)
        .flow(controller(), Traffic::Bytes(20_000_000))
        .flow(controller(), Traffic::Bytes(TRANSFER));
    for _ in 0..others {
        network = network.native(Native::Cubic);
    }
    let mut config = network.config(seed);
    (config.flows[1].from, config.flows[1].to) = (NodeId(2), NodeId(3));
    // Where the others are in their saw-teeth depends on the seed.
    config.flows[1].start = Time::from_millis(SECOND_MS + 437 * seed);
    for (index, other) in config.flows.iter_mut().enumerate().skip(2) {
        other.start = Time::from_millis(18_000 + 200 * index as u64);
    }
    config
}

fn came(config: &Experiment, algorithm: &str, resumes: bool) -> Came {
    let mut hosting = fairwater_plane::Plane::new();
    if resumes {
        let config = CarefulResumeConfig::default();
        hosting.resume_carefully(config).unwrap();
    }
    let choice = fairwater_algorithms::by_spec(algorithm).unwrap();
    hosting.add(|programs| choice.build(programs)).unwrap();
    let outcome = run(config, hosting, &mut ()).unwrap();
    assert_eq!(outcome.notices, [], "{algorithm}");
    let second = &outcome.flows[1];
    assert_eq!(second.requests.len(), 1, "{algorithm}: {second:?}");
    Came {
        took: second.requests[0].took,
        retransmissions: second.retransmissions,
        status: outcome.careful_resume,
    }
}

/// The second transfer without and with Careful Resume.
#[expect(clippy::print_stdout, reason = "the numbers of docs/careful-resume.md")]
fn compare(algorithm: &str, mbit: u64, others: usize, seed: u64) -> (Came, Came, f64) {
    let config = experiment(algorithm, mbit, others, seed);
    let plain = came(&config, algorithm, false);
    let resumed = came(&config, algorithm, true);
    let ratio = resumed.took.as_secs_f64() / plain.took.as_secs_f64();
    println!(
        "{algorithm}, {mbit} Mbit/s, {others} others, seed {seed}: {:.2} s and {} resent, resumed {:.2} s and {}: {ratio:.2}",
        plain.took.as_secs_f64(),
        plain.retransmissions,
        resumed.took.as_secs_f64(),
        resumed.retransmissions
    );
    (plain, resumed, ratio)
}

const ALGORITHMS: [&str; 13] = [
    "reno",
    "cubic",
    "copa",
    "bbr",
    "bbr3",
    "vegas",
    "illinois",
    "hybla",
    "ledbatpp",
    "nimbus",
    "vivace",
    "basicdelay",
    "sprout",
];

#[test]
fn on_an_idle_path_a_transfer_is_faster_by_a_third_and_loses_nothing_more() {
    for algorithm in ALGORITHMS {
        let (plain, resumed, ratio) = compare(algorithm, 100, 0, 1);
        let status = resumed.status.unwrap();
        assert_eq!((status.jumped, status.retreated), (1, 0), "{algorithm}");
        assert!(ratio <= 0.7, "{algorithm}: {ratio}");
        assert!(
            resumed.retransmissions <= plain.retransmissions,
            "{algorithm}"
        );
    }
}

#[test]
fn on_a_congested_path_it_is_not_slower() {
    for algorithm in ["cubic", "reno"] {
        for seed in 1..=4 {
            let (plain, resumed, ratio) = compare(algorithm, 20, 1, seed);
            assert_eq!(resumed.status.unwrap().started, 1);
            assert!(ratio <= 1.03, "{algorithm}: {ratio}");
            // One flow's losses move the other's saw-teeth by an ACK.
            let bound = plain.retransmissions + 5;
            assert!(resumed.retransmissions <= bound, "{algorithm}");
        }
    }
}
