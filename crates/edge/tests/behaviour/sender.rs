//! The signals of scripted connections.

use fairwater_edge::track::{Acked, Event, Flow, Seen, Sent, signal_qualities};
use fairwater_lang::{Signal, Signals};
use fairwater_proto::SignalQuality;
use fairwater_wire::{AccEcn, Seq, TcpFlags, TcpOption};
use proptest::prelude::*;

use crate::support::{Fields, MSS, Tracker, key, ms, syn};

/// A connection whose data begins at 1, with the window far away.
struct Script {
    tracker: Tracker,
    id: usize,
}

impl Script {
    fn new(sack: bool) -> Self {
        let (tracker, id) = Tracker::open(0, 0, sack);
        Self { tracker, id }
    }

    fn flow(&self) -> &Flow {
        self.tracker.table.get(self.id).unwrap().1
    }

    /// Segments from number `first` on, of one MSS each.
    fn send(&mut self, at: u64, first: u32, count: u32) -> Sent {
        let mut last = Sent::Nothing;
        for n in first..first + count {
            let Seen::Open(_, Event::Sent(sent)) = self.send_with(at, n, Vec::new()) else {
                panic!("not sent");
            };
            last = sent;
        }
        last
    }

    fn send_with(&mut self, at: u64, n: u32, options: Vec<TcpOption<'static>>) -> Seen {
        self.tracker.now = ms(at);
        self.tracker.sent(&Fields {
            seq: 1 + n * MSS,
            ack: 1,
            payload: MSS as usize,
            options,
            ..Fields::default()
        })
    }

    /// All up to segment `n` is acknowledged, and these segments above.
    fn ack(&mut self, at: u64, n: u32, sack: &[(u32, u32)]) -> Acked {
        let edge = |n: u32| 1 + n * MSS;
        self.receive(
            at,
            Fields {
                seq: 1,
                ack: edge(n),
                window: 2000,
                sack: sack.iter().map(|&(a, b)| (edge(a), edge(b))).collect(),
                ..Fields::default()
            },
        )
    }

    fn receive(&mut self, at: u64, fields: Fields) -> Acked {
        self.tracker.now = ms(at);
        match self.tracker.received(&fields) {
            Seen::Open(_, Event::Acked(acked)) => acked,
            other => panic!("{other:?}"),
        }
    }

    fn signals(&mut self) -> Signals {
        let now = self.tracker.now;
        let (_, flow, ()) = self.tracker.table.get_mut(self.id).unwrap();
        flow.take_signals(now, Seq(1 << 20), false)
    }
}

fn values<const N: usize>(signals: &Signals, wanted: [Signal; N]) -> [u64; N] {
    wanted.map(|signal| signals[signal])
}

#[test]
fn an_ack_tells_what_it_acknowledges_and_how_long_that_took() {
    let mut script = Script::new(true);
    assert_eq!(script.send(0, 0, 10), Sent::New);
    assert_eq!(script.flow().sender().in_flight(), 10 * MSS);
    assert_eq!(script.ack(40, 4, &[]), Acked::New);
    let signals = script.signals();
    assert_eq!(
        values(
            &signals,
            [
                Signal::BytesAcked,
                Signal::PacketsAcked,
                Signal::BytesInFlight,
                Signal::PacketsInFlight,
                Signal::LostPkts,
                Signal::RttSampleUs,
                Signal::Now,
            ]
        ),
        [4_000, 4, 6_000, 6, 0, 40_000, 1_040_000]
    );
    // Once.
    assert_eq!(script.signals()[Signal::BytesAcked], 0);
    assert_eq!(script.flow().sender().srtt_us(), 40_000);
}

#[test]
fn segments_above_a_hole_tell_of_a_loss() {
    let mut script = Script::new(true);
    script.send(0, 0, 10);
    assert_eq!(script.ack(40, 2, &[]), Acked::New);
    script.signals();
    assert_eq!(script.ack(41, 2, &[(3, 4)]), Acked::Duplicate);
    assert_eq!(script.ack(42, 2, &[(3, 5)]), Acked::Duplicate);
    assert_eq!(script.signals()[Signal::LostPkts], 0);
    assert_eq!(script.ack(43, 2, &[(3, 6)]), Acked::Duplicate);
    let signals = script.signals();
    assert_eq!(
        values(
            &signals,
            [
                Signal::LostPkts,
                Signal::BytesMisordered,
                Signal::BytesInFlight
            ]
        ),
        [1, 1_000, 4_000]
    );
    assert!(script.flow().sender().is_in_recovery());
    // The guest sends it again.
    assert_eq!(script.send(44, 2, 1), Sent::Again);
    assert_eq!(script.flow().sender().in_flight(), 5_000);
    assert_eq!(script.ack(84, 10, &[]), Acked::New);
    assert!(!script.flow().sender().is_in_recovery());
    let signals = script.signals();
    // What was acknowledged out of order counts once among the packets.
    assert_eq!(
        values(
            &signals,
            [
                Signal::BytesAcked,
                Signal::PacketsAcked,
                Signal::BytesInFlight
            ]
        ),
        [8_000, 5, 0]
    );
}

