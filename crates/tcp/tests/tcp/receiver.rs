//! What is acknowledged, and when.

use std::time::Duration;

use fairwater_net::Time;
use fairwater_tcp::{Block, Ecn, Receiver, Segment, TcpConfig};
use proptest::prelude::*;

const MSS: u32 = 500;

fn config() -> TcpConfig {
    TcpConfig {
        mss: MSS,
        handshake: false,
        ..TcpConfig::default()
    }
}

struct Side {
    receiver: Receiver,
    now: Time,
}

impl Side {
    /// A receiver to which everything before `offset` has come, slow start long over.
    fn at(config: &TcpConfig, offset: u64) -> Self {
        let mut side = Self {
            receiver: Receiver::new(config, Time::ZERO),
            now: Time::ZERO,
        };
        let mut seq = 0;
        while seq < offset {
            side.data(seq, (seq + u64::from(MSS)).min(offset), false);
            seq += u64::from(MSS);
        }
        for _ in 0..40 {
            side.receiver.on_segment(
                side.now,
                &Segment {
                    seq: offset,
                    ..Segment::default()
                },
                false,
            );
            side.acks();
        }
        side
    }

    /// Bytes from `start` to `end` arrive; the ACKs that follow at once.
    fn data(&mut self, start: u64, end: u64, marked: bool) -> Vec<Segment> {
        let segment = Segment {
            seq: start,
            len: u32::try_from(end - start).unwrap(),
            timestamp: self.now,
            ..Segment::default()
        };
        self.receiver.on_segment(self.now, &segment, marked);
        self.acks()
    }

    fn acks(&mut self) -> Vec<Segment> {
        std::iter::from_fn(|| self.receiver.poll_transmit(self.now)).collect()
    }

    /// The cumulative acknowledgement and the blocks that answer a segment.
    fn answer(&mut self, start: u64, end: u64) -> (u64, Vec<(u64, u64)>) {
        let acks = self.data(start, end, false);
        assert_eq!(acks.len(), 1, "{acks:?}");
        let blocks = acks[0].sack.iter().map(|b: &Block| (b.start, b.end));
        (acks[0].ack, blocks.collect())
    }
}

#[test]
fn rfc_2883_4_1_1_reports_a_duplicate_segment() {
    let mut side = Side::at(&config(), 4_000);
    assert_eq!(side.answer(3_000, 3_500), (4_000, vec![(3_000, 3_500)]));
    assert_eq!(side.answer(3_500, 4_000), (4_000, vec![(3_500, 4_000)]));
}

#[test]
fn rfc_2883_4_1_2_reports_out_of_order_data_after_a_duplicate() {
    let mut side = Side::at(&config(), 4_000);
    assert_eq!(side.answer(4_500, 5_000), (4_000, vec![(4_500, 5_000)]));
    assert_eq!(
        side.answer(3_000, 3_500),
        (4_000, vec![(3_000, 3_500), (4_500, 5_000)])
    );
}

#[test]
fn rfc_2883_4_1_3_reports_a_duplicate_of_out_of_order_data() {
    let mut side = Side::at(&config(), 4_000);
    assert_eq!(side.answer(4_500, 5_000), (4_000, vec![(4_500, 5_000)]));
    assert_eq!(side.answer(5_000, 5_500), (4_000, vec![(4_500, 5_500)]));
    assert_eq!(
        side.answer(5_000, 5_500),
        (4_000, vec![(5_000, 5_500), (4_500, 5_500)])
    );
}

#[test]
fn rfc_2883_4_2_1_reports_the_part_of_a_segment_that_came_twice() {
    let mut side = Side::at(&config(), 1_000);
    assert_eq!(side.answer(1_500, 2_000), (1_000, vec![(1_500, 2_000)]));
    assert_eq!(side.answer(1_000, 2_000), (2_000, vec![(1_500, 2_000)]));
}

#[test]
fn rfc_2883_4_2_2_reports_the_first_of_two_parts_that_came_twice() {
    let mut side = Side::at(&config(), 1_000);
    side.answer(1_500, 2_000);
    assert_eq!(
        side.answer(2_500, 3_000),
        (1_000, vec![(2_500, 3_000), (1_500, 2_000)])
    );
    assert_eq!(
        side.answer(1_500, 3_000),
        (1_000, vec![(1_500, 2_000), (1_500, 3_000)])
    );
}

