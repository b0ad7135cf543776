//! A guest with a TCP of its own, a box that holds its data, a path, and a peer, in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fairwater_edge::Direction;
use fairwater_net::Time;
use fairwater_tcp::{Block, Cause, Controls, Ecn, Receiver, Sender, State, TcpConfig};
use fairwater_wire::{Checksum, EcnCodepoint, Layout, Packet, Rewriter, Seq, TcpFlags, TcpOption};

use super::setup::{Fate, Outcome, Setup};
use crate::plane::Box;
use crate::support::{Fields, MSS, syn};

const SCALE: u8 = 7;

/// The byte of the stream at an offset.
fn byte(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn is(&mut self, thousandths: u64) -> bool {
        self.next() % 1000 < thousandths
    }
}

/// A sender with Reno (RFC 5681, RFC 6582).
struct Guest {
    sender: Sender,
    cwnd: u64,
    ssthresh: u64,
    reductions: u64,
    before: u64,
}

impl Guest {
    fn control(&mut self) {
        while let Some(said) = self.sender.poll_invocation() {
            let mss = u64::from(said.mss);
            if said.reductions > self.reductions {
                self.reductions = said.reductions;
                self.before = self.cwnd;
                self.ssthresh = (said.reduced_from / 2).max(2 * mss);
                self.cwnd = self.ssthresh;
            }
            if said.cause == Cause::Timeout {
                self.cwnd = mss;
            }
            if said.undone {
                self.cwnd = self.cwnd.max(self.before);
            } else if said.state <= State::Disorder && said.advanced && said.cwnd_limited {
                let acked = said.delivered_packets * mss;
                self.cwnd += if self.cwnd < self.ssthresh {
                    acked
                } else {
                    (acked * mss / self.cwnd).max(1)
                };
            } else if said.state == State::Loss && said.advanced {
                self.cwnd += said.delivered_packets * mss;
            }
            self.sender.set_controls(Controls {
                cwnd: self.cwnd,
                rate: 0,
            });
        }
    }
}

type Event = Reverse<(u64, u64, Direction2, Vec<u8>)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Direction2 {
    ToPeer,
    ToGuest,
}

pub(crate) struct Model {
    setup: Setup,
    it: Box,
    is_box_there: bool,
    remade: Option<std::boxed::Box<dyn Fn() -> Box>>,
    random: Random,
    now_us: u64,
    guest: Guest,
    guest_edge_scale: u8,
    peer: Receiver,
    /// TS.Recent and Last.ACK.sent of the peer (RFC 7323 §4.3).
    recent: u32,
    last_ack: u64,
    free_us: u64,
    under_way: BinaryHeap<Event>,
    order: u64,
    last_seen: Option<(u64, u16)>,
    outcome: Outcome,
}

impl Model {
    pub(crate) fn new(setup: &Setup, make: impl Fn() -> Box + 'static) -> Self {
        let mut it = make();
        let mss = if setup.timestamps { MSS - 12 } else { MSS };
        let config = TcpConfig {
            mss,
            sack: setup.sack,
            timestamps: setup.timestamps,
            handshake: false,
            receive_window: 10_000,
            ..TcpConfig::default()
        };
        let mut sender = Sender::new(&config, Time::ZERO);
        sender.write(setup.total);
        sender.close();
        let with_clock = |mut fields: Fields| {
            if setup.timestamps {
                let (value, echo) = (0, 0);
                fields.options.push(TcpOption::Timestamps { value, echo });
            }
            fields
        };
        it.now = Time::ZERO;
        let opening = with_clock(syn(setup.first.wrapping_sub(1), None, setup.sack));
        it.sent(&opening).unwrap();
        let answer = with_clock(syn(0, Some(setup.first), setup.sack));
        let answer = Fields {
            flags: answer.flags | TcpFlags::ECE,
            ..answer
        };
        it.received(&answer);
        it.sent(&Fields {
            seq: setup.first,
            ack: 1,
            ..Fields::default()
        });
        let receiver = TcpConfig {
            ecn: Ecn::Classic,
            receive_window: 4 << 20,
            delayed_ack: std::time::Duration::from_millis(40),
            ..config
        };
        Self {
            it,
            is_box_there: true,
            remade: Some(std::boxed::Box::new(make)),
            random: Random(setup.seed),
            now_us: 0,
            guest: Guest {
                sender,
                cwnd: 10 * u64::from(mss),
                ssthresh: u64::MAX,
                reductions: 0,
                before: 0,
            },
            guest_edge_scale: SCALE,
            peer: Receiver::new(&receiver, Time::ZERO),
            recent: 0,
            last_ack: 0,
            free_us: 0,
            under_way: BinaryHeap::new(),
            order: 0,
            last_seen: None,
            outcome: Outcome::default(),
            setup: setup.clone(),
        }
    }