#[test]
fn the_third_duplicate_tells_of_a_loss_without_sack() {
    let mut script = Script::new(false);
    script.send(0, 0, 10);
    script.ack(40, 2, &[]);
    script.signals();
    for (n, lost) in [(1, 0), (2, 0), (3, 1), (4, 0)] {
        assert_eq!(script.ack(40 + n, 2, &[]), Acked::Duplicate);
        assert_eq!(script.signals()[Signal::LostPkts], lost, "duplicate {n}");
    }
    // Of eight, four have arrived and one is lost.
    assert_eq!(script.flow().sender().in_flight(), 3 * MSS);
    script.send(45, 2, 1);
    // RFC 6582: a partial acknowledgement tells of the next hole.
    assert_eq!(script.ack(85, 5, &[]), Acked::New);
    assert_eq!(script.signals()[Signal::LostPkts], 1);
    script.send(86, 5, 1);
    script.ack(126, 10, &[]);
    assert_eq!(script.signals()[Signal::LostPkts], 0);
    assert_eq!(script.flow().sender().in_flight(), 0);
    assert!(!script.flow().sender().is_in_recovery());
}

#[test]
fn what_is_no_duplicate_is_not_counted_as_one() {
    let mut script = Script::new(false);
    script.send(0, 0, 10);
    script.ack(40, 2, &[]);
    let again = |window: u16, payload: usize| Fields {
        seq: 1,
        ack: 1 + 2 * MSS,
        window,
        payload,
        ..Fields::default()
    };
    // Each window differs from the one before; then there is data (RFC 5681 §2).
    for n in 0..5 {
        assert_eq!(script.receive(41, again(1_000 + n, 0)), Acked::Same);
    }
    for _ in 0..5 {
        assert_eq!(script.receive(41, again(1_004, 9)), Acked::Same);
    }
    assert_eq!(script.signals()[Signal::LostPkts], 0);
}

#[test]
fn the_head_sent_again_after_silence_is_a_timeout() {
    let mut script = Script::new(true);
    script.send(0, 0, 10);
    script.ack(40, 4, &[]);
    script.signals();
    // SRTT 40 ms, variation 20 ms: the timeout is 200 ms.
    assert_eq!(script.send(239, 4, 1), Sent::Again);
    assert_eq!(script.send(438, 4, 1), Sent::Again);
    assert_eq!(script.send(638, 4, 1), Sent::AfterTimeout);
    let now = script.tracker.now;
    let (_, flow, ()) = script.tracker.table.get_mut(script.id).unwrap();
    let signals = flow.take_signals(now, Seq(1 << 20), true);
    assert_eq!(
        values(
            &signals,
            [Signal::WasTimeout, Signal::LostPkts, Signal::BytesInFlight]
        ),
        [1, 6, 1_000]
    );
    // Another segment than the head is not the timer's.
    assert_eq!(script.send(1_000, 9, 1), Sent::Again);
}

#[test]
fn a_fast_retransmission_long_after_the_last_progress_is_no_timeout() {
    let mut script = Script::new(true);
    script.send(0, 0, 10);
    script.ack(10, 1, &[]);
    script.send(11, 10, 2);
    script.ack(300, 1, &[(2, 8)]);
    assert_eq!(script.send(301, 1, 1), Sent::Again);
    // Duplicates without SACK bring no RTT sample, which would make the timeout longer.
    let mut script = Script::new(false);
    script.send(0, 0, 10);
    script.ack(10, 1, &[]);
    for at in 300..303 {
        script.ack(at, 1, &[]);
    }
    assert_eq!(script.send(303, 1, 1), Sent::Again);
}

#[test]
fn karns_algorithm_and_the_echoed_clock() {
    let stamp = |value| vec![TcpOption::Timestamps { value, echo: 0 }];
    let ack = |n: u32, echo| Fields {
        seq: 1,
        ack: 1 + n * MSS,
        options: vec![TcpOption::Timestamps { value: 9, echo }],
        ..Fields::default()
    };
    // Without a clock, a segment that was sent twice gives no sample.
    let mut script = Script::new(true);
    script.send(0, 0, 1);
    script.send(60, 0, 1);
    script.ack(100, 1, &[]);
    assert_eq!(script.signals()[Signal::RttSampleUs], u64::MAX);
    // With one, it tells which of the two has arrived.
    for (echo, rtt) in [(500, 100_000), (560, u64::MAX)] {
        let mut script = Script::new(true);
        script.send_with(0, 0, stamp(500));
        script.send_with(60, 0, stamp(560));
        script.receive(100, ack(1, echo));
        assert_eq!(script.signals()[Signal::RttSampleUs], rtt, "echo {echo}");
    }
    // A clock that has not moved does not.
    let mut script = Script::new(true);
    script.send_with(0, 0, stamp(500));
    script.send_with(60, 0, stamp(500));
    script.receive(100, ack(1, 500));
    assert_eq!(script.signals()[Signal::RttSampleUs], u64::MAX);
}

