//! Packets of controlled guests, as they leave the box.

use fairwater_edge::enforce::Limit;
use fairwater_edge::policy::OnPlaneLoss;
use fairwater_edge::{DEFAULT_GRACE, Direction, Exemption, Fate, Treatment};
use fairwater_net::Time;
use fairwater_wire::{EcnCodepoint, Packet, ParseError, TcpFlags, TcpOption};

use crate::plane::{Box, HALVE_AT_MARKS, constant, ecn, flags, treatment, window};
use crate::support::{Fields, MSS, ms, syn};

fn data(n: u32) -> Fields {
    Fields {
        seq: 1 + n * MSS,
        ack: 1,
        payload: MSS as usize,
        ..Fields::default()
    }
}

fn ack(n: u32, flags: TcpFlags) -> Fields {
    Fields {
        seq: 1,
        ack: 1 + n * MSS,
        flags: TcpFlags::ACK | flags,
        window: 5_000,
        ..Fields::default()
    }
}

#[test]
fn ecn_is_spoken_for_a_guest_that_has_none() {
    let mut it = Box::new(HALVE_AT_MARKS, treatment());
    // Figure 3 (a).
    let left = it.sent(&syn(0, None, true)).unwrap();
    assert!(flags(&left).contains(TcpFlags::ECE | TcpFlags::CWR));
    let answer = syn(0, Some(1), true);
    let seen = it.received(&Fields {
        flags: answer.flags | TcpFlags::ECE,
        ..answer
    });
    assert_eq!(flags(&seen), TcpFlags::SYN | TcpFlags::ACK);
    let third = it.sent(&data(0)).unwrap();
    assert!(it.controlled().translates_ecn());
    // Figure 3 (b): data is ECN-capable, what is sent again and pure ACKs are not.
    assert_eq!(ecn(&third), EcnCodepoint::Ect0);
    assert_eq!(ecn(&it.sent(&data(1)).unwrap()), EcnCodepoint::Ect0);
    assert_eq!(ecn(&it.sent(&data(1)).unwrap()), EcnCodepoint::NotEct);
    let pure = Fields {
        seq: 1 + 2 * MSS,
        ack: 1,
        ..Fields::default()
    };
    assert_eq!(ecn(&it.sent(&pure).unwrap()), EcnCodepoint::NotEct);
    // Figure 3 (c): the echo is hidden, the window cut, CWR on the first new data alone.
    for n in 2..6 {
        it.sent(&data(n));
    }
    it.now = ms(20);
    let seen = it.received(&ack(1, TcpFlags::NONE));
    assert_eq!(flags(&seen), TcpFlags::ACK);
    // 10,000 bytes beyond una, in units of 128.
    assert_eq!(window(&seen), 79);
    let seen = it.received(&ack(2, TcpFlags::ECE));
    assert_eq!(flags(&seen), TcpFlags::ACK);
    assert_eq!(it.controlled().limit(), Limit::Target(5_000));
    let again = it.sent(&data(2)).unwrap();
    assert!(!flags(&again).contains(TcpFlags::CWR));
    assert!(flags(&it.sent(&data(6)).unwrap()).contains(TcpFlags::CWR));
    assert!(!flags(&it.sent(&data(7)).unwrap()).contains(TcpFlags::CWR));
    // Echoes of the same window of data ask for no second CWR; those above do.
    it.received(&ack(4, TcpFlags::ECE));
    it.received(&ack(6, TcpFlags::ECE));
    assert!(!flags(&it.sent(&data(8)).unwrap()).contains(TcpFlags::CWR));
    it.received(&ack(7, TcpFlags::ECE));
    assert!(flags(&it.sent(&data(9)).unwrap()).contains(TcpFlags::CWR));
}

