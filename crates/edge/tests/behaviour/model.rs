//! A guest with a Reno of its own, a box, a path that loses, and a peer.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use fairwater_edge::Direction;
use fairwater_wire::{Packet, Seq, TcpFlags};
use proptest::prelude::*;

use crate::plane::{Box, constant, treatment};
use crate::support::{Fields, MSS, ms, syn};

const ONE_WAY_MS: u64 = 10;
const RTO_MS: u64 = 300;
const SCALE: u8 = 7;

/// A sender after RFC 5681 and RFC 6582; offsets from its first byte.
struct Guest {
    first: u32,
    total: u32,
    una: u32,
    nxt: u32,
    /// The highest that was ever sent.
    highest: u32,
    cwnd: u32,
    ssthresh: u32,
    edge: u32,
    duplicates: u32,
    last_window: u16,
    recover: Option<u32>,
    timer_ms: u64,
}

impl Guest {
    fn segment(&self, at: u32) -> Fields {
        Fields {
            seq: self.first.wrapping_add(at),
            ack: 1,
            payload: MSS.min(self.total - at) as usize,
            ..Fields::default()
        }
    }

    /// What may be sent now.
    fn poll(&mut self) -> Option<Fields> {
        let window = (self.una + self.cwnd).min(self.edge);
        let length = MSS.min(self.total - self.nxt);
        if length == 0 || self.nxt + length > window {
            return None;
        }
        let segment = self.segment(self.nxt);
        self.nxt += length;
        self.highest = self.highest.max(self.nxt);
        Some(segment)
    }

    /// An ACK; a segment to send again at once, if any.
    fn on_ack(&mut self, now_ms: u64, ack: u32, window: u16) -> Option<Fields> {
        if ack < self.una || ack > self.highest {
            return None;
        }
        self.edge = ack + (u32::from(window) << SCALE);
        let has_same_window = std::mem::replace(&mut self.last_window, window) == window;
        if ack > self.una {
            let acked = ack - self.una;
            self.una = ack;
            self.nxt = self.nxt.max(ack);
            self.timer_ms = now_ms + RTO_MS;
            self.duplicates = 0;
            match self.recover {
                Some(recover) if ack >= recover => {
                    self.recover = None;
                    self.cwnd = self.ssthresh;
                }
                Some(_) => return Some(self.segment(self.una)),
                None if self.cwnd < self.ssthresh => self.cwnd += acked,
                None => self.cwnd += (MSS * MSS / self.cwnd).max(1),
            }
            return None;
        }
        if self.nxt == self.una || !has_same_window {
            return None;
        }
        self.duplicates += 1;
        match (self.duplicates, self.recover) {
            (3, None) => {
                self.ssthresh = ((self.nxt - self.una) / 2).max(2 * MSS);
                self.cwnd = self.ssthresh + 3 * MSS;
                self.recover = Some(self.highest);
                Some(self.segment(self.una))
            }
            (_, Some(_)) => {
                self.cwnd += MSS;
                None
            }
            _ => None,
        }
    }

    fn on_timeout(&mut self, now_ms: u64) {
        self.ssthresh = ((self.nxt - self.una) / 2).max(2 * MSS);
        self.cwnd = MSS;
        self.nxt = self.una;
        self.recover = None;
        self.duplicates = 0;
        self.timer_ms = now_ms + RTO_MS;
    }
}

/// What is under way, in the order in which it arrives.
type Event = Reverse<(u64, u64, bool, Vec<u8>)>;

struct Run {
    /// By time, ms: what the guest had in flight, and its una.
    in_flight: Vec<(u64, u32, u32)>,
    finished_ms: Option<u64>,
    policed: u64,
}

