//! Groups of flows that divide their windows by weight.

use std::time::Duration;

use fairwater_edge::enforce::Limit;
use fairwater_edge::policy::Share;
use fairwater_edge::share::{Member, divide, whole_segments};
use fairwater_edge::{FlowKey, Treatment};
use fairwater_net::Time;
use fairwater_wire::TcpFlags;
use proptest::prelude::*;

use crate::plane::{Box, constant, treatment, window};
use crate::support::{Fields, MSS, ms};

const RTT: Duration = Duration::from_millis(20);

fn member(weight: u16, window: u64) -> Member {
    Member {
        weight,
        window,
        mss: MSS,
        srtt: RTT,
        sent_at: ms(0),
        is_out: true,
    }
}

#[test]
fn preferred_flows_get_their_weight_and_the_sum_stays() {
    // vCC figure 12: three flows, then two preferred ones, 3:1.
    let three = [member(1, 30_000); 3];
    assert_eq!(divide(ms(1), &three), [None; 3]);
    let five = [three.as_slice(), &[member(3, 30_000); 2]].concat();
    let parts = divide(ms(1), &five);
    assert_eq!(parts[..3], [Some(16_666); 3]);
    assert_eq!(parts[3..], [Some(50_000); 2]);
    // The preferred ones have stopped for two RTTs.
    let mut stopped = five;
    for each in &mut stopped[..3] {
        each.sent_at = ms(39);
    }
    assert!(divide(ms(39), &stopped)[3].is_some());
    assert_eq!(divide(ms(40), &stopped), [None; 5]);
    // With nothing out, for one.
    for each in &mut stopped[3..] {
        each.is_out = false;
    }
    assert_eq!(divide(ms(20), &stopped[..]), [None; 5]);
}

#[test]
fn nobody_is_starved() {
    let flows = [member(1, 10_000), member(1_000, 10_000), member(1, 1_500)];
    let parts = divide(ms(1), &flows);
    assert_eq!(parts, [Some(2_000), Some(18_000), Some(1_500)]);
}

fn members() -> impl Strategy<Value = Vec<Member>> {
    let one = (
        1_u16..20,
        0_u64..1_000_000,
        500_u32..9_000,
        0_u64..80,
        any::<bool>(),
    );
    let one = one.prop_map(|(weight, window, mss, sent_ms, is_out)| Member {
        mss,
        sent_at: ms(sent_ms),
        is_out,
        ..member(weight, window)
    });
    prop::collection::vec(one, 0..30)
}

proptest! {
    #[test]
    fn a_division_is_by_weight_and_keeps_the_sum(flows in members(), turn in 0_usize..30) {
        let now = ms(80);
        let parts = divide(now, &flows);
        let mut turned = flows.clone();
        turned.rotate_left(turn % flows.len().max(1));
        let mut expected = parts.clone();
        expected.rotate_left(turn % flows.len().max(1));
        prop_assert_eq!(divide(now, &turned), expected);
        let divided: Vec<_> = flows.iter().zip(&parts).filter_map(|(flow, part)| Some((flow, (*part)?))).collect();
        for (flow, part) in &divided {
            prop_assert!(flow.is_active(now));
            prop_assert!(*part >= flow.window.min(2 * u64::from(flow.mss)));
        }
        let before: u64 = divided.iter().map(|(flow, _)| flow.window).sum();
        let after: u64 = divided.iter().map(|(_, part)| part).sum();
        prop_assert!(after.abs_diff(before) <= divided.len() as u64, "{} {}", before, after);
        // All active ones, or none.
        let active = flows.iter().filter(|flow| flow.is_active(now)).count();
        prop_assert!(divided.is_empty() || divided.len() == active);
        // Above the least part, parts are in the ratio of the weights.
        let free: Vec<_> = divided.iter().filter(|(flow, part)| *part > flow.window.min(2 * u64::from(flow.mss)) + 100).collect();
        for ((a, a_part), (b, b_part)) in free.iter().zip(free.iter().skip(1)) {
            let (per_a, per_b) = (*a_part as f64 / f64::from(a.weight), *b_part as f64 / f64::from(b.weight));
            prop_assert!((per_a / per_b - 1.0).abs() < 0.03, "{} {}", per_a, per_b);
        }
    }
}

fn data(n: u32) -> Fields {
    Fields {
        seq: 1 + n * MSS,
        ack: 1,
        payload: MSS as usize,
        ..Fields::default()
    }
}

fn ack(n: u32) -> Fields {
    Fields {
        seq: 1,
        ack: 1 + n * MSS,
        flags: TcpFlags::ACK,
        window: 5_000,
        ..Fields::default()
    }
}

