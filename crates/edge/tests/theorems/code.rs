//! The code against a native ECN sender: real packets through [`Edge::on_packet`](fairwater_edge::Edge::on_packet),
//! with a program that is the repaired model's ECN sender, and a guest that is its Reno sender.

use fairwater_edge::Treatment;
use fairwater_wire::{EcnCodepoint, TcpFlags};
use proptest::prelude::*;

use crate::model::{MSS, Rules, Sender};
use crate::plane::{Box, ecn, flags, treatment, window};
use crate::support::{Fields, ms, syn};

/// The ECN sender of [`Rules::REPAIRED`], as a program.
const RENO: &str = "(def (Report (volatile acked 0)) (w 10000) (th 1099511627776) (left 0))
    (when true
      (:= left (if (> left Ack.bytes_acked) (- left Ack.bytes_acked) 0))
      (fallthrough))
    (when (&& (> Ack.ecn_packets 0) (== left 0))
      (:= th (max (/ (min (+ Flow.bytes_in_flight Ack.bytes_acked) w) 2) 2000))
      (:= w (min w th))
      (:= left (+ Flow.bytes_in_flight 1))
      (:= Cwnd w))
    (when (&& (== Ack.ecn_packets 0) (< w th))
      (:= w (+ w (min Ack.bytes_acked 1000)))
      (:= Cwnd w))
    (when (== Ack.ecn_packets 0)
      (:= w (+ w (/ (* (min Ack.bytes_acked 1000) 1000) w)))
      (:= Cwnd w))
    (when false (report))";

const SCALE: u8 = 3;
const SEGMENT: u32 = MSS as u32;

/// What happens at the peer or in the guest's application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// So many segments are acknowledged at once.
    Ack(u32, Echo),
    Stop,
    Go,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Echo {
    No,
    Ece,
}

/// A guest behind the box beside a native ECN sender; both get the same events.
struct Pair {
    it: Box,
    guest: Sender,
    native: Sender,
    has_data: bool,
    /// The first segment that is not acknowledged, and what each has sent; segments from 0.
    una: u32,
    guest_nxt: u32,
    native_nxt: u32,
    /// The right edge that the guest was told, bytes from 0.
    edge: u32,
    ms: u64,
    /// The next new data tells the peer of a reduction.
    cwr_due: bool,
}

impl Pair {
    fn new() -> Self {
        let mut it = Box::new(
            RENO,
            Treatment {
                max_scale: Some(SCALE),
                ..treatment()
            },
        );
        it.sent(&syn(0, None, true));
        let answer = syn(0, Some(1), true);
        let seen = it.received(&Fields {
            flags: answer.flags | TcpFlags::ECE,
            ..answer
        });
        let mut pair = Self {
            it,
            guest: Sender::new(10 * MSS),
            native: Sender::new(10 * MSS),
            has_data: true,
            una: 0,
            guest_nxt: 0,
            native_nxt: 0,
            edge: u32::from(window(&seen)),
            ms: 0,
            cwr_due: false,
        };
        pair.send();
        pair
    }

    fn send(&mut self) {
        if !self.has_data {
            return;
        }
        let flight = u64::from(self.native_nxt - self.una) * MSS;
        self.native_nxt += (self.native.allowed(flight) / MSS) as u32;
        let flight = u64::from(self.guest_nxt - self.una) * MSS;
        let allowed = self.guest.allowed(flight) as u32;
        let told = self.edge.saturating_sub(self.guest_nxt * SEGMENT);
        for _ in 0..allowed.min(told) / SEGMENT {
            let data = Fields {
                seq: 1 + self.guest_nxt * SEGMENT,
                ack: 1,
                payload: SEGMENT as usize,
                ..Fields::default()
            };
            let left = self.it.sent(&data).unwrap();
            // Figure 3 (b), and CWR on the first new data after a reduction.
            assert_eq!(ecn(&left), EcnCodepoint::Ect0);
            let has_cwr = flags(&left).contains(TcpFlags::CWR);
            assert_eq!(has_cwr, std::mem::take(&mut self.cwr_due));
            self.guest_nxt += 1;
        }
    }

    /// Whether the guest has sent all that it was told it may.
    fn uses_its_window(&self) -> bool {
        self.edge.saturating_sub(self.guest_nxt * SEGMENT) < SEGMENT
    }

