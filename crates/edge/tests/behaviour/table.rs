//! Who gets into the table, and who goes.

use std::time::Duration;

use fairwater_edge::track::{EcnMode, Event, Ignored, Origin, Seen, TableConfig};
use fairwater_edge::{Direction, FlowKey};
use fairwater_wire::{TcpFlags, TcpOption};

use crate::support::{Fields, GUEST, Tracker, key, ms, syn};

fn ignored(reason: Ignored) -> Seen {
    Seen::Ignored(reason)
}

#[test]
fn a_connection_is_open_with_its_third_packet() {
    for initiator in [Direction::FromGuest, Direction::ToGuest] {
        let other = match initiator {
            Direction::FromGuest => Direction::ToGuest,
            Direction::ToGuest => Direction::FromGuest,
        };
        let mut tracker = Tracker::new(TableConfig::default());
        let (first, answer) = (syn(7, None, true), syn(90, Some(8), true));
        assert_eq!(tracker.packet(&key(), initiator, &first), Seen::Opening);
        assert_eq!(tracker.packet(&key(), initiator, &first), Seen::Opening);
        assert_eq!(tracker.packet(&key(), other, &answer), Seen::Opening);
        // Not from the end that answered, and not with a number that it did not send.
        let third = Fields {
            seq: 8,
            ack: 91,
            ..Fields::default()
        };
        let backwards = Fields {
            seq: 91,
            ack: 8,
            ..Fields::default()
        };
        let blind = Fields {
            ack: 92,
            ..third.clone()
        };
        for wrong in [(other, &backwards), (initiator, &blind)] {
            assert_eq!(
                tracker.packet(&key(), wrong.0, wrong.1),
                ignored(Ignored::Unknown)
            );
        }
        assert!(tracker.table.is_empty());
        let Seen::Opened(id, _) = tracker.packet(&key(), initiator, &third) else {
            panic!("not open");
        };
        let (_, flow, ()) = tracker.table.get(id).unwrap();
        assert_eq!((flow.origin(), flow.peer_scale()), (Origin::Handshake, 7));
        assert_eq!((tracker.table.len(), tracker.table.candidates()), (1, 0));
    }
}

#[test]
fn an_answer_to_no_syn_opens_nothing() {
    let mut tracker = Tracker::new(TableConfig::default());
    let answer = syn(90, Some(8), true);
    assert_eq!(tracker.received(&answer), ignored(Ignored::Unknown));
    tracker.sent(&syn(7, None, true));
    // RFC 9293 §3.10.7.3: it must acknowledge the SYN.
    let _ = tracker.received(&syn(90, Some(9), true));
    let third = Fields {
        seq: 8,
        ack: 91,
        ..Fields::default()
    };
    tracker.sent(&third);
    assert!(tracker.table.is_empty());
}

#[test]
fn a_flood_of_syns_costs_nobody_a_place() {
    let mut tracker = Tracker::new(TableConfig {
        max_half_open: 100,
        ..TableConfig::default()
    });
    let id = tracker.handshake(7, 90, true);
    // Another guest is opening a connection.
    let other = FlowKey {
        interface: 4,
        ..key()
    };
    tracker.packet(&other, Direction::FromGuest, &syn(1, None, true));
    tracker.packet(&other, Direction::ToGuest, &syn(5, Some(2), true));
    for n in 0..100_000u32 {
        let [a, b, c, d] = (n << 4).to_be_bytes();
        let flood = FlowKey {
            peer: ([a, b, c, d], 80).into(),
            ..key()
        };
        let (direction, fields) = match n % 2 {
            0 => (Direction::ToGuest, syn(n, None, true)),
            // Met midway, as it seems.
            _ => (
                Direction::FromGuest,
                Fields {
                    payload: 10,
                    ..Fields::default()
                },
            ),
        };
        tracker.packet(&flood, direction, &fields);
    }
    assert_eq!(tracker.table.candidates(), 101);
    assert_eq!(tracker.table.evicted(), 100_000 - 100);
    assert_eq!(tracker.table.find(&key()), Some(id));
    let third = Fields {
        seq: 2,
        ack: 6,
        ..Fields::default()
    };
    let seen = tracker.packet(&other, Direction::FromGuest, &third);
    assert!(matches!(seen, Seen::Opened(..)), "{seen:?}");
}

#[test]
fn a_full_table_takes_nobody_and_loses_nobody() {
    let mut tracker = Tracker::new(TableConfig {
        max_flows: 3,
        max_flows_per_interface: 2,
        ..TableConfig::default()
    });
    let mut open = |interface: u32, port: u16| {
        let key = FlowKey {
            interface,
            guest: (GUEST.0, port).into(),
            ..key()
        };
        tracker.packet(&key, Direction::FromGuest, &syn(7, None, true));
        tracker.packet(&key, Direction::ToGuest, &syn(90, Some(8), true));
        let third = Fields {
            seq: 8,
            ack: 91,
            ..Fields::default()
        };
        tracker.packet(&key, Direction::FromGuest, &third)
    };
    let is_open = |seen: Seen| matches!(seen, Seen::Opened(..));
    assert!(is_open(open(1, 1)) && is_open(open(1, 2)));
    assert_eq!(open(1, 3), ignored(Ignored::Full));
    assert!(is_open(open(2, 1)));
    assert_eq!(open(2, 2), ignored(Ignored::Full));
    assert_eq!(tracker.table.len(), 3);
}

