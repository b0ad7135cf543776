//! Random packets through the box in Rust and through the programs in the kernel: after each packet both
//! agree on its bytes, on the verdict, on the connection, on the program's variables and on the counters.

use std::cell::RefCell;
use std::time::Duration;

use fairwater_edge::{Direction, FlowKey, Treatment};
use fairwater_lang::{Program, compile};
use fairwater_net::Time;
use fairwater_plane::Plane;
use fairwater_wire::{EcnCodepoint, TcpFlags, TcpOption};
use proptest::prelude::*;

use crate::frames::{Packet, Path};
use crate::kernel::{Kernel, is_privileged};
use crate::pair::Pair;
use crate::steps::{Step, Syn, codepoint, step, syn};

/// Keeps all that it is told, and makes windows of it.
const RECORDER: &str = "(def (Report (volatile acked 0) (volatile calls 0))
        (bytes 0) (packets 0) (misordered 0) (misordered_packets 0) (ecn_bytes 0) (ecn_packets 0)
        (lost 0) (now 0) (flight 0) (flight_packets 0) (pending 0) (incoming 0) (outgoing 0)
        (rtt 0) (timeouts 0) (limited 0) (w 10000))
    (when true
        (:= Report.acked (+ Report.acked Ack.bytes_acked))
        (:= Report.calls (+ Report.calls 1))
        (:= bytes (+ bytes Ack.bytes_acked))
        (:= packets (+ packets Ack.packets_acked))
        (:= misordered (+ misordered Ack.bytes_misordered))
        (:= misordered_packets (+ misordered_packets Ack.packets_misordered))
        (:= ecn_bytes (+ ecn_bytes Ack.ecn_bytes))
        (:= ecn_packets (+ ecn_packets Ack.ecn_packets))
        (:= lost (+ lost Ack.lost_pkts_sample))
        (:= now Ack.now)
        (:= flight Flow.bytes_in_flight)
        (:= flight_packets Flow.packets_in_flight)
        (:= pending Flow.bytes_pending)
        (:= incoming Flow.rate_incoming)
        (:= outgoing Flow.rate_outgoing)
        (:= rtt Flow.rtt_sample_us)
        (:= timeouts (+ timeouts (if Flow.was_timeout 1 0)))
        (:= limited (if Flow.app_limited 1 0))
        (:= w (+ 2000 (+ (/ bytes 8) (* 700 Report.calls))))
        (:= Cwnd w)
        (fallthrough))
    (when (> Ack.lost_pkts_sample 0) (:= Cwnd 3000) (fallthrough))
    (when (> Report.calls 5) (report))";

/// The window that a rate makes.
const BY_RATE: &str = "(def (Report (volatile acked 0)) (rate 50000))
    (when true
        (:= Report.acked (+ Report.acked Ack.bytes_acked))
        (:= rate (+ 20000 (/ Flow.rate_incoming 2)))
        (:= Rate rate) (:= Cwnd 40000) (fallthrough))
    (when (> Report.acked 9000) (report))";

/// A program that makes no window.
const FAULTY: &str = "(def (Report (volatile acked 0)) (left 6))
    (when true (:= left (- left 1)) (:= Cwnd (* left 2000)))";

fn compiled(source: &str) -> Program {
    let compiled = compile("test", source).unwrap_or_else(|why| panic!("{why}"));
    compiled.program
}

fn reno() -> Program {
    let mut plane = Plane::new();
    let choice = fairwater_algorithms::by_spec("reno").unwrap();
    plane.add(|programs| choice.build(programs)).unwrap();
    plane.algorithms()[0].programs()[0].program().clone()
}

/// How a connection begins.
#[derive(Debug, Clone)]
struct Opening {
    guest: Syn,
    peer: Syn,
    guest_iss: u32,
    peer_iss: u32,
    by_peer: bool,
    /// The box has not seen the SYNs.
    midway: bool,
    /// How the peer answers an offer of ECN.
    answer: u8,
    path: Path,
}

fn opening() -> impl Strategy<Value = Opening> {
    let iss = || prop_oneof![any::<u32>(), (u32::MAX - 5_000)..=u32::MAX];
    let tags = prop::sample::select(vec![&[][..], &[], &[7], &[100, 7]]);
    let port = prop::sample::select(vec![40_000u16, 40_000, 40_000, 40_000, 20_000]);
    let path = (any::<bool>(), tags, port).prop_map(|(is_v6, tags, guest_port)| Path {
        is_v6,
        tags,
        guest_port,
    });
    (
        (syn(), syn(), iss(), iss()),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.1),
        prop_oneof![3 => Just(0b001u8), 1 => Just(0b011), 1 => Just(0)],
        path,
    )
        .prop_map(
            |((guest, peer, guest_iss, peer_iss), by_peer, midway, answer, path)| Opening {
                guest,
                peer,
                guest_iss,
                peer_iss,
                by_peer,
                midway,
                answer,
                path,
            },
        )
}

