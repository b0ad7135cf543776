//! noq under algorithms, over emulated paths in virtual time.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairwater_net::Time;
use fairwater_quic::virtual_time::{FlowOutcome, VirtualFlow, VirtualRun};
use fairwater_quic::{CarefulResumeConfig, Factory, Options};

/// A run of one flow, and its factory.
fn run(algorithm: &str, link: &str, seconds: u64, seed: u64) -> (FlowOutcome, Arc<Factory>) {
    let start = Instant::now();
    let factory = Options::default().lockstep(start).noq(algorithm).unwrap();
    let run = VirtualRun {
        link: link.parse().unwrap(),
        duration: Duration::from_secs(seconds),
        seed,
        start,
        flows: vec![VirtualFlow {
            controllers: factory.clone(),
            start: Duration::ZERO,
            bytes: None,
        }],
    };
    let outcome = run.run().unwrap().remove(0);
    assert_eq!(outcome.lost, None);
    (outcome, factory)
}

const fn at(seconds: u64) -> Time {
    Time::from_millis(1000 * seconds)
}

#[test]
fn copa_fills_the_link_with_a_short_queue() {
    // CCP §6.4: Copa on 12 Mbit/s, 20 ms; the mean window was about 22 packets.
    let (outcome, factory) = run("copa", "12mbit 20ms 4bdp", 30, 1);
    let utilisation = outcome.throughput_bps(at(5), at(30)) / 12e6;
    let window = outcome.mean_window(at(5), at(30)) / f64::from(outcome.mtu);
    println!("copa: utilisation {utilisation:.3}, window {window:.1} packets");
    assert!(utilisation >= 0.85, "{utilisation}");
    assert!((15.0..=35.0).contains(&window), "{window}");
    let status = factory.status();
    assert!(status.reports > 100, "{status:?}");
    assert_eq!(status.fallbacks, 0);
}

#[test]
fn cubic_fills_the_link_in_saw_teeth() {
    let (outcome, _) = run("cubic", "24mbit 20ms 1bdp", 30, 1);
    let utilisation = outcome.throughput_bps(at(5), at(30)) / 24e6;
    println!(
        "cubic: utilisation {utilisation:.3}, {} drops",
        outcome.dropped.len()
    );
    assert!(utilisation >= 0.95, "{utilisation}");
    assert!(!outcome.dropped.is_empty());
}

#[test]
fn a_constant_rate_is_kept_without_a_queue() {
    let (outcome, _) = run("constant:rate=8mbit", "40mbit 40ms 4bdp", 10, 1);
    let within = |(at, _): &&(Time, u32)| (crate::at(1)..crate::at(10)).contains(at);
    let sent = outcome.sent.iter().filter(within);
    let bytes: u64 = sent.map(|(_, size)| u64::from(*size)).sum();
    // A rate is one of QUIC's bytes: headers of UDP and IP come on top.
    let rate = 8.0 * bytes as f64 / 9.0;
    let longest = outcome.longest_queue(at(1), at(10));
    println!("constant: {:.3} Mbit/s, queue {longest:?}", rate / 1e6);
    assert!((7.6e6..=8.005e6).contains(&rate), "{rate}");
    assert!(longest <= Duration::from_millis(2), "{longest:?}");
}

#[test]
fn the_path_mtu_grows_and_the_flow_follows() {
    let (outcome, _) = run("cubic", "24mbit 20ms 1bdp", 5, 1);
    assert!(outcome.mtu > 1400, "{}", outcome.mtu);
}

#[test]
fn the_same_seed_gives_the_same_packets() {
    let link = "12mbit 20ms 1bdp loss=0.5%";
    let (first, _) = run("copa", link, 5, 7);
    let (again, _) = run("copa", link, 5, 7);
    let (other, _) = run("copa", link, 5, 8);
    assert!(first.sent.len() > 1000);
    assert_eq!(first.sent, again.sent);
    assert_eq!(first.packets, again.packets);
    assert_eq!(first.controls, again.controls);
    assert_ne!(first.sent, other.sent);
}

/// When a transfer of 5 MB is over that follows another of the same hosts, since its start.
fn second_transfer(algorithm: &str, resumes: bool) -> (Duration, usize) {
    let start = Instant::now();
    let mut options = Options::default().lockstep(start);
    if resumes {
        options = options.resume_carefully(CarefulResumeConfig::default());
    }
    let factory = options.noq(algorithm).unwrap();
    let from_port = |port: u16| {
        let local = SocketAddr::from(([198, 51, 100, 1], port));
        factory.between(local, "192.0.2.1:443".parse().unwrap())
    };
    let flow = |port, start, bytes| VirtualFlow {
        controllers: from_port(port),
        start: Duration::from_secs(start),
        bytes: Some(bytes),
    };
    let run = VirtualRun {
        link: "100mbit 200ms 1bdp".parse().unwrap(),
        duration: Duration::from_secs(30),
        seed: 1,
        start,
        flows: vec![flow(10_000, 0, 20_000_000), flow(10_001, 20, 5_000_000)],
    };
    let second = run.run().unwrap().remove(1);
    let took = second.finished.unwrap().since(at(20));
    (took, second.dropped.len())
}

#[test]
fn a_connection_begins_with_what_another_observed() {
    for algorithm in ["cubic", "copa"] {
        let (plain, lost) = second_transfer(algorithm, false);
        let (resumed, lost_resumed) = second_transfer(algorithm, true);
        println!("{algorithm}: {plain:?} and {lost} lost, resumed {resumed:?} and {lost_resumed}");
        assert!(resumed <= plain.mul_f64(0.7), "{algorithm}: {resumed:?}");
        assert!(lost_resumed <= lost, "{algorithm}");
    }
}