/// Sends `total` bytes from `first` on, with a window of `target`; `losses` says which data packets are lost.
fn run(first: u32, total: u32, target: u64, losses: &[bool]) -> Run {
    let mut it = Box::new(&constant(target), treatment());
    let opening = syn(first.wrapping_sub(1), None, false);
    it.sent(&opening);
    let answer = it.received(&syn(0, Some(first), false));
    it.sent(&Fields {
        seq: first,
        ack: 1,
        ..Fields::default()
    });
    let told = Packet::parse_ip(&answer).unwrap().tcp().unwrap().window();
    let mut guest = Guest {
        first,
        total,
        una: 0,
        nxt: 0,
        highest: 0,
        cwnd: 10 * MSS,
        ssthresh: u32::MAX / 4,
        edge: u32::from(told),
        duplicates: 0,
        last_window: 0,
        recover: None,
        timer_ms: RTO_MS,
    };
    let mut under_way: BinaryHeap<Event> = BinaryHeap::new();
    let mut order = 0;
    let mut losses = losses.iter().copied().chain(std::iter::repeat(false));
    // What has arrived out of order, and up to where all has.
    let (mut arrived, mut next) = (BTreeMap::<u32, u32>::new(), 0u32);
    let mut result = Run {
        in_flight: Vec::new(),
        finished_ms: None,
        policed: 0,
    };
    let mut again: Option<Fields> = None;
    for now_ms in 0..60_000 {
        it.now = ms(now_ms);
        while under_way.peek().is_some_and(|event| event.0.0 <= now_ms) {
            let Some(Reverse((_, _, to_guest, bytes))) = under_way.pop() else {
                break;
            };
            if to_guest {
                let seen = it.pass(Direction::ToGuest, bytes).unwrap();
                let tcp = Packet::parse_ip(&seen).unwrap();
                let tcp = tcp.tcp().unwrap();
                let ack = tcp.ack().0.wrapping_sub(first);
                again = guest.on_ack(now_ms, ack, tcp.window()).or(again.take());
                continue;
            }
            let tcp = Packet::parse_ip(&bytes).unwrap();
            let tcp = tcp.tcp().unwrap();
            let start = tcp.seq().0.wrapping_sub(first);
            let end = start + tcp.payload().len() as u32;
            arrived.insert(start, end.max(arrived.get(&start).copied().unwrap_or(0)));
            while let Some((&start, &end)) = arrived.first_key_value()
                && start <= next
            {
                next = next.max(end);
                arrived.pop_first();
            }
            let answer = Fields {
                seq: 1,
                ack: first.wrapping_add(next),
                window: 30_000,
                flags: TcpFlags::ACK,
                ..Fields::default()
            };
            order += 1;
            let bytes = answer.packet(Direction::ToGuest);
            under_way.push(Reverse((now_ms + ONE_WAY_MS, order, true, bytes)));
        }
        if guest.una == total {
            result.finished_ms = Some(now_ms);
            break;
        }
        if now_ms >= guest.timer_ms {
            guest.on_timeout(now_ms);
        }
        while let Some(segment) = again.take().or_else(|| guest.poll()) {
            match it.sent(&segment) {
                Some(bytes) if !losses.next().unwrap_or(false) => {
                    order += 1;
                    under_way.push(Reverse((now_ms + ONE_WAY_MS, order, false, bytes)));
                }
                Some(_) => {}
                None => result.policed += 1,
            }
        }
        result
            .in_flight
            .push((now_ms, guest.highest - guest.una, guest.una));
    }
    assert_eq!(
        Seq(first).plus(guest.highest),
        {
            let id = it.edge.connections().find(&crate::support::key()).unwrap();
            it.edge.connections().get(id).unwrap().1.sender().nxt()
        },
        "the box knows what was sent"
    );
    result
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// vCC §2: the window that a guest is told bounds what it has in flight. Once the initial window, which the
    /// answer to its SYN told it of, is acknowledged, that never exceeds the target, whatever is lost; and all
    /// arrives.
    #[test]
    fn a_guest_of_its_own_mind_keeps_to_the_target(
        first in prop_oneof![any::<u32>(), (u32::MAX - 100_000)..=u32::MAX],
        target in 0u64..60_000,
        losses in prop::collection::vec(prop::bool::weighted(0.05), 0..300),
    ) {
        let run = run(first, 300_000, target, &losses);
        // Whole segments, two at least, and less than a unit of the scale above.
        let allowed = (target as u32 / MSS).max(2) * MSS + (1 << SCALE);
        for (at, in_flight, una) in &run.in_flight {
            let initial = (10 * MSS).saturating_sub(*una);
            prop_assert!(
                *in_flight <= allowed.max(initial),
                "{} in flight at {} ms, {} allowed", in_flight, at, allowed
            );
        }
        prop_assert!(run.finished_ms.is_some(), "not finished");
        prop_assert_eq!(run.policed, 0);
    }
}

/// Without losses the window is used, too: a round trip carries the target.
#[test]
fn the_target_is_used() {
    for segments in [2, 5, 20, 40] {
        let total = 400_000;
        let run = run(7, total, u64::from(segments * MSS), &[]);
        let round_trips = u64::from(total / (segments * MSS));
        let finished = run.finished_ms.unwrap();
        let ideal = round_trips * 2 * ONE_WAY_MS;
        assert!(
            (ideal..ideal + 6 * 2 * ONE_WAY_MS).contains(&finished)
                || segments < 10 && finished < ideal + 200,
            "{segments} segments: {finished} ms, {ideal} at best"
        );
    }
}