#[test]
fn a_new_connection_on_the_same_ports_replaces_the_old_one_when_it_is_open() {
    let (mut tracker, id) = Tracker::open(7, 90, true);
    // A SYN alone, forged for instance, changes nothing.
    let mut again = syn(50_000, None, false);
    again.options = vec![TcpOption::Mss(500), TcpOption::WindowScale(2)];
    tracker.sent(&again);
    let data = Fields {
        seq: 8,
        ack: 91,
        payload: 100,
        ..Fields::default()
    };
    assert!(matches!(tracker.sent(&data), Seen::Open(same, _) if same == id));
    tracker.received(&syn(70_000, Some(50_001), false));
    let third = Fields {
        seq: 50_001,
        ack: 70_001,
        ..Fields::default()
    };
    let Seen::Opened(id, _) = tracker.sent(&third) else {
        panic!("not open");
    };
    let (_, flow, ()) = tracker.table.get(id).unwrap();
    assert_eq!((flow.peer_scale(), flow.sender().mss()), (7, 500));
    assert_eq!(tracker.table.len(), 1);
}

#[test]
fn only_a_reset_that_its_receiver_believes_ends_a_connection() {
    let (mut tracker, id) = Tracker::open(7, 90, true);
    let reset = |seq: u32| Fields {
        seq,
        flags: TcpFlags::RST,
        ..Fields::default()
    };
    for seq in [0, 90, 92, 91 + 5_000, 91 + (1 << 31)] {
        assert_eq!(
            tracker.received(&reset(seq)),
            ignored(Ignored::ResetOutOfWindow)
        );
    }
    for seq in [7, 8 + (1 << 20)] {
        assert_eq!(
            tracker.sent(&reset(seq)),
            ignored(Ignored::ResetOutOfWindow)
        );
    }
    assert!(!tracker.table.get(id).unwrap().1.is_closing());
    tracker.received(&reset(91));
    assert!(tracker.table.get(id).unwrap().1.is_closing());
    // A forger may have guessed the number: the connection that goes on is not forgotten.
    let data = Fields {
        seq: 8,
        ack: 91,
        payload: 100,
        ..Fields::default()
    };
    tracker.sent(&data);
    let ack = Fields {
        seq: 91,
        ack: 108,
        ..Fields::default()
    };
    tracker.received(&ack);
    assert!(!tracker.table.get(id).unwrap().1.is_closing());
    tracker.sent(&reset(108));
    tracker.now = ms(20_000);
    tracker.expire();
    assert!(tracker.table.is_empty());
}

#[test]
fn what_is_silent_is_forgotten() {
    let config = TableConfig {
        idle: Duration::from_secs(100),
        closing: Duration::from_secs(10),
        half_open: Duration::from_secs(5),
        ..TableConfig::default()
    };
    let mut tracker = Tracker::new(config);
    tracker.handshake(7, 90, true);
    let opening = FlowKey {
        interface: 9,
        ..key()
    };
    tracker.packet(&opening, Direction::FromGuest, &syn(7, None, true));
    tracker.now = ms(4_999);
    tracker.expire();
    assert_eq!((tracker.table.len(), tracker.table.candidates()), (1, 1));
    tracker.now = ms(5_000);
    tracker.expire();
    assert_eq!((tracker.table.len(), tracker.table.candidates()), (1, 0));
    tracker.now = ms(100_000);
    tracker.expire();
    assert!(tracker.table.is_empty());

    // FINs of both ends.
    let id = tracker.handshake(1_000, 2_000, true);
    let fin = |seq, ack| Fields {
        seq,
        ack,
        flags: TcpFlags::FIN | TcpFlags::ACK,
        ..Fields::default()
    };
    tracker.sent(&fin(1_001, 2_001));
    assert!(!tracker.table.get(id).unwrap().1.is_closing());
    tracker.received(&fin(2_001, 1_002));
    assert!(tracker.table.get(id).unwrap().1.is_closing());
    tracker.now = ms(110_000);
    tracker.expire();
    assert!(tracker.table.is_empty());
}

