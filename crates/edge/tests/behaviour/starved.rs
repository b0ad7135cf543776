//! Flows that starve beside marked traffic.

use std::time::Duration;

use fairwater_edge::starved::{Detector, Observation, Proposal, Tally};
use fairwater_edge::{Direction, Fate, FlowKey, Treatment};
use fairwater_net::Time;
use fairwater_wire::TcpFlags;

use crate::plane::{Box, constant, treatment};
use crate::support::{Fields, MSS, key, ms, syn};

fn flow(guest_port: u16, peer: &str, acked: u64, lost: u64, marked: u64) -> Observation {
    Observation {
        key: FlowKey {
            guest: ([10, 0, 0, 1], guest_port).into(),
            peer: peer.parse().unwrap(),
            ..key()
        },
        is_passed: marked == 0,
        tally: Tally {
            acked_bytes: 1_000 * acked,
            acked_packets: acked,
            lost_packets: lost,
            marked_packets: marked,
        },
    }
}

/// What is proposed in so many seconds that are all alike.
fn seconds(count: u64, observations: &[Observation]) -> Vec<Proposal> {
    let mut detector = Detector::default();
    let each =
        (0..=count).map(|s| detector.on_interval(Time::from_millis(1_000 * s), observations));
    each.flatten().collect()
}

#[test]
fn a_flow_that_starves_for_long_is_proposed_once() {
    let ecn = flow(1, "192.0.2.1:80", 1_000, 0, 20);
    let poor = flow(2, "192.0.2.9:80", 100, 3, 0);
    assert_eq!(seconds(3, &[ecn, poor]), []);
    let proposals = seconds(60, &[ecn, poor]);
    assert_eq!(proposals.len(), 1);
    assert_eq!(
        proposals[0].to_string(),
        "guest 10.0.0.1:2 to 192.0.2.9:80: for 4s it lost 2.9% of 515 packets, and got 10% of what flows with ECN to \
         192.0.2.0/24 get on average: control it with `ecn = true`"
    );
    assert_eq!(proposals[0].lasted, Duration::from_secs(4));
}

#[test]
fn what_does_not_starve_is_not_proposed() {
    let ecn = flow(1, "192.0.2.1:80", 1_000, 0, 20);
    for other in [
        // Its fair part; no loss; little loss; another path; with ECN itself; nothing sent.
        flow(2, "192.0.2.9:80", 600, 20, 0),
        flow(2, "192.0.2.9:80", 100, 0, 0),
        flow(2, "192.0.2.9:80", 300, 1, 0),
        flow(2, "198.51.100.9:80", 100, 3, 0),
        flow(2, "192.0.2.9:80", 100, 3, 5),
        flow(2, "192.0.2.9:80", 0, 0, 0),
    ] {
        assert_eq!(seconds(20, &[ecn, other]), [], "{other:?}");
    }
    // Nobody is marked.
    let plain = flow(1, "192.0.2.1:80", 1_000, 1, 0);
    assert_eq!(
        seconds(20, &[plain, flow(2, "192.0.2.9:80", 100, 3, 0)]),
        []
    );
}

#[test]
fn a_good_second_between_begins_anew() {
    let ecn = flow(1, "192.0.2.1:80", 1_000, 0, 20);
    let (poor, well) = (
        flow(2, "192.0.2.9:80", 100, 3, 0),
        flow(2, "192.0.2.9:80", 900, 3, 0),
    );
    let mut detector = Detector::default();
    for second in 0..40 {
        let now = if second % 5 == 4 { well } else { poor };
        let found = detector.on_interval(Time::from_millis(1_000 * second), &[ecn, now]);
        assert_eq!(found, []);
    }
}

#[test]
fn many_flows_take_bounded_memory_and_are_not_lost_sight_of() {
    let mut all = vec![flow(1, "192.0.2.1:80", 100_000, 0, 20)];
    all.extend((0..3_000).map(|n| {
        let poor = flow(n, "192.0.2.9:80", 100, 3, 0);
        let guest = ([10, 1, (n >> 8) as u8, n as u8], 5).into();
        Observation {
            key: FlowKey { guest, ..poor.key },
            ..poor
        }
    }));
    let proposals = seconds(20, &all);
    assert_eq!(proposals.len(), 1_024);
}

/// A second of the path: a guest with ECN at port 1 that is marked, and one without at port 2 that loses.
fn second(it: &mut Box, n: u32) {
    let at = |it: &mut Box, port, ms_in: u64| {
        it.interface = port;
        it.now = ms(1_000 * u64::from(n) + ms_in);
    };
    let data = |n: u32| Fields {
        seq: 1 + n * MSS,
        ack: 1,
        payload: MSS as usize,
        ..Fields::default()
    };
    let ack = |n: u32, flags: TcpFlags| Fields {
        seq: 1,
        ack: 1 + n * MSS,
        flags: TcpFlags::ACK | flags,
        window: 5_000,
        ..Fields::default()
    };
    at(it, 1, 0);
    for segment in 0..10 {
        it.sent(&data(10 * n + segment));
    }
    at(it, 1, 20);
    it.received(&ack(10 * n + 10, TcpFlags::ECE));
    at(it, 2, 0);
    it.sent(&data(2 * n));
    at(it, 2, 20);
    it.received(&ack(2 * n + 1, TcpFlags::NONE));
    at(it, 2, 30);
    it.sent(&data(2 * n + 1));
    // After its timeout.
    at(it, 2, 800);
    it.sent(&data(2 * n + 1));
    at(it, 2, 820);
    it.received(&ack(2 * n + 2, TcpFlags::NONE));
}

#[test]
fn connections_after_one_that_starved_are_controlled_if_the_policy_says_so() {
    let only_starved = Treatment {
        only_starved: true,
        ..treatment()
    };
    let mut it = Box::new(&constant(5_000), only_starved);
    // Port 1 has ECN of its own.
    it.interface = 1;
    let (first, answer) = (syn(0, None, true), syn(0, Some(1), true));
    it.sent(&Fields {
        flags: first.flags | TcpFlags::ECE | TcpFlags::CWR,
        ..first
    });
    it.received(&Fields {
        flags: answer.flags | TcpFlags::ECE,
        ..answer
    });
    it.sent(&Fields {
        seq: 1,
        ack: 1,
        ..Fields::default()
    });
    assert!(matches!(it.fate(), Some(Fate::Passed | Fate::Exempt(_))));
    it.interface = 2;
    let before = syn(0, None, true).packet(Direction::FromGuest);
    let left = it.pass(Direction::FromGuest, before.clone()).unwrap();
    assert_eq!(left, before);
    it.received(&syn(0, Some(1), true));
    it.sent(&Fields {
        seq: 1,
        ack: 1,
        ..Fields::default()
    });
    assert!(matches!(it.fate(), Some(Fate::Passed)));
    let mut proposals = Vec::new();
    for n in 0..8 {
        second(&mut it, n);
        proposals.extend(it.edge.find_starved(it.now));
    }
    assert_eq!(proposals.len(), 1, "{proposals:?}");
    assert_eq!(proposals[0].key.interface, 2);
    assert_eq!(proposals[0].tally.lost_packets, 5);
    // That one goes on as it is; the next is controlled, ECN and all.
    assert!(matches!(it.fate(), Some(Fate::Passed)));
    it.now = ms(20_000);
    it.open();
    assert!(it.controlled().translates_ecn());
    // Not at another port.
    it.interface = 3;
    it.open();
    assert!(matches!(it.fate(), Some(Fate::Passed)));
}
