//! Marks echoed packet by packet (RFC 8257 §3.2, vCC appendix A.7).

use fairwater_edge::Direction::{FromGuest, ToGuest};
use fairwater_edge::enforce::{EchoedAck, MarkEcho};
use fairwater_edge::{Echo, Treatment};
use fairwater_wire::{Checksum, EcnCodepoint, Layout, Packet, Rewriter, Seq, TcpFlags};
use proptest::prelude::*;

use crate::plane::{Box, HALVE_AT_MARKS, constant, ecn, flags, treatment};
use crate::support::{Fields, MSS, syn};

fn edge() -> Box {
    let treatment = Treatment {
        echo: Echo::EachMark,
        ..treatment()
    };
    Box::new(&constant(1 << 20), treatment)
}

fn mark(bytes: &mut [u8]) {
    let layout = Layout::of_ip(bytes).unwrap();
    Rewriter::new(bytes, layout, Checksum::Complete).set_ecn(EcnCodepoint::Ce);
}

/// Two guests without ECN, each behind an edge: the one opens the connection, the other takes its data.
struct Chain {
    sender: Box,
    receiver: Box,
}

impl Chain {
    fn open() -> Self {
        let (mut sender, mut receiver) = (edge(), edge());
        let offer = sender.sent(&syn(0, None, true)).unwrap();
        assert!(flags(&offer).contains(TcpFlags::ECE | TcpFlags::CWR));
        // The other edge hides the offer, and agrees to it.
        let seen = receiver.pass(ToGuest, offer).unwrap();
        assert_eq!(flags(&seen), TcpFlags::SYN);
        let answer = syn(0, Some(1), true).packet(ToGuest);
        let answer = receiver.pass(FromGuest, answer).unwrap();
        assert_eq!(
            flags(&answer),
            TcpFlags::SYN | TcpFlags::ACK | TcpFlags::ECE
        );
        let seen = sender.pass(ToGuest, answer).unwrap();
        assert_eq!(flags(&seen), TcpFlags::SYN | TcpFlags::ACK);
        let third = Fields {
            seq: 1,
            ack: 1,
            ..Fields::default()
        };
        let third = sender.sent(&third).unwrap();
        receiver.pass(ToGuest, third).unwrap();
        assert!(sender.controlled().translates_ecn());
        Self { sender, receiver }
    }

    /// The nth segment, marked on its way or not; as the receiving guest gets it.
    fn data(&mut self, n: u32, is_marked: bool) -> Vec<u8> {
        let fields = Fields {
            seq: 1 + n * MSS,
            ack: 1,
            payload: MSS as usize,
            ..Fields::default()
        };
        let mut bytes = self.sender.sent(&fields).unwrap();
        assert_eq!(ecn(&bytes), EcnCodepoint::Ect0);
        if is_marked {
            mark(&mut bytes);
        }
        self.receiver.pass(ToGuest, bytes).unwrap()
    }

    /// The receiving guest acknowledges n segments: what leaves its edge, and passes the other's.
    fn ack(&mut self, n: u32, window: u16) -> Vec<Vec<u8>> {
        let fields = Fields {
            seq: 1,
            ack: 1 + n * MSS,
            window,
            ..Fields::default()
        };
        let first = self
            .receiver
            .pass(FromGuest, fields.packet(ToGuest))
            .unwrap();
        let rest = self.receiver.poll();
        let left: Vec<_> = std::iter::once(first)
            .chain(rest.into_iter().map(|(direction, bytes)| {
                assert_eq!(direction, FromGuest);
                bytes
            }))
            .collect();
        for bytes in &left {
            let seen = self.sender.pass(ToGuest, bytes.clone()).unwrap();
            assert_eq!(flags(&seen), TcpFlags::ACK);
        }
        left
    }
}

