//! Packets of connections that are held, one by one.

use fairwater_edge::Direction::{FromGuest, ToGuest};
use fairwater_edge::buffer::{BufferConfig, ReturnReason};
use fairwater_edge::{Direction, PortPacket, Verdict};
use fairwater_wire::{
    Checksum, EcnCodepoint, Layout, Packet, Rewriter, TcpFlags, TcpOption, checksum,
};

use crate::plane::{Box, constant, ecn, flags, window};
use crate::support::{Fields, MSS, key, ms, syn};

/// What tests compare of a packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) direction: Direction,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: TcpFlags,
    pub(super) payload: usize,
    pub(super) sack: Vec<(u32, u32)>,
}

pub(super) fn said((direction, bytes): &(Direction, Vec<u8>)) -> Said {
    let packet = Packet::parse_ip(bytes).unwrap();
    let tcp = packet.tcp().unwrap();
    let options = tcp.option_summary().unwrap();
    Said {
        direction: *direction,
        seq: tcp.seq().0,
        ack: tcp.ack().0,
        flags: tcp.flags().without(TcpFlags::PSH),
        payload: tcp.payload().len(),
        sack: options
            .sack()
            .iter()
            .map(|b| (b.start.0, b.end.0))
            .collect(),
    }
}

pub(super) fn data(seq: u32, segments: u32) -> Fields {
    Fields {
        seq,
        ack: 1,
        payload: (segments * MSS) as usize,
        ..Fields::default()
    }
}

pub(super) fn ack(ack: u32) -> Fields {
    Fields {
        seq: 1,
        ack,
        window: 5_000,
        ..Fields::default()
    }
}

/// A box whose connections have a window of so many segments; one is open, its data begins at 1 both ways.
pub(super) fn held(segments: u32) -> Box {
    let mut it = Box::buffering(
        &constant(u64::from(segments * MSS)),
        BufferConfig::default(),
    );
    it.open();
    // A first segment and its ACK: the program is in force.
    assert_eq!(it.sent(&data(1, 1)), None);
    assert_eq!(sizes(&mut it), [(1, MSS as usize)]);
    it.now = ms(20);
    it.received(&ack(1 + MSS));
    it.poll();
    it
}

/// The first byte that a test sends after [`held`].
pub(super) const NEXT: u32 = 1 + MSS;

/// Sequence number and payload of what leaves for the network.
pub(super) fn sizes(it: &mut Box) -> Vec<(u32, usize)> {
    let packets = it.poll();
    let packets = packets.iter().map(said);
    packets
        .filter(|said| said.direction == FromGuest)
        .map(|said| (said.seq, said.payload))
        .collect()
}

pub(super) fn returned(it: &Box, reason: ReturnReason) -> u64 {
    it.edge.buffer_statistics().returned[reason.index()]
}

#[test]
fn a_super_packet_leaves_in_segments_as_the_window_allows() {
    let mut it = held(4);
    assert_eq!(it.sent(&data(NEXT, 10)), None);
    let mss = MSS as usize;
    let first: Vec<_> = (0..4).map(|n| (NEXT + n * MSS, mss)).collect();
    assert_eq!(sizes(&mut it), first);
    it.now = ms(40);
    it.received(&ack(NEXT + 2 * MSS));
    let second: Vec<_> = (4..6).map(|n| (NEXT + n * MSS, mss)).collect();
    assert_eq!(sizes(&mut it), second);
}

#[test]
fn duplicate_acks_are_hidden_and_answered() {
    let mut it = held(10);
    it.sent(&data(NEXT, 6));
    it.poll();
    it.now = ms(40);
    for n in 2..6 {
        let duplicate = Fields {
            sack: vec![(NEXT + MSS, NEXT + n * MSS)],
            ..ack(NEXT)
        };
        assert_eq!(it.pass(ToGuest, duplicate.packet(ToGuest)), None);
    }
    // RFC 8985 §6.2: the first is lost.
    assert_eq!(sizes(&mut it), [(NEXT, MSS as usize)]);
    // What the peer sends passes, without the blocks.
    let with_data = Fields {
        payload: 100,
        sack: vec![(NEXT + MSS, NEXT + 6 * MSS)],
        ..ack(NEXT)
    };
    let seen = said(&(ToGuest, it.received(&with_data)));
    assert_eq!((seen.sack.len(), seen.payload), (0, 100));
    let seen = said(&(ToGuest, it.received(&ack(NEXT + 6 * MSS))));
    assert_eq!(seen.ack, NEXT + 6 * MSS);
    assert_eq!(it.edge.buffer_statistics().retransmissions, 1);
}