#[test]
fn what_is_met_midway_is_measured_once_both_ends_are_seen() {
    let mut tracker = Tracker::new(TableConfig::default());
    let data = |seq| Fields {
        seq,
        ack: 91,
        payload: 100,
        ..Fields::default()
    };
    let ack = |ack| Fields {
        seq: 91,
        ack,
        ..Fields::default()
    };
    assert_eq!(tracker.sent(&data(1_000)), ignored(Ignored::Unknown));
    assert_eq!(tracker.received(&ack(5_000)), ignored(Ignored::Unknown));
    let Seen::Opened(id, Event::Acked(_)) = tracker.received(&ack(1_100)) else {
        panic!("not open");
    };
    let (_, flow, ()) = tracker.table.get(id).unwrap();
    assert_eq!(flow.origin(), Origin::Midway);
    assert_eq!(flow.sender().in_flight(), 0);
    tracker.sent(&data(1_100));
    assert_eq!(tracker.table.get(id).unwrap().1.sender().in_flight(), 100);
}

#[test]
fn data_of_a_syn_counts() {
    let mut tracker = Tracker::new(TableConfig::default());
    let mut open = syn(7, None, true);
    open.options.push(TcpOption::FastOpen(&[1, 2, 3, 4]));
    open.payload = 300;
    tracker.sent(&open);
    // The answer takes the SYN and some of its data, or the SYN alone (RFC 7413 §4.2).
    tracker.received(&syn(90, Some(8), true));
    let third = Fields {
        seq: 8,
        ack: 91,
        payload: 300,
        ..Fields::default()
    };
    let Seen::Opened(id, Event::Sent(sent)) = tracker.sent(&third) else {
        panic!("not open");
    };
    assert_eq!(sent, fairwater_edge::track::Sent::Again);
    let flow = tracker.table.get(id).unwrap().1;
    assert_eq!((flow.sender().una().0, flow.sender().nxt().0), (8, 308));
}

#[test]
fn the_segment_size_is_of_both_options_without_the_timestamps() {
    let stamps = TcpOption::Timestamps { value: 1, echo: 0 };
    for (guest, peer, mss) in [
        (vec![TcpOption::Mss(1460)], vec![TcpOption::Mss(1400)], 1400),
        (vec![TcpOption::Mss(900)], vec![TcpOption::Mss(1400)], 900),
        (vec![TcpOption::Mss(1460)], vec![], 536),
        (
            vec![TcpOption::Mss(1460), stamps],
            vec![TcpOption::Mss(1460), stamps],
            1448,
        ),
        (
            vec![TcpOption::Mss(1460), stamps],
            vec![TcpOption::Mss(1460)],
            1460,
        ),
        (vec![TcpOption::Mss(0)], vec![TcpOption::Mss(0)], 1),
    ] {
        let mut tracker = Tracker::new(TableConfig::default());
        tracker.sent(&Fields {
            options: guest,
            ..syn(7, None, true)
        });
        tracker.received(&Fields {
            options: peer,
            ..syn(90, Some(8), true)
        });
        assert_eq!(tracker.table.half_open(&key()).unwrap().mss(), mss);
    }
}

#[test]
fn windows_are_scaled_if_both_syns_say_so() {
    for (guest, peer, scales) in [
        (Some(3), Some(9), (3, 9)),
        (Some(3), None, (0, 0)),
        (None, Some(9), (0, 0)),
        // RFC 7323 §2.3: above 14 counts as 14.
        (Some(200), Some(15), (14, 14)),
    ] {
        let option = |scale: Option<u8>| scale.map(TcpOption::WindowScale).into_iter().collect();
        let mut tracker = Tracker::new(TableConfig::default());
        tracker.sent(&Fields {
            options: option(guest),
            ..syn(7, None, true)
        });
        tracker.received(&Fields {
            options: option(peer),
            ..syn(90, Some(8), true)
        });
        assert_eq!(tracker.table.half_open(&key()).unwrap().scales(), scales);
    }
}

#[test]
fn the_syns_tell_what_was_agreed_about_ecn() {
    let flags = |ace: u8, base| TcpFlags::NONE.with_ace(ace) | base;
    for (offer, answer, mode) in [
        (0b000, 0b001, EcnMode::Off),
        (0b011, 0b001, EcnMode::Classic),
        (0b011, 0b000, EcnMode::Off),
        (0b011, 0b011, EcnMode::Off),
        (0b111, 0b001, EcnMode::Classic),
        (0b111, 0b010, EcnMode::Accurate),
        (0b111, 0b110, EcnMode::Accurate),
        (0b111, 0b000, EcnMode::Off),
        (0b111, 0b111, EcnMode::Off),
    ] {
        let mut tracker = Tracker::new(TableConfig::default());
        tracker.sent(&Fields {
            flags: flags(offer, TcpFlags::SYN),
            ..syn(7, None, true)
        });
        tracker.received(&Fields {
            flags: flags(answer, TcpFlags::SYN | TcpFlags::ACK),
            ..syn(90, Some(8), true)
        });
        assert_eq!(tracker.table.half_open(&key()).unwrap().ecn(), mode);
    }
}