    /// The event happens to both, if it can.
    fn apply(&mut self, event: Event) {
        match event {
            Event::Stop => self.has_data = false,
            Event::Go => self.has_data = true,
            Event::Ack(segments, echo) => {
                let segments = segments.min(self.guest_nxt.min(self.native_nxt) - self.una);
                if segments == 0 {
                    return;
                }
                self.ms += 20;
                self.it.now = ms(self.ms);
                let flight = u64::from(self.native_nxt - self.una) * MSS;
                self.una += segments;
                let acked = u64::from(segments) * MSS;
                // Nothing is lost: recovery does not begin, and its numbers do not matter.
                let una = i64::from(self.una);
                self.guest.on_ack(acked, una, &Rules::REPAIRED);
                let of_ack = match echo {
                    Echo::No => {
                        self.native.on_ack(acked, una, &Rules::REPAIRED);
                        TcpFlags::ACK
                    }
                    Echo::Ece => {
                        let nxt = i64::from(self.native_nxt);
                        let answers = self.native.on_ece(flight, (una, nxt), &Rules::REPAIRED);
                        self.cwr_due |= answers;
                        TcpFlags::ACK | TcpFlags::ECE
                    }
                };
                let ack = 1 + self.una * SEGMENT;
                let seen = self.it.received(&Fields {
                    seq: 1,
                    ack,
                    flags: of_ack,
                    window: 60_000,
                    ..Fields::default()
                });
                assert!(!flags(&seen).contains(TcpFlags::ECE));
                let told = u32::from(window(&seen)) << SCALE;
                self.edge = self.edge.max(self.una * SEGMENT + told);
            }
        }
        self.send();
    }

    fn is_same(&self) -> bool {
        self.guest_nxt == self.native_nxt
    }
}

/// All sequences of these events of one length, after a beginning.
fn every_sequence(beginning: &[Event], events: &[Event], length: u32) {
    let count = events.len().pow(length);
    for number in 0..count {
        let mut pair = Pair::new();
        for event in beginning {
            pair.apply(*event);
        }
        assert!(pair.is_same());
        let mut rest = number;
        let mut taken = Vec::new();
        for _ in 0..length {
            let event = events[rest % events.len()];
            rest /= events.len();
            taken.push(event);
            pair.apply(event);
            assert!(pair.is_same(), "{beginning:?}, {taken:?}");
        }
    }
}

const BULK: [Event; 5] = [
    Event::Ack(1, Echo::No),
    Event::Ack(1, Echo::Ece),
    Event::Ack(2, Echo::No),
    Event::Ack(u32::MAX, Echo::No),
    Event::Ack(u32::MAX, Echo::Ece),
];

#[test]
fn a_bulk_sender_is_a_native_one_in_each_sequence() {
    every_sequence(&[], &BULK, 4);
    // In congestion avoidance, at the least window, and while more is out than the window.
    let reduced = vec![Event::Ack(u32::MAX, Echo::Ece); 3];
    every_sequence(&reduced, &BULK, 3);
    every_sequence(&[Event::Ack(1, Echo::Ece)], &BULK, 3);
    every_sequence(&[vec![BULK[1]; 12], vec![BULK[3]; 3]].concat(), &BULK, 3);
}

#[test]
fn an_application_that_pauses_makes_no_difference() {
    let events = [BULK[0], BULK[3], Event::Stop, Event::Go];
    every_sequence(&[Event::Ack(u32::MAX, Echo::Ece)], &events, 4);
}

#[test]
fn a_right_edge_that_was_told_is_not_taken_back() {
    // The application limits the guest: ten segments were told, none is out when the echo comes but one.
    let mut pair = Pair::new();
    for event in [
        Event::Stop,
        Event::Ack(9, Echo::No),
        Event::Ack(1, Echo::Ece),
    ] {
        pair.apply(event);
    }
    let told = pair.edge / SEGMENT;
    pair.apply(Event::Go);
    // vCC's assumption 1 does away with this. The guest sends what it was told before the echo, and no more.
    assert_eq!(pair.guest_nxt, told);
    assert!(pair.native_nxt < told, "{} {told}", pair.native_nxt);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn long_sequences_are_a_native_senders(
        steps in prop::collection::vec((0_u32..12, 0_u32..8, 0_u32..12), 1..150),
    ) {
        let mut pair = Pair::new();
        for (segments, echo, pause) in steps {
            match pause {
                0 => pair.apply(Event::Stop),
                1 | 2 => pair.apply(Event::Go),
                _ => {}
            }
            // Echoes come while the guest uses its window (assumption 1), and often enough that the window
            // fits into its field.
            let echo = if pair.uses_its_window() && (echo == 0 || pair.native.cwnd > 60 * MSS) {
                Echo::Ece
            } else {
                Echo::No
            };
            pair.apply(Event::Ack(segments, echo));
            prop_assert!(pair.is_same(), "{} {}", pair.guest_nxt, pair.native_nxt);
        }
    }
}