/// A guest and its peer, beside the two boxes.
struct Run<'a> {
    pair: Pair<'a>,
    opening: Opening,
    now: Time,
    keys: Vec<FlowKey>,
    /// Offsets of the guest's data: what is acknowledged and what is sent.
    una: u32,
    nxt: u32,
    /// Of each byte, whether it has arrived.
    arrived: Vec<bool>,
    on_way: Vec<(u32, u32)>,
    answers: Vec<Packet>,
    /// Next sequence number of the peer.
    peer_next: u32,
    peer_window: u16,
    last: Packet,
    /// The peer has been offered ECN, and has agreed.
    ecn: bool,
}

type Outcome = Result<(), TestCaseError>;

impl<'a> Run<'a> {
    fn new(pair: Pair<'a>, opening: Opening) -> Self {
        let keys = vec![opening.path.key()];
        let last = Packet {
            direction: Direction::FromGuest,
            seq: 0,
            ack: 0,
            flags: TcpFlags::ACK,
            window: 500,
            payload: 0,
            ecn: EcnCodepoint::NotEct,
            options: Vec::new(),
            sack: Vec::new(),
        };
        Self {
            pair,
            now: Time::from_millis(1_000),
            keys,
            una: 0,
            nxt: 0,
            arrived: Vec::new(),
            on_way: Vec::new(),
            answers: Vec::new(),
            peer_next: opening.peer_iss.wrapping_add(1),
            peer_window: opening.peer.window,
            last,
            ecn: false,
            opening,
        }
    }

    fn first(&self) -> u32 {
        self.opening.guest_iss.wrapping_add(1)
    }