    fn now(&self) -> Time {
        Time::from_micros(self.now_us)
    }

    pub(crate) fn run(mut self) -> Outcome {
        let ceil = |at: Time| at.as_nanos().div_ceil(1000);
        loop {
            self.transmit();
            if self.guest.sender.is_finished() {
                self.outcome.finished_ms = Some(self.now_us / 1000);
                break;
            }
            let arrival = self.under_way.peek().map(|event| event.0.0);
            let boxed = self.it.edge.next_timer().filter(|_| self.is_box_there);
            let timers = [
                self.guest.sender.next_timer(),
                self.peer.next_timer(),
                boxed,
            ];
            let change = match self.setup.fate {
                Fate::Dies(at) | Fate::Restarts(at) => Some(at * 1000),
                Fate::Lives => None,
            };
            let next = timers.into_iter().flatten().map(ceil);
            let Some(next) = next.chain(arrival).chain(change).min() else {
                break;
            };
            if next > self.setup.limit_ms * 1000 {
                break;
            }
            self.now_us = next.max(self.now_us);
            self.advance(change);
        }
        self.finish()
    }

    fn finish(mut self) -> Outcome {
        self.outcome.guest = self.guest.sender.counters();
        self.outcome.delivered = self.peer.delivered();
        self.outcome.is_fin_delivered = self.peer.is_finished();
        self.outcome.statistics = *self.it.edge.buffer_statistics();
        self.outcome
    }

    fn advance(&mut self, change: Option<u64>) {
        let now = self.now();
        self.it.now = now;
        if change.is_some_and(|at| at <= self.now_us) {
            match std::mem::replace(&mut self.setup.fate, Fate::Lives) {
                Fate::Restarts(_) => {
                    if let Some(make) = &self.remade {
                        self.it = make();
                        self.it.now = now;
                    }
                }
                _ => self.is_box_there = false,
            }
        }
        if self.is_box_there {
            // The plane lives, though nothing has passed for long.
            self.it.serve();
            self.it.edge.on_timer(now);
            self.it.serve();
        }
        self.guest.sender.on_timer(now);
        self.guest.control();
        self.peer.on_timer(now);
        while self.under_way.peek().is_some_and(|e| e.0.0 <= self.now_us) {
            let Some(Reverse((_, _, direction, bytes))) = self.under_way.pop() else {
                break;
            };
            match direction {
                Direction2::ToPeer => self.on_peer(&bytes),
                Direction2::ToGuest => {
                    let bytes = match self.is_box_there {
                        true => self.it.pass(Direction::ToGuest, bytes),
                        false => Some(bytes),
                    };
                    if let Some(bytes) = bytes {
                        self.on_guest(&bytes);
                    }
                    self.poll_box();
                }
            }
        }
    }

    /// What the guest, the box and the peer have to send.
    fn transmit(&mut self) {
        loop {
            let now = self.now();
            let mut segments = Vec::new();
            while let Some(segment) = self.guest.sender.poll_transmit(now) {
                segments.push(segment);
            }
            let is_idle = segments.is_empty();
            for (start, len, fin) in self.gathered(&segments) {
                self.send(start, len, fin);
            }
            self.poll_box();
            while let Some(ack) = self.peer.poll_transmit(now) {
                self.acknowledge(&ack);
            }
            if is_idle {
                return;
            }
        }
    }

    /// Segments as packets, or as super-packets: offset, length, FIN.
    fn gathered(&self, segments: &[fairwater_tcp::Segment]) -> Vec<(u64, u32, bool)> {
        let mut packets: Vec<(u64, u32, bool)> = Vec::new();
        for segment in segments {
            match packets.last_mut() {
                Some((start, len, fin))
                    if self.setup.gso
                        && !*fin
                        && *start + u64::from(*len) == segment.seq
                        && *len + segment.len < 16_000 =>
                {
                    *len += segment.len;
                    *fin = segment.fin;
                }
                _ => packets.push((segment.seq, segment.len, segment.fin)),
            }
        }
        packets
    }

