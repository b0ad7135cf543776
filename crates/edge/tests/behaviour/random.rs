//! Random connections through a network that loses, repeats and reorders, with forgers beside it.

use fairwater_edge::Direction;
use fairwater_edge::track::{Event, Seen};
use fairwater_lang::Signal;
use fairwater_wire::{Seq, TcpFlags};
use proptest::prelude::*;

use crate::support::{Fields, MSS, Tracker, ms};

/// What happens next. Numbers choose among what there is.
#[derive(Debug, Clone)]
enum Step {
    /// The guest sends so many bytes that are new.
    Send(u32),
    /// The guest sends something of its window again.
    Again(u16, u32),
    /// A packet of the guest's arrives at the peer, which answers; others are overtaken.
    Deliver(u8),
    /// A packet of the guest's is lost behind the box.
    Lose(u8),
    /// An answer passes the box, perhaps for the second time.
    Answer { which: u8, stays: bool },
    /// A reset that no end has sent.
    ForgeReset { to_guest: bool, seq: u32 },
    /// An ACK that no end has sent, of what was never sent.
    ForgeAck(u32),
    /// An ACK with a number outside the guest's window.
    ForgeSeq(u32, u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (1..3 * MSS).prop_map(Step::Send),
        2 => (any::<u16>(), 1..2 * MSS).prop_map(|(at, length)| Step::Again(at, length)),
        6 => any::<u8>().prop_map(Step::Deliver),
        1 => any::<u8>().prop_map(Step::Lose),
        6 => (any::<u8>(), prop::bool::weighted(0.1))
            .prop_map(|(which, stays)| Step::Answer { which, stays }),
        1 => any::<(bool, u32)>().prop_map(|(to_guest, seq)| Step::ForgeReset { to_guest, seq }),
        1 => (1u32..0x4000_0000).prop_map(Step::ForgeAck),
        1 => any::<(u32, u32)>().prop_map(|(seq, ack)| Step::ForgeSeq(seq, ack)),
    ]
}

/// The peer's side: what has arrived.
struct Peer {
    /// Offset of each byte that has arrived, from the first.
    arrived: Vec<bool>,
}

impl Peer {
    fn cumulative(&self) -> u32 {
        let first = self.arrived.iter().position(|arrived| !arrived);
        first.unwrap_or(self.arrived.len()) as u32
    }