#[test]
fn what_the_guest_sends_again_goes_no_further() {
    let mut it = held(10);
    it.sent(&data(NEXT, 3));
    it.poll();
    assert_eq!(it.sent(&data(NEXT, 1)), None);
    assert_eq!(it.sent(&data(NEXT + MSS, 2)), None);
    assert_eq!(it.poll(), []);
    assert_eq!(it.edge.buffer_statistics().repeated, 2);
    // What was acknowledged passes: the guest has missed an ACK, and gets the answer.
    it.now = ms(40);
    it.received(&ack(NEXT + MSS));
    assert!(it.sent(&data(NEXT, 1)).is_some());
    assert!(it.pass(ToGuest, ack(NEXT + MSS).packet(ToGuest)).is_some());
    assert!(it.pass(ToGuest, ack(NEXT + MSS).packet(ToGuest)).is_none());
}

#[test]
fn acknowledgements_of_the_guest_do_not_wait_for_its_data() {
    let mut it = held(2);
    it.sent(&data(NEXT, 4));
    it.poll();
    // Data that has to wait, with an ACK and with blocks.
    let with = |ack: u32, sack: &[(u32, u32)]| Fields {
        ack,
        sack: sack.to_vec(),
        ..data(NEXT + 4 * MSS, 1)
    };
    it.sent(&with(501, &[]));
    let left: Vec<_> = it.poll().iter().map(said).collect();
    assert_eq!((left.len(), left[0].ack, left[0].payload), (1, 501, 0));
    // The number that the network knows.
    assert_eq!(left[0].seq, NEXT + 2 * MSS);
    it.sent(&with(501, &[(601, 701)]));
    let left: Vec<_> = it.poll().iter().map(said).collect();
    assert_eq!(left[0].sack, [(601, 701)]);
    // A pure ACK passes.
    let pure = Fields {
        seq: NEXT + 5 * MSS,
        ack: 701,
        ..Fields::default()
    };
    let left = said(&(FromGuest, it.sent(&pure).unwrap()));
    assert_eq!((left.seq, left.ack), (NEXT + 2 * MSS, 701));
    assert_eq!(it.poll(), []);
}

#[test]
fn a_fin_leaves_behind_the_data() {
    let mut it = held(2);
    it.sent(&data(NEXT, 3));
    let fin = Fields {
        flags: TcpFlags::ACK | TcpFlags::FIN,
        ..data(NEXT + 3 * MSS, 0)
    };
    assert_eq!(it.sent(&fin), None);
    assert_eq!(sizes(&mut it).len(), 2);
    it.now = ms(40);
    it.received(&ack(NEXT + 2 * MSS));
    let left: Vec<_> = it.poll().iter().map(said).collect();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].flags, TcpFlags::ACK | TcpFlags::FIN);
    assert_eq!(
        (left[0].seq, left[0].payload),
        (NEXT + 2 * MSS, MSS as usize)
    );
    // Sent again: it is held.
    assert_eq!(it.sent(&fin), None);
    it.received(&ack(NEXT + 3 * MSS + 1));
    assert_eq!(it.poll(), []);
    // ACKs after it pass as they are.
    let last = ack(NEXT + 3 * MSS + 1).packet(ToGuest);
    assert!(it.pass(ToGuest, last).is_some());
    let last = data(NEXT + 3 * MSS + 1, 0).packet(FromGuest);
    assert_eq!(it.pass(FromGuest, last.clone()), Some(last));
}

#[test]
fn probes_and_keepalives_pass_with_their_answers() {
    let mut it = held(10);
    let closed = Fields {
        window: 0,
        ..ack(NEXT)
    };
    assert_eq!(window(&it.received(&closed)), 0);
    for payload in [0, 1] {
        let probe = Fields {
            seq: NEXT - 1,
            ack: 1,
            payload,
            ..Fields::default()
        };
        let before = probe.packet(FromGuest);
        assert_eq!(it.pass(FromGuest, before.clone()), Some(before));
        assert_eq!(window(&it.received(&closed)), 0);
    }
    // The window opens.
    assert!(window(&it.received(&ack(NEXT))) > 0);
}