    fn send(&mut self, start: u64, len: u32, fin: bool) {
        let mut flags = TcpFlags::ACK;
        if fin {
            flags = flags | TcpFlags::FIN;
        }
        let clock = self.setup.timestamps.then_some(TcpOption::Timestamps {
            value: self.now_us as u32,
            echo: 0,
        });
        let fields = Fields {
            seq: self.setup.first.wrapping_add(start as u32),
            ack: 1,
            flags,
            data: (start..start + u64::from(len)).map(byte).collect(),
            options: clock.into_iter().collect(),
            ..Fields::default()
        };
        if self.random.is(self.setup.guest_loss) {
            return;
        }
        let bytes = fields.packet(Direction::FromGuest);
        let passed = match self.is_box_there {
            true => self.it.pass(Direction::FromGuest, bytes),
            false => Some(bytes),
        };
        if let Some(bytes) = passed {
            self.carry(&bytes);
        }
        self.outcome.most_held = self.outcome.most_held.max(self.it.edge.held().1);
    }

    fn poll_box(&mut self) {
        if !self.is_box_there {
            return;
        }
        self.it.now = self.now();
        for (direction, bytes) in self.it.poll() {
            match direction {
                Direction::FromGuest => {
                    self.outcome.longest = self.outcome.longest.max(bytes.len());
                    self.carry(&bytes);
                }
                Direction::ToGuest => self.on_guest(&bytes),
            }
        }
        self.it.serve();
    }

    /// A packet, or the segments of a super-packet, into the path.
    fn carry(&mut self, bytes: &[u8]) {
        let packet = Packet::parse_ip(bytes).unwrap();
        let length = bytes.len() as u64;
        let tcp = packet.tcp().unwrap();
        let headers = length - tcp.payload().len() as u64;
        let is_super = tcp.payload().len() > MSS as usize;
        assert!(!is_super || self.setup.gso, "longer than the MSS");
        if is_super {
            for (n, part) in tcp.payload().chunks((MSS - 12) as usize).enumerate() {
                let at = n * (MSS - 12) as usize;
                let is_last = at + part.len() == tcp.payload().len();
                let flags = if is_last {
                    tcp.flags()
                } else {
                    tcp.flags().without(TcpFlags::FIN)
                };
                let clock = tcp.option_summary().unwrap().timestamps;
                let fields = Fields {
                    seq: tcp.seq().plus(at as u32).0,
                    ack: 1,
                    flags,
                    data: part.to_vec(),
                    options: clock
                        .map(|(value, echo)| TcpOption::Timestamps { value, echo })
                        .into_iter()
                        .collect(),
                    ..Fields::default()
                };
                let length = headers + part.len() as u64;
                self.carry_one(fields.packet(Direction::FromGuest), length);
            }
        } else {
            self.carry_one(bytes.to_vec(), length);
        }
    }

    fn carry_one(&mut self, mut bytes: Vec<u8>, length: u64) {
        let path = self.setup.path.clone();
        let waiting_us = self.free_us.saturating_sub(self.now_us);
        let queue = waiting_us * path.bytes_per_second / 1_000_000;
        if self.random.is(path.loss) || queue + length > path.queue_bytes {
            self.outcome.lost += 1;
            return;
        }
        let layout = Layout::of_ip(&bytes).unwrap();
        if queue > path.mark_above && layout.packet(&bytes).ecn() == EcnCodepoint::Ect0 {
            self.outcome.marked += 1;
            Rewriter::new(&mut bytes, layout, Checksum::Complete).set_ecn(EcnCodepoint::Ce);
        }
        self.free_us =
            self.free_us.max(self.now_us) + (length * 1_000_000).div_ceil(path.bytes_per_second);
        let mut at = self.free_us + path.one_way_us;
        if self.random.is(path.late) {
            at += path.late_us;
        }
        if self.random.is(path.twice) {
            self.post(at + 100, Direction2::ToPeer, bytes.clone());
        }
        self.post(at, Direction2::ToPeer, bytes);
    }

    fn post(&mut self, at: u64, direction: Direction2, bytes: Vec<u8>) {
        self.order += 1;
        self.under_way
            .push(Reverse((at, self.order, direction, bytes)));
    }