#[test]
fn rfc_2018_4_reports_the_latest_block_first_and_three_at_most() {
    let mut side = Side::at(&config(), 5_000);
    side.answer(5_500, 6_000);
    side.answer(6_500, 7_000);
    side.answer(7_500, 8_000);
    assert_eq!(
        side.answer(8_500, 9_000).1,
        vec![(8_500, 9_000), (7_500, 8_000), (6_500, 7_000)]
    );
    // Two blocks become one, which is the latest again.
    assert_eq!(
        side.answer(7_000, 7_500).1,
        vec![(6_500, 8_000), (8_500, 9_000)]
    );
    assert_eq!(
        side.answer(5_000, 5_500),
        (6_000, vec![(6_500, 8_000), (8_500, 9_000)])
    );
}

#[test]
fn rfc_5681_4_2_acknowledges_every_second_segment_or_after_the_delay() {
    let mut side = Side::at(&config(), 50_000);
    assert_eq!(side.data(50_000, 50_500, false), vec![]);
    assert_eq!(side.answer(50_500, 51_000).0, 51_000);
    assert_eq!(side.data(51_000, 51_500, false), vec![]);
    assert_eq!(side.receiver.next_timer(), Some(Time::from_millis(40)));
    side.now = Time::from_millis(40);
    side.receiver.on_timer(side.now);
    let acks = side.acks();
    assert_eq!(acks.len(), 1);
    assert_eq!(acks[0].ack, 51_500);
    assert_eq!(side.receiver.next_timer(), None);
}

#[test]
fn rfc_5681_4_2_acknowledges_a_gap_and_what_fills_it_at_once() {
    let mut side = Side::at(&config(), 50_000);
    assert_eq!(side.answer(50_500, 51_000).0, 50_000);
    assert_eq!(side.answer(51_500, 52_000).0, 50_000);
    assert_eq!(side.answer(50_000, 50_500).0, 51_000);
    assert_eq!(side.answer(51_000, 51_500), (52_000, vec![]));
}

/// Linux's compression of selective ACKs: three are sent at once, further ones together.
#[test]
fn selective_acks_are_held_back_from_the_fourth_on() {
    let delay = Duration::from_millis(1);
    let config = TcpConfig {
        sack_delay: delay,
        ..config()
    };
    let mut side = Side::at(&config, 50_000);
    for n in 1..4 {
        let at = 50_000 + n * 500;
        assert_eq!(side.data(at, at + 500, false).len(), 1);
    }
    let due = side.now + delay;
    for n in 4..7 {
        let at = 50_000 + n * 500;
        assert_eq!(side.data(at, at + 500, false), vec![]);
        assert_eq!(side.receiver.next_timer(), Some(due));
    }
    side.now = due;
    side.receiver.on_timer(due);
    let acks = side.acks();
    assert_eq!(acks.len(), 1);
    assert_eq!(acks[0].sack[0].end, 53_500);
    assert_eq!(side.receiver.next_timer(), None);
    // What fills the gap does not wait, nor do the first three behind the next.
    assert_eq!(side.data(53_500, 54_000, false), vec![]);
    assert_eq!(side.data(50_000, 50_500, false).len(), 1);
    assert_eq!(side.receiver.next_timer(), None);
    assert_eq!(side.data(54_500, 55_000, false).len(), 1);
}

#[test]
fn without_delay_each_segment_is_acknowledged() {
    let config = TcpConfig {
        delayed_ack: Duration::ZERO,
        ..config()
    };
    let mut side = Side::at(&config, 50_000);
    for n in 0..10 {
        let at = 50_000 + n * 500;
        assert_eq!(side.answer(at, at + 500).0, at + 500);
    }
}

#[test]
fn rfc_7323_4_3_echoes_the_earliest_segment_that_an_ack_covers() {
    let mut side = Side::at(&config(), 50_000);
    side.now = Time::from_millis(100);
    assert_eq!(side.data(50_000, 50_500, false), vec![]);
    side.now = Time::from_millis(103);
    let acks = side.data(50_500, 51_000, false);
    assert_eq!(acks[0].timestamp, Time::from_millis(100));
    // Beyond a gap: the clock of the last segment in order.
    side.now = Time::from_millis(110);
    let acks = side.data(51_500, 52_000, false);
    assert_eq!(acks[0].timestamp, Time::from_millis(100));
    side.now = Time::from_millis(120);
    let acks = side.data(51_000, 51_500, false);
    assert_eq!(acks[0].timestamp, Time::from_millis(120));
}