    fn timestamps(&self, from_guest: bool) -> Option<TcpOption<'static>> {
        let clock = (self.now.as_nanos() / 4_000_000) as u32;
        let has = self.opening.guest.timestamps && self.opening.peer.timestamps;
        has.then_some(TcpOption::Timestamps {
            value: clock,
            echo: if from_guest { 1 } else { clock.wrapping_sub(5) },
        })
    }

    fn pass(&mut self, packet: &Packet) -> Result<Option<Vec<u8>>, TestCaseError> {
        let frame = self.opening.path.frame(packet);
        self.last = packet.clone();
        self.pass_frame(packet.direction, &frame)
            .map_err(|why| TestCaseError::fail(format!("{why}, after {packet:?}")))
    }

    fn pass_frame(
        &mut self,
        direction: Direction,
        frame: &[u8],
    ) -> Result<Option<Vec<u8>>, String> {
        self.pair.pass(self.now, direction, frame, &self.keys)
    }

    fn packet(&self, direction: Direction) -> Packet {
        let from_guest = direction == Direction::FromGuest;
        Packet {
            direction,
            seq: if from_guest {
                self.first().wrapping_add(self.nxt)
            } else {
                self.peer_next
            },
            ack: if from_guest {
                self.peer_next
            } else {
                self.first().wrapping_add(self.una)
            },
            window: if from_guest { 500 } else { self.peer_window },
            options: self.timestamps(from_guest).into_iter().collect(),
            flags: TcpFlags::ACK,
            payload: 0,
            ecn: EcnCodepoint::NotEct,
            sack: Vec::new(),
        }
    }

    fn syn(&self, direction: Direction, ack: bool) -> Packet {
        let (own, seq, other) = match direction {
            Direction::FromGuest => (
                &self.opening.guest,
                self.opening.guest_iss,
                self.opening.peer_iss,
            ),
            Direction::ToGuest => (
                &self.opening.peer,
                self.opening.peer_iss,
                self.opening.guest_iss,
            ),
        };
        Packet {
            seq,
            ack: if ack { other.wrapping_add(1) } else { 0 },
            flags: if ack {
                own.flags() | TcpFlags::ACK
            } else {
                own.flags()
            },
            window: own.window,
            payload: own.payload,
            options: own.options(ack),
            ..self.packet(direction)
        }
    }

    fn open(&mut self) -> Outcome {
        let (first, second) = if self.opening.by_peer {
            (Direction::ToGuest, Direction::FromGuest)
        } else {
            (Direction::FromGuest, Direction::ToGuest)
        };
        if self.opening.midway {
            return Ok(());
        }
        let left = self.pass(&self.syn(first, false))?;
        let mut answer = self.syn(second, true);
        let offered = left.is_some_and(|frame| is_offer(&frame));
        if offered && second == Direction::ToGuest {
            answer.flags = (TcpFlags::SYN | TcpFlags::ACK).with_ace(self.opening.answer);
            self.ecn = self.opening.answer == 0b001;
        }
        self.pass(&answer)?;
        let guest_data = self.opening.guest.payload as u32;
        self.nxt = guest_data;
        self.arrived.resize(guest_data as usize, true);
        self.peer_next = self
            .peer_next
            .wrapping_add(self.opening.peer.payload as u32);
        self.una = guest_data;
        self.pass(&self.packet(first))?;
        Ok(())
    }

    fn cumulative(&self) -> u32 {
        let first = self.arrived.iter().position(|arrived| !arrived);
        first.unwrap_or(self.arrived.len()) as u32
    }

    /// The first ranges above what has arrived in order.
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
        let wire = |offset: u32| self.first().wrapping_add(offset);
        blocks
            .into_iter()
            .map(|(a, b)| (wire(a), wire(b)))
            .collect()
    }

    fn data(&self, start: u32, length: u32) -> Packet {
        Packet {
            seq: self.first().wrapping_add(start),
            payload: length as usize,
            ..self.packet(Direction::FromGuest)
        }
    }

    fn send(&mut self, start: u32, length: u32, push: bool) -> Outcome {
        let mut packet = self.data(start, length);
        if push {
            packet.flags = packet.flags | TcpFlags::PSH;
        }
        if self.pass(&packet)?.is_some() {
            self.on_way.push((start, length));
            self.nxt = self.nxt.max(start + length);
            self.arrived.resize(self.nxt as usize, false);
        }
        Ok(())
    }

    fn deliver(&mut self, which: u8, marked: bool) {
        if self.on_way.is_empty() {
            return;
        }
        let at = usize::from(which) % self.on_way.len().min(6);
        let (start, length) = self.on_way.remove(at);
        self.arrived[start as usize..(start + length) as usize].fill(true);
        let sack = self.opening.guest.sack && self.opening.peer.sack;
        let mut answer = self.packet(Direction::ToGuest);
        answer.ack = self.first().wrapping_add(self.cumulative());
        answer.sack = if sack { self.blocks() } else { Vec::new() };
        if marked {
            answer.flags = answer.flags | TcpFlags::ECE;
        }
        self.answers.push(answer);
    }

    fn answer(&mut self, which: u8, stays: bool) -> Outcome {
        if self.answers.is_empty() {
            return Ok(());
        }
        let at = usize::from(which) % self.answers.len().min(3);
        let mut answer = self.answers[at].clone();
        if !stays {
            self.answers.remove(at);
        }
        answer.window = self.peer_window;
        self.una = self.una.max(answer.ack.wrapping_sub(self.first()));
        self.pass(&answer)?;
        Ok(())
    }

    fn reopen(&mut self, iss: u32, packets: u8) -> Outcome {
        let (guest, peer) = (iss, iss.wrapping_mul(3));
        let mut syn = self.syn(Direction::FromGuest, false);
        syn.seq = guest;
        let mut answer = self.syn(Direction::ToGuest, true);
        (answer.seq, answer.ack) = (peer, guest.wrapping_add(1));
        let mut third = self.packet(Direction::FromGuest);
        (third.seq, third.ack) = (guest.wrapping_add(1), peer.wrapping_add(1));
        for packet in [&syn, &answer, &third].into_iter().take(packets.into()) {
            self.pass(packet)?;
        }
        if packets >= 3 {
            (self.opening.guest_iss, self.opening.peer_iss) = (guest, peer);
            (self.una, self.nxt) = (0, 0);
            self.peer_next = peer.wrapping_add(1);
            self.arrived.clear();
            self.on_way.clear();
            self.answers.clear();
        }
        Ok(())
    }

    fn forged(&mut self, to_guest: bool) -> Packet {
        self.packet(if to_guest {
            Direction::ToGuest
        } else {
            Direction::FromGuest
        })
    }

    fn step(&mut self, step: Step) -> Outcome {
        self.now = self.now + Duration::from_micros(137);
        match step {
            Step::Send { length, push } => self.send(self.nxt, length, push)?,
            Step::Again { at, length, head } if self.nxt > self.una => {
                let at = if head {
                    0
                } else {
                    u32::from(at) % (self.nxt - self.una)
                };
                let start = self.una + at;
                self.send(start, length.min(self.nxt - start), true)?;
            }
            Step::Deliver { which, marked } => self.deliver(which, marked),
            Step::Lose(which) if !self.on_way.is_empty() => {
                self.on_way.remove(usize::from(which) % self.on_way.len());
            }
            Step::Answer { which, stays } => self.answer(which, stays)?,
            Step::FromPeer { length, ecn, cwr } => {
                let mut packet = self.packet(Direction::ToGuest);
                packet.payload = length as usize;
                packet.ecn = codepoint(ecn);
                if cwr {
                    packet.flags = packet.flags | TcpFlags::CWR;
                }
                self.pass(&packet)?;
                self.peer_next = self.peer_next.wrapping_add(length);
            }
            Step::Acknowledge { window } => {
                let mut packet = self.packet(Direction::FromGuest);
                packet.window = window;
                self.pass(&packet)?;
            }
            Step::Window(window) => self.peer_window = window,
            Step::ForgeReset {
                to_guest,
                seq,
                near,
            } => {
                let mut packet = self.forged(to_guest);
                packet.flags = TcpFlags::RST;
                packet.seq = if near { packet.seq } else { seq };
                self.pass(&packet)?;
            }
            Step::Forge {
                to_guest,
                seq,
                ack,
                flags,
                length,
            } => {
                let mut packet = self.forged(to_guest);
                packet.seq = if seq % 3 == 0 {
                    seq
                } else {
                    packet.seq.wrapping_add(seq % 5_000)
                };
                packet.ack = if ack % 3 == 0 {
                    ack
                } else {
                    packet.ack.wrapping_add(ack % 5_000)
                };
                packet.flags = TcpFlags::from_bits(flags & !0x2);
                packet.payload = length.into();
                self.pass(&packet)?;
            }
            Step::Fin { to_guest } => {
                let mut packet = self.forged(to_guest);
                packet.flags = packet.flags | TcpFlags::FIN;
                self.pass(&packet)?;
            }
            Step::SynAgain { to_guest } => {
                let direction = if to_guest {
                    Direction::ToGuest
                } else {
                    Direction::FromGuest
                };
                let packet = self.syn(direction, to_guest != self.opening.by_peer);
                self.pass(&packet)?;
            }
            Step::Reopen { iss, packets } => self.reopen(iss, packets)?,
            Step::Damage {
                to_guest,
                at,
                value,
                cut,
            } => {
                let packet = self.forged(to_guest);
                let mut frame = self.opening.path.frame(&packet);
                let at = usize::from(at) % frame.len();
                if cut {
                    frame.truncate(at.max(14));
                } else {
                    frame[at] = value;
                }
                if !Kernel::takes(&frame) {
                    return Ok(());
                }
                self.pass_frame(packet.direction, &frame)
                    .map_err(|why| TestCaseError::fail(format!("{why}, after {frame:02x?}")))?;
            }
            Step::Wait(ms) => {
                for _ in 0..ms {
                    self.now = self.now + Duration::from_millis(1);
                    self.pair.wait(self.now);
                }
            }
            Step::Silence => self.pair.silence(),
            _ => {}
        }
        Ok(())
    }
}