#[test]
fn the_peers_data_is_echoed_for_the_guest() {
    let mut it = Box::new(HALVE_AT_MARKS, treatment());
    it.open();
    let from_peer = |n: u32, flags: TcpFlags, field: EcnCodepoint| {
        let fields = Fields {
            seq: 1 + n * MSS,
            ack: 1,
            flags: TcpFlags::ACK | flags,
            payload: MSS as usize,
            ..Fields::default()
        };
        let mut bytes = fields.packet(Direction::ToGuest);
        let layout = Packet::parse_ip(&bytes).unwrap().layout();
        let mut rewriter =
            fairwater_wire::Rewriter::new(&mut bytes, layout, fairwater_wire::Checksum::Complete);
        rewriter.set_ecn(field);
        bytes
    };
    let pure = |n: u32| Fields {
        seq: 1,
        ack: 1 + n * MSS,
        ..Fields::default()
    };
    let pass = |it: &mut Box, bytes| it.pass(Direction::ToGuest, bytes).unwrap();
    pass(&mut it, from_peer(0, TcpFlags::NONE, EcnCodepoint::Ect0));
    assert_eq!(flags(&it.sent(&pure(1)).unwrap()), TcpFlags::ACK);
    let seen = pass(&mut it, from_peer(1, TcpFlags::NONE, EcnCodepoint::Ce));
    assert_eq!(ecn(&seen), EcnCodepoint::NotEct);
    // Until the peer says that it has reduced its window (RFC 3168 §6.1.3).
    for n in 2..5 {
        let left = it.sent(&pure(n)).unwrap();
        assert_eq!(flags(&left), TcpFlags::ACK | TcpFlags::ECE);
    }
    let seen = pass(&mut it, from_peer(2, TcpFlags::CWR, EcnCodepoint::Ect0));
    assert_eq!(flags(&seen), TcpFlags::ACK);
    assert_eq!(flags(&it.sent(&pure(5)).unwrap()), TcpFlags::ACK);
}

#[test]
fn a_syn_that_is_sent_again_goes_bare() {
    let mut it = Box::new(HALVE_AT_MARKS, treatment());
    let first = syn(0, None, true);
    assert!(flags(&it.sent(&first).unwrap()).contains(TcpFlags::ECE));
    assert_eq!(flags(&it.sent(&first).unwrap()), TcpFlags::SYN);
    // The peer has got the first one.
    let answer = syn(0, Some(1), true);
    it.received(&Fields {
        flags: answer.flags | TcpFlags::ECE,
        ..answer
    });
    it.sent(&data(0));
    assert!(it.controlled().translates_ecn());
}

#[test]
fn a_peer_without_ecn_gets_none() {
    let mut it = Box::new(HALVE_AT_MARKS, treatment());
    // One that mirrors the flags has none either (RFC 3168 §6.1.1.1).
    for mirrored in [TcpFlags::NONE, TcpFlags::ECE | TcpFlags::CWR] {
        it.sent(&syn(0, None, true));
        let answer = syn(0, Some(1), true);
        let seen = it.received(&Fields {
            flags: answer.flags | mirrored,
            ..answer
        });
        assert_eq!(flags(&seen), TcpFlags::SYN | TcpFlags::ACK);
        let left = it.sent(&data(0)).unwrap();
        assert_eq!(ecn(&left), EcnCodepoint::NotEct);
        assert!(!it.controlled().translates_ecn());
    }
}

#[test]
fn what_is_exempt_passes_untouched() {
    let with = |option: TcpOption<'static>| Fields {
        options: vec![TcpOption::Mss(1460), TcpOption::WindowScale(7), option],
        ..syn(0, None, true)
    };
    let flagged = |ace: u8| Fields {
        flags: TcpFlags::SYN.with_ace(ace),
        ..syn(0, None, true)
    };
    for (first, exemption) in [
        (with(TcpOption::Md5([1; 16])), Exemption::Signed),
        (
            with(TcpOption::Authentication(&[1, 2, 3, 4])),
            Exemption::Signed,
        ),
        (with(TcpOption::Mptcp(&[0x01, 0x81])), Exemption::Mptcp),
        (flagged(0b011), Exemption::NativeEcn),
        (flagged(0b111), Exemption::NativeEcn),
    ] {
        let mut it = Box::new(&constant(5_000), treatment());
        let mut is_same = |direction, fields: &Fields| {
            let before = fields.packet(direction);
            let after = it.pass(direction, before.clone()).unwrap();
            assert_eq!(before, after, "{exemption:?}");
        };
        is_same(Direction::FromGuest, &first);
        is_same(Direction::ToGuest, &syn(0, Some(1), true));
        is_same(Direction::FromGuest, &data(0));
        is_same(Direction::ToGuest, &ack(1, TcpFlags::ECE));
        // Beyond any window.
        is_same(Direction::FromGuest, &data(5_000));
        match it.fate() {
            Some(Fate::Exempt(why)) => assert_eq!(*why, exemption),
            other => panic!("{other:?}"),
        }
        assert_eq!(it.edge.datapath().statistics().flows, 0);
        assert_eq!(it.edge.statistics().exempt, 1);
    }
}