#[test]
fn urgent_data_stays_marked() {
    let mut it = held(2);
    let urgent = Fields {
        flags: TcpFlags::ACK | TcpFlags::URG,
        urgent: 2_500,
        ..data(NEXT, 4)
    };
    it.sent(&urgent);
    let mut pointers = Vec::new();
    for n in 0..3 {
        for (_, bytes) in it.poll() {
            let packet = Packet::parse_ip(&bytes).unwrap();
            let tcp = packet.tcp().unwrap();
            pointers.push((tcp.flags().contains(TcpFlags::URG), tcp.urgent()));
        }
        it.now = ms(40 + 20 * n);
        it.received(&ack(NEXT + (n as u32 + 1) * MSS));
    }
    assert_eq!(
        pointers,
        [(true, 2_500), (true, 1_500), (true, 500), (false, 0)]
    );
}

#[test]
fn a_reset_leaves_behind_all_that_is_held() {
    let mut it = held(2);
    it.sent(&data(NEXT, 5));
    it.poll();
    let reset = Fields {
        flags: TcpFlags::RST | TcpFlags::ACK,
        ..data(NEXT + 5 * MSS, 0)
    };
    assert_eq!(it.sent(&reset), None);
    let left: Vec<_> = it.poll().iter().map(said).collect();
    let seqs: Vec<_> = left.iter().map(|said| (said.seq - NEXT) / MSS).collect();
    assert_eq!(seqs, [2, 3, 4, 5]);
    assert_eq!(left[3].flags, TcpFlags::RST | TcpFlags::ACK);
    assert_eq!(it.edge.held(), (0, 0));
    assert_eq!(returned(&it, ReturnReason::Reset), 1);
}

#[test]
fn a_reset_of_the_peer_frees_the_memory() {
    let mut it = held(2);
    it.sent(&data(NEXT, 5));
    it.poll();
    let forged = Fields {
        seq: 77,
        flags: TcpFlags::RST,
        ..Fields::default()
    };
    it.received(&forged);
    assert_eq!(it.edge.held().0, 1);
    it.received(&Fields { seq: 1, ..forged });
    assert_eq!(it.edge.held(), (0, 0));
    assert_eq!(it.poll(), []);
    assert_eq!(it.edge.next_timer(), None);
}

#[test]
fn corrupt_packets_pass_as_they_came() {
    let mut it = held(10);
    for (direction, fields) in [(FromGuest, data(NEXT, 1)), (ToGuest, ack(NEXT))] {
        let mut bytes = fields.packet(direction);
        *bytes.last_mut().unwrap() ^= 1;
        let before = bytes.clone();
        assert_eq!(it.pass_any(direction, bytes), (Verdict::Pass, before));
    }
    assert_eq!(it.edge.buffer_statistics().corrupt, 2);
    assert_eq!(it.poll(), []);
}

#[test]
fn nobody_acknowledges_what_was_not_sent() {
    let mut it = held(2);
    it.sent(&data(NEXT, 5));
    it.poll();
    assert_eq!(it.pass(ToGuest, ack(NEXT + 3 * MSS).packet(ToGuest)), None);
    assert_eq!(it.edge.buffer_statistics().acks_of_unsent, 1);
    assert!(
        it.pass(ToGuest, ack(NEXT + 2 * MSS).packet(ToGuest))
            .is_some()
    );
}

/// vCC §2, "Duplicate ACKs".
#[test]
fn a_guest_whose_packet_was_lost_before_the_box_is_told() {
    let mut it = held(10);
    it.sent(&data(NEXT, 1));
    it.poll();
    // The second was lost.
    for n in 2..4 {
        assert_eq!(it.sent(&data(NEXT + n * MSS, 1)), None);
    }
    // Nothing is acknowledged early.
    assert_eq!(it.poll(), []);
    it.now = ms(40);
    it.received(&ack(NEXT + MSS));
    let told: Vec<_> = it.poll().iter().map(said).collect();
    let duplicate = Said {
        direction: ToGuest,
        seq: 1,
        ack: NEXT + MSS,
        flags: TcpFlags::ACK,
        payload: 0,
        sack: vec![(NEXT + 2 * MSS, NEXT + 3 * MSS)],
    };
    assert_eq!(told.len(), 3);
    assert!(told.iter().all(|said| *said == duplicate), "{told:?}");
    // The guest sends it again: all leaves in order.
    it.sent(&data(NEXT + MSS, 1));
    let mss = MSS as usize;
    let left: Vec<_> = (1..4).map(|n| (NEXT + n * MSS, mss)).collect();
    assert_eq!(sizes(&mut it), left);
}