    /// The first three ranges above.
    fn blocks(&self) -> Vec<(u32, u32)> {
        let mut blocks: Vec<(u32, u32)> = Vec::new();
        for at in self.cumulative()..self.arrived.len() as u32 {
            if self.arrived[at as usize] {
                match blocks.last_mut() {
                    Some((_, end)) if *end == at => *end = at + 1,
                    _ => blocks.push((at, at + 1)),
                }
            }
        }
        blocks.truncate(3);
        blocks
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_the_box_knows_follows_from_what_passed(
        guest_iss in prop_oneof![any::<u32>(), (u32::MAX - 5_000)..=u32::MAX],
        peer_iss in prop_oneof![any::<u32>(), (u32::MAX - 5_000)..=u32::MAX],
        sack in any::<bool>(),
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let (mut tracker, id) = Tracker::open(guest_iss, peer_iss, sack);
        let first = guest_iss.wrapping_add(1);
        let peer_next = peer_iss.wrapping_add(1);
        let mut peer = Peer { arrived: Vec::new() };
        let mut on_way: Vec<(u32, u32)> = Vec::new();
        let mut answers: Vec<Fields> = Vec::new();
        // Offsets of una and nxt, by what passed the box.
        let (mut una, mut nxt) = (0u32, 0u32);
        let mut acked = 0;
        for (n, step) in steps.into_iter().enumerate() {
            tracker.now = ms(n as u64);
            let data = |start: u32, length: u32| Fields {
                seq: first.wrapping_add(start),
                ack: peer_next,
                payload: length as usize,
                ..Fields::default()
            };
            match step {
                Step::Send(length) => {
                    let seen = tracker.sent(&data(nxt, length));
                    prop_assert!(matches!(seen, Seen::Open(_, Event::Sent(_))), "{:?}", seen);
                    on_way.push((nxt, length));
                    nxt += length;
                    peer.arrived.resize(nxt as usize, false);
                }
                Step::Again(at, length) if nxt > una => {
                    let start = una + u32::from(at) % (nxt - una);
                    let length = length.min(nxt - start);
                    tracker.sent(&data(start, length));
                    on_way.push((start, length));
                }
                Step::Deliver(which) if !on_way.is_empty() => {
                    let at = usize::from(which) % on_way.len().min(4);
                    let (start, length) = on_way.remove(at);
                    peer.arrived[start as usize..(start + length) as usize].fill(true);
                    let blocks = if sack { peer.blocks() } else { Vec::new() };
                    let wire = |offset: u32| first.wrapping_add(offset);
                    answers.push(Fields {
                        seq: peer_next,
                        ack: wire(peer.cumulative()),
                        sack: blocks.into_iter().map(|(a, b)| (wire(a), wire(b))).collect(),
                        ..Fields::default()
                    });
                }
                Step::Lose(which) if !on_way.is_empty() => {
                    on_way.remove(usize::from(which) % on_way.len());
                }
                Step::Answer { which, stays } if !answers.is_empty() => {
                    let at = usize::from(which) % answers.len().min(3);
                    let answer = answers[at].clone();
                    if !stays {
                        answers.remove(at);
                    }
                    tracker.received(&answer);
                    una = una.max(answer.ack.wrapping_sub(first));
                }
                Step::ForgeReset { to_guest, seq } => {
                    let (believed, direction) = match to_guest {
                        true => (seq == peer_next, Direction::ToGuest),
                        false => (Seq(seq).is_within(Seq(first), nxt + (1 << 17)), Direction::FromGuest),
                    };
                    let before = tracker.table.get(id).unwrap().1.clone();
                    let reset = Fields { seq, flags: TcpFlags::RST, ..Fields::default() };
                    let seen = tracker.packet(&crate::support::key(), direction, &reset);
                    if !believed {
                        prop_assert!(matches!(seen, Seen::Ignored(_)));
                        let after = tracker.table.get(id).unwrap().1;
                        prop_assert_eq!(format!("{before:?}"), format!("{after:?}"));
                    }
                }
                Step::ForgeAck(beyond) => {
                    let ack = first.wrapping_add(nxt).wrapping_add(beyond);
                    let forged = Fields { seq: peer_next, ack, ..Fields::default() };
                    prop_assert!(matches!(tracker.received(&forged), Seen::Ignored(_)));
                }
                // Outside: more than a window and what is late from where the guest is.
                Step::ForgeSeq(seq, ack)
                    if Seq(seq).distance_from(Seq(peer_next)).unsigned_abs() > 1 << 18 =>
                {
                    let forged = Fields { seq, ack, ..Fields::default() };
                    prop_assert!(matches!(tracker.received(&forged), Seen::Ignored(_)));
                }
                _ => {}
            }
            let now = tracker.now;
            let (_, flow, ()) = tracker.table.get_mut(id).unwrap();
            let sender = flow.sender();
            prop_assert_eq!(sender.una(), Seq(first).plus(una));
            prop_assert_eq!(sender.nxt(), Seq(first).plus(nxt));
            let signals = flow.take_signals(now, flow.peer_edge(), false);
            acked += signals[Signal::BytesAcked];
            prop_assert_eq!(acked, u64::from(una));
            // Each byte is out once, and what was sent again twice.
            let out = u64::from(nxt - una);
            prop_assert!(signals[Signal::BytesInFlight] <= 2 * out);
            let lost = signals[Signal::LostPkts];
            prop_assert!(lost <= out.div_ceil(u64::from(MSS)) + 8, "{} lost of {}", lost, out);
        }
        // All arrives in the end, and nothing is left in flight.
        let last = Fields {
            seq: peer_next,
            ack: first.wrapping_add(nxt),
            ..Fields::default()
        };
        tracker.received(&last);
        let sender = tracker.table.get(id).unwrap().1.sender();
        prop_assert_eq!(sender.in_flight(), 0);
        prop_assert!(!sender.is_in_recovery());
    }

    /// Whatever two strangers say to each other, nothing panics.
    #[test]
    fn nonsense_is_survived(
        segments in prop::collection::vec((any::<bool>(), any::<(u32, u32, u16, u16)>(), 0usize..3000), 0..60),
        from in any::<u32>(),
    ) {
        let (mut tracker, id) = Tracker::open(from, from.wrapping_mul(7), true);
        for (n, (to_guest, (seq, ack, flags, window), payload)) in segments.into_iter().enumerate() {
            tracker.now = ms(n as u64 * 50);
            // Half of them near to what there is.
            let (seq, ack) = match n % 2 {
                0 => (seq, ack),
                _ => (from.wrapping_add(seq % 5_000), from.wrapping_add(ack % 5_000)),
            };
            let fields = Fields { seq, ack, flags: TcpFlags::from_bits(flags), window, payload, ..Fields::default() };
            let direction = if to_guest { Direction::ToGuest } else { Direction::FromGuest };
            tracker.packet(&crate::support::key(), direction, &fields);
            let now = tracker.now;
            if let Some((_, flow, ())) = tracker.table.get_mut(id) {
                let signals = flow.take_signals(now, flow.peer_edge(), false);
                let out = flow.sender().nxt().bytes_since(flow.sender().una());
                prop_assert!(signals[Signal::BytesInFlight] <= 2 * u64::from(out));
            }
            tracker.expire();
        }
    }
}