#[test]
fn what_is_met_midway_passes_untouched() {
    let mut it = Box::new(&constant(5_000), treatment());
    for _ in 0..2 {
        let sent = data(0).packet(Direction::FromGuest);
        assert_eq!(it.pass(Direction::FromGuest, sent.clone()), Some(sent));
        let seen = ack(1, TcpFlags::NONE).packet(Direction::ToGuest);
        assert_eq!(it.pass(Direction::ToGuest, seen.clone()), Some(seen));
    }
    assert!(matches!(it.fate(), Some(Fate::Exempt(Exemption::Midway))));
}

#[test]
fn a_cheat_is_policed_by_where_its_data_begins() {
    for police in [true, false] {
        let mut it = Box::new(
            &constant(5_000),
            Treatment {
                police,
                ..treatment()
            },
        );
        it.open();
        it.received(&ack(0, TcpFlags::NONE));
        // The first window is of 10 segments, and less than a unit of 128 bytes.
        assert!(it.sent(&data(9)).is_some());
        let is_through = it.sent(&data(11)).is_some();
        assert_eq!(is_through, !police);
        assert_eq!(it.edge.statistics().policed, u64::from(police));
        let nxt = {
            let id = it.edge.connections().find(&crate::support::key()).unwrap();
            it.edge.connections().get(id).unwrap().1.sender().nxt().0
        };
        // What was dropped was never sent.
        assert_eq!(nxt, 1 + if police { 10 } else { 12 } * MSS);
    }
}

#[test]
fn a_silent_plane_releases_its_guests() {
    let mut it = Box::new(HALVE_AT_MARKS, treatment());
    it.open();
    for n in 0..4 {
        it.sent(&data(n));
    }
    it.now = ms(20);
    it.received(&ack(1, TcpFlags::NONE));
    assert_eq!(it.controlled().limit(), Limit::Target(10_000));
    it.is_alive = false;
    it.now = ms(5_000);
    let seen = it.received(&ack(2, TcpFlags::NONE));
    assert_eq!(it.controlled().limit(), Limit::Released);
    assert_eq!(window(&seen), 5_000);
    // Nobody answers to marks: there are to be none. Echoes of older ones stay hidden.
    assert_eq!(ecn(&it.sent(&data(4)).unwrap()), EcnCodepoint::NotEct);
    let seen = it.received(&ack(3, TcpFlags::ECE));
    assert_eq!(flags(&seen), TcpFlags::ACK);
    assert!(flags(&it.sent(&data(5)).unwrap()).contains(TcpFlags::CWR));
    // The plane is back.
    it.is_alive = true;
    it.serve();
    it.received(&ack(4, TcpFlags::NONE));
    let seen = it.received(&ack(5, TcpFlags::NONE));
    assert_eq!(it.controlled().limit(), Limit::Target(10_000));
    assert_eq!(window(&seen), 79);
    assert_eq!(ecn(&it.sent(&data(6)).unwrap()), EcnCodepoint::Ect0);
}

#[test]
fn a_policy_may_hold_guests_without_a_plane() {
    let fallback = OnPlaneLoss::Hold.fallback();
    let mut it = Box::with_fallback(HALVE_AT_MARKS, treatment(), fallback);
    it.open();
    for n in 0..4 {
        it.sent(&data(n));
    }
    it.now = ms(20);
    it.received(&ack(1, TcpFlags::NONE));
    it.is_alive = false;
    it.now = ms(5_000);
    it.received(&ack(2, TcpFlags::NONE));
    let Limit::Target(before) = it.controlled().limit() else {
        panic!("{:?}", it.controlled());
    };
    // Cubic answers to marks, so there are some still.
    assert_eq!(ecn(&it.sent(&data(4)).unwrap()), EcnCodepoint::Ect0);
    it.received(&ack(4, TcpFlags::ECE));
    let Limit::Target(after) = it.controlled().limit() else {
        panic!("{:?}", it.controlled());
    };
    assert!(after < before, "{after} {before}");
}