/// A box with guests at the ports 1 to 3; those of port 3 have weight 3.
fn shared(program: &str) -> Box {
    let mut it = Box::new(program, treatment());
    let policy = |key: &FlowKey| {
        let weight = if key.interface == 3 { 3 } else { 1 };
        Some(Treatment {
            share: Some(Share {
                group: "uplink".into(),
                weight,
            }),
            ..treatment()
        })
    };
    it.edge.set_policy(Time::ZERO, std::boxed::Box::new(policy));
    for port in 1..=3 {
        it.interface = port;
        it.now = ms(0);
        it.open();
        for n in 0..4 {
            it.sent(&data(n));
        }
        it.now = ms(20);
        it.received(&ack(1));
    }
    it
}

/// What the guest of a port is limited to, and its window with the next ACK.
fn told(it: &mut Box, port: u32, n: u32) -> (Limit, u16) {
    it.interface = port;
    it.sent(&data(n + 3));
    let seen = it.received(&ack(n));
    (it.controlled().limit(), window(&seen))
}

#[test]
fn the_box_divides_windows_and_gives_them_back() {
    let mut it = shared(&constant(10_000));
    // Nobody is told before the division.
    assert_eq!(told(&mut it, 1, 2).0, Limit::Target(10_000));
    it.edge.divide(it.now);
    it.now = ms(21);
    // Of 30,000 bytes a fifth, three fifths; in whole segments, in units of 128.
    assert_eq!(told(&mut it, 1, 3).0, Limit::Target(6_000));
    assert_eq!(told(&mut it, 2, 3).0, Limit::Target(6_000));
    assert_eq!(
        told(&mut it, 3, 3),
        (Limit::Target(18_000), 18_000_u16.div_ceil(128))
    );
    it.interface = 1;
    assert_eq!(it.controlled().own_limit(), Limit::Target(10_000));
    // The guest of port 3 stops; within two RTTs the others have theirs.
    for step in 0..4 {
        it.now = ms(30 + 10 * u64::from(step));
        it.edge.divide(it.now);
        told(&mut it, 1, 4 + step);
        told(&mut it, 2, 4 + step);
    }
    // The RTT is 20 ms, and 21 ms in one sample.
    it.now = ms(62);
    it.edge.divide(it.now);
    assert_eq!(told(&mut it, 1, 9).0, Limit::Target(10_000));
    assert_eq!(told(&mut it, 2, 9).0, Limit::Target(10_000));
}

#[test]
fn a_reduction_does_not_wait_for_the_next_division() {
    let halve = "(def (Report (volatile marked 0)) (w 10000))
        (when (> Ack.lost_pkts_sample 0) (:= w (/ w 2)) (fallthrough))
        (when true (:= Cwnd w))";
    let mut it = shared(halve);
    it.edge.divide(it.now);
    it.interface = 3;
    assert_eq!(it.controlled().limit(), Limit::Target(18_000));
    // The guest sends again after a timeout: all that was out is lost.
    it.now = ms(500);
    it.sent(&data(1));
    assert_eq!(it.controlled().limit(), Limit::Target(9_000));
    assert_eq!(it.controlled().own_limit(), Limit::Target(5_000));
}

#[test]
fn a_released_guest_takes_no_part() {
    let mut it = shared(&constant(10_000));
    it.edge.divide(it.now);
    it.is_alive = false;
    it.now = ms(5_000);
    assert_eq!(told(&mut it, 3, 2).0, Limit::Released);
    it.edge.divide(it.now);
    assert_eq!(told(&mut it, 3, 3).0, Limit::Released);
}

/// The parts of a flow are whole segments, and right on average.
#[test]
fn parts_in_whole_segments_lose_nothing_over_time() {
    for part in [2_000, 4_700, 5_999, 33_333] {
        let mut rest = 0;
        let parts: Vec<u64> = (0..100)
            .map(|_| whole_segments(part, MSS, &mut rest))
            .collect();
        let mss = u64::from(MSS);
        assert!(
            parts
                .iter()
                .all(|it| it % mss == 0 && it.abs_diff(part) < mss)
        );
        assert!(parts.iter().sum::<u64>() + mss > 100 * part);
    }
}

/// What a program sees of a flow is what it would see if the flow used the program's own window: one with a part below
/// its window would else take itself for held back by its guest, and one with more for one that has let out too much.
#[test]
fn a_program_sees_its_own_window_used_whatever_the_part() {
    let seen = "(def (Report (volatile n 0)))
        (when true (:= Cwnd (+ 10000 Ack.bytes_acked)))";
    let mut it = shared(seen);
    // One segment was acknowledged of each: 11,000 bytes, and parts in whole segments.
    it.edge.divide(it.now);
    it.now = ms(21);
    for (port, part) in [(1, 6_000), (2, 6_000), (3, 19_000)] {
        assert_eq!(told(&mut it, port, 3).0, Limit::Target(part), "port {port}");
        // Two segments were acknowledged.
        let seen = 2 * u64::from(MSS) * 11_000 / part;
        let expected = Limit::Target(10_000 + seen);
        assert_eq!(it.controlled().own_limit(), expected, "port {port}");
    }
}