#[test]
fn delivery_rates_are_of_bytes_and_times() {
    let mut script = Script::new(true);
    // 1 segment in 2 ms, and 20 ms until its acknowledgement: 500 kB/s both ways.
    for n in 0..100 {
        script.send(u64::from(n) * 2, n, 1);
        if let Some(acked) = n.checked_sub(9) {
            script.ack(u64::from(n) * 2 + 1, acked, &[]);
        }
    }
    let signals = script.signals();
    for rate in [signals[Signal::RateIncoming], signals[Signal::RateOutgoing]] {
        assert!((490_000..=510_000).contains(&rate), "{rate}");
    }
}

/// A connection whose SYN and its answer have these flags.
fn opened_with(syn_flags: TcpFlags, answer_flags: TcpFlags) -> Script {
    let mut tracker = Tracker::new(Default::default());
    tracker.sent(&Fields {
        flags: syn_flags,
        ..syn(0, None, true)
    });
    tracker.received(&Fields {
        flags: answer_flags,
        ..syn(0, Some(1), true)
    });
    tracker.sent(&Fields {
        seq: 1,
        ack: 1,
        ..Fields::default()
    });
    let id = tracker.table.find(&key()).unwrap();
    Script { tracker, id }
}

#[test]
fn an_echo_counts_what_it_acknowledges() {
    let mut script = opened_with(
        TcpFlags::SYN | TcpFlags::ECE | TcpFlags::CWR,
        TcpFlags::SYN | TcpFlags::ACK | TcpFlags::ECE,
    );
    script.send(0, 0, 10);
    script.ack(40, 2, &[]);
    assert_eq!(script.signals()[Signal::EcnBytes], 0);
    let echo = Fields {
        seq: 1,
        ack: 1 + 5 * MSS,
        flags: TcpFlags::ACK | TcpFlags::ECE,
        ..Fields::default()
    };
    script.receive(41, echo);
    let signals = script.signals();
    assert_eq!(
        values(&signals, [Signal::EcnBytes, Signal::EcnPackets]),
        [3_000, 3]
    );
}

#[test]
fn accurate_ecn_counts_packets_and_bytes() {
    let mut script = opened_with(
        TcpFlags::SYN.with_ace(0b111),
        (TcpFlags::SYN | TcpFlags::ACK).with_ace(0b010),
    );
    script.send(0, 0, 20);
    let ack = |n: u32, ace: u8, bytes: Option<u32>| Fields {
        seq: 1,
        ack: 1 + n * MSS,
        flags: TcpFlags::ACK.with_ace(ace),
        options: bytes
            .map(|ce| {
                TcpOption::AccEcn(AccEcn {
                    ect0_bytes: Some(1),
                    ce_bytes: Some(ce),
                    ect1_bytes: None,
                })
            })
            .into_iter()
            .collect(),
        ..Fields::default()
    };
    for (n, ace, bytes, expected) in [
        (2, 5, None, [0, 0]),
        (6, 0, None, [3_000, 3]),
        (10, 1, Some(3_700), [3_700, 1]),
        (14, 1, Some(3_700), [0, 0]),
    ] {
        script.receive(u64::from(n) + 40, ack(n, ace, bytes));
        let signals = script.signals();
        let read = values(&signals, [Signal::EcnBytes, Signal::EcnPackets]);
        assert_eq!(read, expected, "after segment {n}");
    }
}

#[test]
fn what_no_box_can_see_is_not_called_exact() {
    let qualities = signal_qualities();
    assert_eq!(qualities.of(Signal::Undo), SignalQuality::Absent);
    assert_eq!(qualities.of(Signal::BytesPending), SignalQuality::Inferred);
    assert_eq!(qualities.of(Signal::EcnBytes), SignalQuality::Degraded);
    assert_eq!(qualities.of(Signal::BytesAcked), SignalQuality::Exact);
}

proptest! {
    /// Blocks that lie harm nobody: in flight is never more than what is out and was sent again.
    #[test]
    fn blocks_of_any_kind_are_survived(
        blocks in prop::collection::vec(any::<(u32, u32)>(), 0..4),
        near in prop::collection::vec((0u32..12_000, 0u32..12_000), 0..4),
    ) {
        let mut script = Script::new(true);
        script.send(0, 0, 10);
        for sack in [blocks, near] {
            let fields = Fields { seq: 1, ack: 1 + MSS, sack, ..Fields::default() };
            script.receive(40, fields);
            let signals = script.signals();
            prop_assert!(signals[Signal::BytesInFlight] <= 10_000);
            prop_assert!(signals[Signal::BytesMisordered] < 10_000);
        }
    }
}