/// RFC 8257 §3.2: what an ACK echoes, over what it newly acknowledges, is exactly what came
/// marked, whatever the delay of ACKs.
#[test]
fn rfc_8257_3_2_echoes_each_run_of_marks_exactly() {
    let config = TcpConfig {
        ecn: Ecn::Dctcp,
        ..config()
    };
    let mut side = Side::at(&config, 50_000);
    // Unmarked, then marked: the first is acknowledged as such at once, and the second too.
    assert_eq!(side.data(50_000, 50_500, false), vec![]);
    let acks = side.data(50_500, 51_000, true);
    let echoes: Vec<_> = acks.iter().map(|a| (a.ack, a.ece)).collect();
    assert_eq!(echoes, [(50_500, false), (51_000, true)]);
    // Within a run, every second segment.
    assert_eq!(side.data(51_000, 51_500, true), vec![]);
    let acks = side.data(51_500, 52_000, true);
    assert_eq!(
        acks.iter().map(|a| (a.ack, a.ece)).collect::<Vec<_>>(),
        [(52_000, true)]
    );
    // Nothing waits when the run ends: one ACK.
    let acks = side.data(52_000, 52_500, false);
    assert_eq!(
        acks.iter().map(|a| (a.ack, a.ece)).collect::<Vec<_>>(),
        [(52_500, false)]
    );
}

proptest! {
    #[test]
    fn dctcp_echoes_as_many_bytes_as_came_marked(
        marks in prop::collection::vec(any::<bool>(), 1..200),
        ack_ms in prop_oneof![Just(0u64), Just(40)],
    ) {
        let config = TcpConfig {
            ecn: Ecn::Dctcp,
            delayed_ack: Duration::from_millis(ack_ms),
            ..config()
        };
        let mut side = Side::at(&config, 10_000);
        let (mut at, mut acked, mut echoed) = (10_000, 10_000, 0);
        for &marked in &marks {
            for ack in side.data(at, at + 500, marked) {
                echoed += u64::from(ack.ece) * (ack.ack - acked);
                acked = ack.ack;
            }
            at += 500;
        }
        side.now = Time::from_millis(1_000);
        side.receiver.on_timer(side.now);
        for ack in side.acks() {
            echoed += u64::from(ack.ece) * (ack.ack - acked);
            acked = ack.ack;
        }
        let marked = marks.iter().filter(|m| **m).count() as u64;
        prop_assert_eq!(acked, at);
        prop_assert_eq!(echoed, marked * 500);
    }
}

#[test]
fn rfc_3168_6_1_3_echoes_until_the_sender_says_it_reduced() {
    let config = TcpConfig {
        ecn: Ecn::Classic,
        ..config()
    };
    let mut side = Side::at(&config, 50_000);
    assert!(side.data(50_000, 50_500, true)[0].ece);
    side.data(50_500, 51_000, false);
    let mut at = 51_000;
    for _ in 0..5 {
        for ack in side.data(at, at + 500, false) {
            assert!(ack.ece);
        }
        at += 500;
    }
    let reduced = Segment {
        seq: at,
        len: MSS,
        cwr: true,
        ..Segment::default()
    };
    side.receiver.on_segment(side.now, &reduced, false);
    let acks = side.acks();
    assert_eq!(acks.len(), 1);
    assert!(!acks[0].ece);
    // A mark on the very segment that says so begins the next echo.
    let reduced = Segment {
        seq: at + 500,
        len: MSS,
        cwr: true,
        ..Segment::default()
    };
    side.receiver.on_segment(side.now, &reduced, true);
    assert!(side.acks()[0].ece);
}

#[test]
fn accurate_ecn_counts_segments_and_bytes() {
    let config = TcpConfig {
        ecn: Ecn::Accurate,
        ..config()
    };
    let mut side = Side::at(&config, 50_000);
    side.data(50_000, 50_500, true);
    side.data(50_500, 51_000, false);
    side.data(51_500, 52_000, true);
    let acks = side.data(51_000, 51_500, false);
    assert_eq!((acks[0].ce_packets, acks[0].ce_bytes), (2, 1_000));
}

#[test]
fn the_window_closes_while_the_application_does_not_read() {
    let config = TcpConfig {
        receive_window: 1_200,
        delayed_ack: Duration::ZERO,
        ..config()
    };
    let mut side = Side::at(&config, 0);
    side.receiver.pause();
    let acks = side.data(0, 500, false);
    assert_eq!((acks[0].ack, acks[0].window), (500, 700));
    let acks = side.data(500, 1_000, false);
    assert_eq!((acks[0].ack, acks[0].window), (1_000, 200));
    // What lies outside is refused, and answered.
    let acks = side.data(1_000, 1_500, false);
    assert_eq!((acks[0].ack, acks[0].window), (1_000, 200));
    assert_eq!(side.receiver.delivered(), 1_000);
    side.receiver.resume();
    let acks = side.acks();
    assert_eq!((acks[0].ack, acks[0].window), (1_000, 1_200));
}