fn is_offer(frame: &[u8]) -> bool {
    let packet = fairwater_wire::Packet::parse_ethernet(frame).unwrap();
    let flags = packet.tcp().unwrap().flags();
    flags.contains(TcpFlags::ECE | TcpFlags::CWR)
}

fn treatments() -> impl Strategy<Value = Treatment> {
    let max_scale = prop_oneof![Just(None), (0u8..8).prop_map(Some)];
    (prop::bool::weighted(0.7), any::<bool>(), max_scale).prop_map(|(ecn, police, max_scale)| {
        Treatment {
            ecn,
            police,
            max_scale,
            ..Treatment::default()
        }
    })
}

/// Runs many random connections; `source` is the flows' program.
fn hold(program: &Program, cases: u32) {
    if !is_privileged() {
        return;
    }
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let steps = prop::collection::vec(step(), 0..150);
    let kernel = RefCell::new(Kernel::new(program));
    proptest!(config, |(opening in opening(), treatment in treatments(), steps in steps)| {
        let mut run = Run::new(Pair::new(program, &treatment, kernel.borrow_mut()), opening);
        run.open()?;
        for step in steps {
            run.step(step)?;
        }
    });
}

#[test]
fn a_program_that_keeps_all_signals() {
    hold(&compiled(RECORDER), 150);
}

#[test]
fn a_program_that_sets_a_rate() {
    hold(&compiled(BY_RATE), 50);
}

#[test]
fn a_program_that_faults() {
    hold(&compiled(FAULTY), 30);
}

#[test]
fn reno_itself() {
    hold(&reno(), 50);
}