proptest! {
    /// Whatever is marked and however ACKs are put off, the peer learns of each marked byte, and of no other; the guests
    /// hear of no mark; ACKs and the right edge of the window only go on.
    #[test]
    fn each_mark_is_echoed_once(
        steps in prop::collection::vec((any::<bool>(), prop::bool::weighted(0.4)), 1..60),
    ) {
        let mut chain = Chain::open();
        let (mut marked, mut echoed) = (0u32, 0u32);
        let (mut acked, mut edge) = (Seq(1), Seq(0));
        let count = steps.len() as u32;
        for (n, (is_marked, is_acked)) in (0..).zip(steps) {
            marked += MSS * u32::from(is_marked);
            let seen = chain.data(n, is_marked);
            prop_assert_eq!(ecn(&seen) == EcnCodepoint::Ce, false);
            // No more than the guest is told of at first.
            let is_due = (n + 1) * MSS >= acked.0 + 7 * MSS;
            if !is_acked && !is_due && n + 1 < count {
                continue;
            }
            // The guest reads next to nothing: its right edge hardly moves.
            for bytes in chain.ack(n + 1, 60_000 - (n as u16 + 1) * 7) {
                let packet = Packet::parse_ip(&bytes).unwrap();
                let tcp = packet.tcp().unwrap();
                prop_assert!(tcp.ack().is_after(acked));
                if tcp.flags().contains(TcpFlags::ECE) {
                    echoed += tcp.ack().bytes_since(acked);
                }
                acked = tcp.ack();
                let right = acked.plus(u32::from(tcp.window()) << 7);
                // Less than a unit of the scale goes back at most (RFC 7323 §2.4).
                prop_assert!(right.plus(127) .is_after(edge));
                edge = edge.max(right);
            }
            prop_assert_eq!(acked, Seq(1 + (n + 1) * MSS));
        }
        prop_assert_eq!(echoed, marked);
    }

    /// Nothing panics, and the last acknowledgement is the guest's, whatever comes.
    #[test]
    fn any_numbers_do_no_harm(
        first in any::<u32>(),
        steps in prop::collection::vec((0u32..9_000, 0u32..3_000, any::<[bool; 2]>()), 0..200),
    ) {
        let mut echo = MarkEcho::new(Seq(first));
        for (at, length, [is_marked, is_ack]) in steps {
            let start = Seq(first).plus(at);
            if is_ack {
                let echoed = echo.on_ack(start);
                prop_assert_eq!(echoed.last().map(|echoed| echoed.ack), Some(start));
            } else {
                echo.on_data(start, start.plus(length), is_marked);
            }
        }
    }
}

#[test]
fn a_delayed_ack_is_divided_where_the_mark_changes() {
    let mut echo = MarkEcho::new(Seq(1));
    for (n, is_marked) in [false, true, true, false].into_iter().enumerate() {
        let start = Seq(1).plus(n as u32 * 10);
        echo.on_data(start, start.plus(10), is_marked);
    }
    let echoed = |ack, ece| EchoedAck { ack: Seq(ack), ece };
    assert_eq!(echo.on_ack(Seq(21)), [echoed(11, false), echoed(21, true)]);
    assert_eq!(echo.on_ack(Seq(41)), [echoed(31, true), echoed(41, false)]);
    // A duplicate has the mark of what came last, and a mark of data that came again once.
    echo.on_data(Seq(31), Seq(41), true);
    assert_eq!(echo.on_ack(Seq(41)), [echoed(41, true)]);
    echo.on_data(Seq(41), Seq(51), false);
    assert_eq!(echo.on_ack(Seq(41)), [echoed(41, false)]);
}

#[test]
fn an_offer_that_comes_again_is_not_agreed_to() {
    let mut receiver = edge();
    let offer = Fields {
        flags: TcpFlags::SYN | TcpFlags::ECE | TcpFlags::CWR,
        ..syn(0, None, true)
    };
    for _ in 0..2 {
        let seen = receiver.pass(ToGuest, offer.packet(FromGuest)).unwrap();
        assert_eq!(flags(&seen), TcpFlags::SYN);
    }
    let answer = syn(0, Some(1), true).packet(ToGuest);
    let left = receiver.pass(FromGuest, answer).unwrap();
    assert_eq!(flags(&left), TcpFlags::SYN | TcpFlags::ACK);
    // Where marks are latched, the box leaves offers of the peer alone.
    let mut other = Box::new(HALVE_AT_MARKS, treatment());
    let seen = other.pass(ToGuest, offer.packet(FromGuest)).unwrap();
    assert_eq!(flags(&seen), offer.flags);
}