/// A rate below one segment in a round trip (vCC §2, "Buffer ACKs").
#[test]
fn a_rate_paces_packets() {
    let program =
        "(def (Report (volatile acked 0)) (w 100000)) (when true (:= Cwnd w) (:= Rate 10000))";
    let mut it = Box::buffering(program, BufferConfig::default());
    it.open();
    it.sent(&data(1, 1));
    it.poll();
    it.now = ms(20);
    it.received(&ack(NEXT));
    // The first ten segments of a connection are not paced.
    it.sent(&data(NEXT, 16));
    let burst = sizes(&mut it).len();
    let mut times = Vec::new();
    let mut sent = NEXT + burst as u32 * MSS;
    while times.len() < 5 {
        let at = it.edge.next_timer().unwrap();
        it.now = at;
        it.edge.on_timer(at);
        for _ in sizes(&mut it) {
            times.push(at.as_nanos() / 1_000_000);
            sent += MSS;
        }
        it.received(&ack(sent));
    }
    let gaps: Vec<_> = times[1..]
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .collect();
    assert!(gaps.iter().all(|gap| (95..=105).contains(gap)), "{gaps:?}");
}

#[test]
fn clocks_never_go_back() {
    let clock = |value: u32| vec![TcpOption::Timestamps { value, echo: 7 }];
    let mut it = Box::buffering(&constant(2_000), BufferConfig::default());
    let with = |fields: Fields, value: u32| {
        let mut options = fields.options.clone();
        options.extend(clock(value));
        Fields { options, ..fields }
    };
    it.open_with(
        &with(syn(0, None, true), 1),
        &with(syn(0, Some(1), true), 1),
    );
    let mss = MSS - 12;
    let values = |packets: Vec<(Direction, Vec<u8>)>| -> Vec<(u32, u32)> {
        let values = packets.iter().map(|(_, bytes)| {
            let packet = Packet::parse_ip(bytes).unwrap();
            let tcp = packet.tcp().unwrap();
            let clock = tcp.option_summary().unwrap().timestamps.unwrap();
            ((tcp.seq().0 - 1) / mss, clock.0)
        });
        values.collect()
    };
    for n in 0..5 {
        it.sent(&Fields {
            payload: mss as usize,
            ..with(data(1 + n * mss, 0), 100 + n)
        });
        if n == 0 {
            it.poll();
            it.now = ms(20);
            it.received(&with(ack(1 + mss), 2));
        }
    }
    assert_eq!(values(it.poll()), [(1, 101), (2, 102)]);
    // A pure ACK overtakes what waits.
    it.sent(&with(data(1 + 5 * mss, 0), 111));
    it.now = ms(40);
    it.received(&with(ack(1 + 3 * mss), 3));
    assert_eq!(values(it.poll()), [(3, 111), (4, 111)]);
    // Sent again with the same clock.
    while it.edge.buffer_statistics().retransmissions == 0 {
        it.now = it.edge.next_timer().unwrap();
        it.edge.on_timer(it.now);
        for (_, value) in values(it.poll()) {
            assert_eq!(value, 111);
        }
    }
    assert!(flags(&it.received(&with(ack(1 + 5 * mss), 4))).contains(TcpFlags::ACK));
}