#[test]
fn a_flow_waits_for_its_program_in_slow_start_and_not_for_long() {
    let mut it = Box::new(&constant(5_000), treatment());
    it.is_alive = false;
    it.open();
    for n in 0..4 {
        it.sent(&data(n));
    }
    it.now = ms(10);
    it.received(&ack(2, TcpFlags::NONE));
    assert_eq!(it.controlled().limit(), Limit::Target(12_000));
    it.now = ms(0) + DEFAULT_GRACE;
    let seen = it.received(&ack(3, TcpFlags::NONE));
    assert_eq!(it.controlled().limit(), Limit::Released);
    assert_eq!(window(&seen), 5_000);
}

#[test]
fn the_flow_ends_with_the_connection() {
    let mut it = Box::new(&constant(5_000), treatment());
    it.open();
    assert_eq!(it.edge.datapath().statistics().flows, 1);
    it.received(&Fields {
        seq: 1,
        flags: TcpFlags::RST,
        ..Fields::default()
    });
    it.edge.expire(Time::from_millis(60_000));
    assert_eq!(it.edge.datapath().statistics().flows, 0);
    // A connection that replaces another ends its flow.
    for _ in 0..3 {
        it.open();
        assert_eq!(it.edge.datapath().statistics().flows, 1);
    }
}

#[test]
fn a_guest_is_told_of_a_smaller_shift() {
    let mut it = Box::new(
        &constant(8 * 1_000),
        Treatment {
            max_scale: Some(3),
            ..treatment()
        },
    );
    it.sent(&syn(0, None, true));
    let seen = it.received(&syn(0, Some(1), true));
    let options = Packet::parse_ip(&seen).unwrap().tcp().unwrap();
    assert_eq!(options.option_summary().unwrap().window_scale, Some(3));
    it.sent(&data(0));
    it.now = ms(20);
    it.received(&ack(1, TcpFlags::NONE));
    it.sent(&data(1));
    let seen = it.received(&ack(2, TcpFlags::NONE));
    assert_eq!(window(&seen), 1_000);
}

#[test]
fn what_cannot_be_read_passes_and_is_counted() {
    let mut it = Box::new(&constant(5_000), treatment());
    let mut bytes = data(0).packet(Direction::FromGuest);
    bytes[32] = 0x40;
    let before = bytes.clone();
    let mut pass = |mut bytes: Vec<u8>| {
        let packet = fairwater_edge::PortPacket {
            interface: 1,
            direction: Direction::FromGuest,
            bytes: &mut bytes,
            is_ethernet: false,
            checksum: fairwater_wire::Checksum::Complete,
        };
        it.edge.on_packet(ms(0), packet);
        bytes
    };
    assert_eq!(pass(bytes), before);
    pass(Vec::new());
    let unreadable = it.edge.statistics().unreadable;
    assert_eq!(unreadable[ParseError::TcpDataOffset.index()], 1);
    assert_eq!(unreadable[ParseError::IpVersion.index()], 1);
}

#[test]
fn a_connection_goes_on_under_the_policy_that_it_began_under() {
    let shifted = || Treatment {
        max_scale: Some(3),
        ..treatment()
    };
    let mut it = Box::new(&constant(5_000), shifted());
    it.sent(&syn(0, None, true));
    it.now = ms(1);
    it.edge
        .set_policy(it.now, std::boxed::Box::new(|_: &_| None));
    // The guest is told of a shift in the answer, whatever the policy says since.
    let answer = syn(0, Some(1), true);
    it.received(&Fields {
        flags: answer.flags | TcpFlags::ECE,
        ..answer
    });
    it.sent(&data(0));
    assert!(it.controlled().translates_ecn());
    // The next one is under the new policy.
    it.now = ms(2);
    it.edge.expire(it.now);
    it.sent(&syn(0, None, true));
    it.received(&syn(0, Some(1), true));
    it.sent(&data(0));
    assert!(matches!(it.fate(), Some(Fate::Passed)));
}

#[test]
fn a_flow_waits_as_long_as_it_is_told_to() {
    let mut it = Box::new(&constant(5_000), treatment());
    it.edge.set_grace(std::time::Duration::from_millis(5));
    it.is_alive = false;
    it.open();
    it.sent(&data(0));
    it.sent(&data(1));
    it.now = ms(4);
    it.received(&ack(1, TcpFlags::NONE));
    assert_eq!(it.controlled().limit(), Limit::Target(11_000));
    it.now = ms(5);
    it.received(&ack(2, TcpFlags::NONE));
    assert_eq!(it.controlled().limit(), Limit::Released);
}
