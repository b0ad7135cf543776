//! The window that a guest is told, whatever its peer and its algorithm say.

use fairwater_edge::enforce::{Limit, Window, WindowUpdate};
use fairwater_wire::Seq;
use proptest::prelude::*;

const MSS: u32 = 1448;

#[derive(Debug, Clone)]
enum Step {
    Target(u64),
    /// The guest sends a share of the room in the window that it was told last (RFC 9293 §3.10.7.4, SND.WND).
    Send(u8),
    /// The peer acknowledges a share of what is out, with this field.
    Ack(u8, u16),
    /// A duplicate.
    Again,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (0u64..200_000).prop_map(Step::Target),
        4 => any::<u8>().prop_map(Step::Send),
        4 => (any::<u8>(), prop_oneof![any::<u16>(), Just(60_000)])
            .prop_map(|(share, field)| Step::Ack(share, field)),
        1 => Just(Step::Again),
    ]
}

fn update(ack: Seq, nxt: Seq, field: u16) -> WindowUpdate {
    WindowUpdate {
        ack,
        field,
        has_data: false,
        una: ack,
        nxt,
    }
}

proptest! {
    #[test]
    fn the_right_edge_keeps_its_promises(
        start in any::<u32>(),
        peer_scale in 0u8..=10,
        less in 0u8..=10,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let guest_scale = peer_scale.saturating_sub(less);
        let unit = 1u32 << guest_scale;
        let mut window = Window::new(MSS, (peer_scale, guest_scale), Seq(start), Seq(start));
        window.set_limit(Limit::Target(10 * u64::from(MSS)));
        let mut most = 10 * u64::from(MSS);
        let (mut una, mut nxt) = (Seq(start), Seq(start));
        let (mut told, mut present) = (Seq(start), Seq(start));
        let mut last = None;
        for step in steps {
            let (ack, field) = match step {
                Step::Target(target) => {
                    most = most.max(target);
                    window.set_limit(Limit::Target(target));
                    continue;
                }
                Step::Send(share) => {
                    let room = present.bytes_since(nxt);
                    nxt = nxt.plus((u64::from(room) * u64::from(share) / 255) as u32);
                    continue;
                }
                Step::Ack(share, field) => {
                    let out = nxt.bytes_since(una);
                    (una.plus((u64::from(out) * u64::from(share) / 255) as u32), field)
                }
                Step::Again => match last {
                    Some((ack, field, _)) if ack == una => (ack, field),
                    _ => continue,
                },
            };
            una = ack;
            let shown = window.field(&update(ack, nxt, field));
            let edge = ack.plus(u32::from(shown) << guest_scale);
            let peers = ack.plus(u32::from(field) << peer_scale);
            prop_assert!(!edge.is_after(peers), "above the peer's");
            // Where the peer and the field's 16 bits allow it, not below nxt, and back by rounding only.
            let is_free = shown != u16::MAX && peers.bytes_since(edge) >= unit;
            if is_free {
                prop_assert!(!edge.is_before(nxt), "below nxt");
                prop_assert!(told.bytes_since(edge) < unit, "back by {}", told.bytes_since(edge));
            }
            // Not more than any target allowed, above what was sent.
            let allowed = most.max(2 * u64::from(MSS)) as u32;
            let bound = una.plus(allowed).max(nxt).max(told).plus(unit);
            prop_assert!(edge.is_before(bound), "more than the target");
            if let Some((before, field_before, shown_before)) = last
                && (before, field_before) == (ack, field)
                && nxt != una
            {
                prop_assert_eq!(shown, shown_before);
            }
            last = Some((ack, field, shown));
            present = edge;
            told = told.max(edge);
            prop_assert_eq!(window.told(), told);
        }
    }
}

#[test]
fn the_target_is_of_whole_segments_and_two_at_least() {
    let mut window = Window::new(1000, (0, 0), Seq(0), Seq(0));
    assert_eq!(window.target(), None);
    for (bytes, target) in [(0, 2_000), (1_500, 2_000), (3_999, 3_000), (4_000, 4_000)] {
        window.set_limit(Limit::Target(bytes));
        assert_eq!(window.target(), Some(target));
    }
}

#[test]
fn zero_is_said_only_if_the_peer_says_it() {
    let mut window = Window::new(1000, (7, 7), Seq(0), Seq(0));
    window.set_limit(Limit::Target(1));
    assert_eq!(window.field(&update(Seq(0), Seq(0), 0)), 0);
    assert_eq!(window.field(&update(Seq(0), Seq(0), 5)), 5);
    // 2,000 bytes in units of 128.
    assert_eq!(window.field(&update(Seq(0), Seq(0), 900)), 16);
    window.set_limit(Limit::Released);
    assert_eq!(window.field(&update(Seq(0), Seq(0), 900)), 900);
}

#[test]
fn a_smaller_shift_says_the_same_in_other_units() {
    let mut window = Window::new(1448, (10, 3), Seq(0), Seq(0));
    window.set_limit(Limit::Target(8 * 1448));
    assert_eq!(window.field(&update(Seq(0), Seq(0), 100)), 1448);
    // The peer's 10 KiB are less.
    assert_eq!(window.field(&update(Seq(0), Seq(0), 10)), 1280);
    // What the field cannot say.
    window.set_limit(Limit::Released);
    assert_eq!(window.field(&update(Seq(0), Seq(0), 1000)), u16::MAX);
}

#[test]
fn data_is_judged_by_where_it_begins() {
    let window = Window::new(1000, (0, 0), Seq(5_000), Seq(0));
    assert!(!window.is_beyond(Seq(4_999), 60_000));
    assert!(window.is_beyond(Seq(5_000), 2));
    assert!(!window.is_beyond(Seq(5_000), 1));
    assert!(window.is_beyond(Seq(5_001), 1));
    assert!(!window.is_beyond(Seq(5_001), 0));
}