/// RFC 3168 §6.1.3, for the peer's data.
#[test]
fn marks_of_the_peers_data_are_echoed_in_what_the_box_writes() {
    let mut it = held(10);
    let from_peer = |n: u32, flags: TcpFlags, field: EcnCodepoint| {
        let fields = Fields {
            seq: 1 + n * MSS,
            payload: MSS as usize,
            flags: TcpFlags::ACK | flags,
            ..ack(NEXT)
        };
        let mut bytes = fields.packet(ToGuest);
        let layout = Layout::of_ip(&bytes).unwrap();
        Rewriter::new(&mut bytes, layout, Checksum::Complete).set_ecn(field);
        bytes
    };
    let echoes = |it: &mut Box, seq: u32| {
        it.sent(&data(seq, 1));
        let left = it.poll();
        assert_eq!(left.len(), 1);
        flags(&left[0].1).contains(TcpFlags::ECE)
    };
    assert!(!echoes(&mut it, NEXT));
    let marked = from_peer(0, TcpFlags::NONE, EcnCodepoint::Ce);
    let seen = it.pass(ToGuest, marked).unwrap();
    assert_eq!(ecn(&seen), EcnCodepoint::NotEct);
    assert!(echoes(&mut it, NEXT + MSS));
    assert!(echoes(&mut it, NEXT + 2 * MSS));
    it.pass(ToGuest, from_peer(1, TcpFlags::CWR, EcnCodepoint::Ect0));
    assert!(!echoes(&mut it, NEXT + 3 * MSS));
}

/// What the box writes has the guest's Ethernet header, hop limit and DSCP.
#[test]
fn frames_keep_their_headers() {
    let mut it = Box::buffering(&constant(2_000), BufferConfig::default());
    let mut pass = |direction, fields: Fields| {
        let mut frame: Vec<u8> = (0..12).collect();
        frame.extend([0x08, 0x00]);
        let mut ip = fields.packet(direction);
        // A hop less, and a class of service: the checksum of IP's header follows.
        ip[8] -= 1;
        ip[1] = 0xb8;
        ip[10..12].fill(0);
        let sum = checksum::Sum::ZERO.bytes(&ip[..20]).checksum();
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        frame.extend(ip);
        let packet = PortPacket {
            interface: key().interface,
            direction,
            bytes: &mut frame,
            is_ethernet: true,
            checksum: Checksum::Complete,
        };
        let verdict = it.edge.on_packet(ms(0), packet);
        (verdict, it.edge.poll_transmit(ms(0)))
    };
    pass(FromGuest, syn(0, None, true));
    pass(ToGuest, syn(0, Some(1), true));
    let (verdict, outgoing) = pass(FromGuest, data(1, 1));
    assert_eq!(verdict, Verdict::Taken);
    let outgoing = outgoing.unwrap();
    assert!(outgoing.is_ethernet);
    assert_eq!(outgoing.bytes[..12], (0..12).collect::<Vec<u8>>());
    let packet = Packet::parse_ethernet(&outgoing.bytes).unwrap();
    assert!(packet.has_valid_checksums());
    assert_eq!(
        (packet.ip_bytes()[8], packet.traffic_class() >> 2),
        (63, 0xb8 >> 2)
    );
}

/// RFC 7413 §3: the peer takes the data of the SYN, or it does not. That data is the guest's to send again.
#[test]
fn data_in_a_syn_is_the_guests_to_repair() {
    for is_taken in [true, false] {
        let mut it = Box::buffering(&constant(10_000), BufferConfig::default());
        let opening = Fields {
            payload: 500,
            ..syn(0, None, true)
        };
        assert!(it.sent(&opening).is_some());
        let acked = if is_taken { 501 } else { 1 };
        it.received(&syn(0, Some(acked), true));
        if !is_taken {
            let again = Fields {
                payload: 500,
                ..data(1, 0)
            };
            assert!(it.sent(&again).is_some());
        }
        assert_eq!(it.sent(&data(501, 2)), None);
        let mss = MSS as usize;
        assert_eq!(sizes(&mut it), [(501, mss), (501 + MSS, mss)]);
        if !is_taken {
            // It was lost: the guest hears of it, blocks and all, and sends it once more.
            it.now = ms(20);
            let duplicate = Fields {
                sack: vec![(501, 501 + 2 * MSS)],
                ..ack(1)
            };
            for _ in 0..3 {
                let seen = said(&(ToGuest, it.received(&duplicate)));
                assert_eq!((seen.ack, seen.sack), (1, duplicate.sack.clone()));
            }
            let again = Fields {
                payload: 500,
                ..data(1, 0)
            };
            assert!(it.sent(&again).is_some());
        }
        it.now = ms(40);
        it.received(&ack(501 + 2 * MSS));
        assert_eq!(it.sent(&data(501 + 2 * MSS, 1)), None);
        assert_eq!(sizes(&mut it), [(501 + 2 * MSS, mss)]);
    }
}