    /// A packet reaches the peer.
    fn on_peer(&mut self, bytes: &[u8]) {
        let packet = Packet::parse_ip(bytes).unwrap();
        let tcp = packet.tcp().unwrap();
        let next = self.last_ack;
        let distance = tcp
            .seq()
            .distance_from(Seq(self.setup.first).plus(next as u32));
        let Some(start) = next.checked_add_signed(i64::from(distance)) else {
            return;
        };
        for (offset, &there) in (start..).zip(tcp.payload()) {
            assert_eq!(there, byte(offset), "byte {offset} of the stream");
        }
        if let Some((value, _)) = tcp.option_summary().unwrap().timestamps {
            if Seq(value).is_before(Seq(self.recent)) {
                let end = start + tcp.payload().len() as u64;
                self.outcome.paws_drops += u64::from(end > self.last_ack);
                return;
            }
            if start <= self.last_ack {
                self.recent = value;
            }
        }
        if tcp.payload().is_empty() && !tcp.flags().contains(TcpFlags::FIN) && start >= next {
            return;
        }
        let end = start + tcp.payload().len() as u64;
        assert!(end <= self.setup.total, "beyond the stream");
        if tcp.flags().contains(TcpFlags::FIN) {
            assert_eq!(end, self.setup.total, "a FIN at the end");
        }
        let segment = fairwater_tcp::Segment {
            seq: start,
            len: tcp.payload().len() as u32,
            fin: tcp.flags().contains(TcpFlags::FIN),
            cwr: tcp.flags().contains(TcpFlags::CWR),
            ..fairwater_tcp::Segment::default()
        };
        let is_marked = packet.ecn() == EcnCodepoint::Ce;
        self.peer.on_segment(self.now(), &segment, is_marked);
    }

    fn acknowledge(&mut self, ack: &fairwater_tcp::Segment) {
        self.last_ack = ack.ack;
        let seq = |offset: u64| self.setup.first.wrapping_add(offset as u32);
        let clock = self.setup.timestamps.then_some(TcpOption::Timestamps {
            value: self.now_us as u32,
            echo: self.recent,
        });
        let blocks = ack.sack.iter().take(3);
        let fields = Fields {
            seq: 1,
            ack: seq(ack.ack),
            flags: match ack.ece {
                true => TcpFlags::ACK | TcpFlags::ECE,
                false => TcpFlags::ACK,
            },
            window: u16::try_from(ack.window >> SCALE).unwrap_or(u16::MAX),
            options: clock.into_iter().collect(),
            sack: blocks.map(|b| (seq(b.start), seq(b.end))).collect(),
            ..Fields::default()
        };
        if !self.random.is(self.setup.path.ack_loss) {
            let at = self.now_us + self.setup.path.one_way_us;
            self.post(at, Direction2::ToGuest, fields.packet(Direction::ToGuest));
        }
    }

    /// A packet reaches the guest.
    fn on_guest(&mut self, bytes: &[u8]) {
        if self.random.is(self.setup.guest_loss) {
            return;
        }
        let packet = Packet::parse_ip(bytes).unwrap();
        let tcp = packet.tcp().unwrap();
        let options = tcp.option_summary().unwrap();
        let acked = self.guest.sender.acked();
        let first = Seq(self.setup.first);
        let offset = |seq: Seq| {
            let from = first.plus(acked as u32);
            acked.checked_add_signed(i64::from(seq.distance_from(from)))
        };
        let Some(ack) = offset(tcp.ack()) else {
            return;
        };
        if self.last_seen == Some((ack, tcp.window())) && ack < self.setup.total {
            self.outcome.duplicates_seen += 1;
        }
        self.last_seen = Some((ack, tcp.window()));
        self.outcome.sacks_seen += u64::from(!options.sack().is_empty());
        self.outcome.echoes_seen += u64::from(tcp.flags().contains(TcpFlags::ECE));
        let sack = options.sack().iter().filter_map(|block| {
            Some(Block {
                start: offset(block.start)?,
                end: offset(block.end)?,
            })
        });
        let segment = fairwater_tcp::Segment {
            ack,
            sack: sack.filter(|block| block.start < block.end).collect(),
            window: u64::from(tcp.window()) << self.guest_edge_scale,
            timestamp: Time::from_micros(options.timestamps.map_or(0, |(_, e)| u64::from(e))),
            ..fairwater_tcp::Segment::default()
        };
        self.guest.sender.on_segment(self.now(), &segment);
        self.guest.control();
    }
}
