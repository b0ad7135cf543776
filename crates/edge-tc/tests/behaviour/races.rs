//! Packets of one flow on several CPUs at a time.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use fairwater_edge::Direction;
use fairwater_edge::track::TableConfig;
use fairwater_edge_tc::{Control, Fate, Rule, RuleVlan, run};
use fairwater_lang::compile;
use fairwater_wire::{EcnCodepoint, Seq, TcpFlags};

use crate::frames::{Packet, Path};
use crate::kernel::{Kernel, is_privileged};
use crate::steps::Syn;

const PATH: Path = Path {
    is_v6: false,
    tags: &[],
    guest_port: 40_000,
};
const MSS: u32 = 1_000;
const SEGMENTS: u32 = 20_000;

/// Sums up what it is told.
const SUM: &str = "(def (Report (volatile acked 0)) (bytes 0) (calls 0))
    (when true
        (:= bytes (+ bytes Ack.bytes_acked))
        (:= calls (+ calls 1))
        (:= Cwnd 30000)
        (fallthrough))
    (when false (report))";

/// Controls every connection.
const RULES: [Rule; 1] = [Rule {
    port_sets: 0,
    vlan: RuleVlan::Any,
    guest: None,
    peer: None,
    guest_ports: 0..=u16::MAX,
    peer_ports: 0..=u16::MAX,
    action: Some(Control {
        algorithm: 0,
        ecn: false,
        police: false,
        max_scale: None,
    }),
    buffer: false,
}];

fn packet(direction: Direction, seq: u32, ack: u32, payload: u32) -> Packet {
    Packet {
        direction,
        seq,
        ack,
        flags: TcpFlags::ACK,
        window: 60_000,
        payload: payload as usize,
        ecn: EcnCodepoint::NotEct,
        options: Vec::new(),
        sack: Vec::new(),
    }
}

/// The programs, and a rule that controls every connection.
fn controlling() -> Kernel {
    let program = compile("test", SUM).unwrap().program;
    let mut kernel = Kernel::new(&program);
    kernel.begin(&RULES);
    kernel
}

/// The three packets that open the connection.
fn opening() -> [Packet; 3] {
    let syn = Syn {
        mss: Some(MSS as u16),
        scale: Some(7),
        sack: true,
        timestamps: false,
        window: 64_000,
        ace: 0,
        exempting: None,
        payload: 0,
    };
    let mut first = packet(Direction::FromGuest, 0, 0, 0);
    (first.flags, first.options) = (TcpFlags::SYN, syn.options(false));
    let mut answer = packet(Direction::ToGuest, 0, 1, 0);
    (answer.flags, answer.options) = (TcpFlags::SYN | TcpFlags::ACK, syn.options(true));
    let third = packet(Direction::FromGuest, 1, 1, 0);
    [first, answer, third]
}

fn open(kernel: &mut Kernel) {
    for packet in opening() {
        kernel.pass(1_000_000_000, packet.direction, &PATH.frame(&packet));
    }
}

/// What a CPU counts while another runs the program is not lost, and the flow is not left claimed.
#[test]
fn every_byte_is_told_once() {
    if !is_privileged() {
        return;
    }
    let mut kernel = controlling();
    open(&mut kernel);
    let programs = &kernel.programs;
    let (from, to) = (programs.from_guest.as_fd(), programs.to_guest.as_fd());
    let sent = AtomicU32::new(1);
    let end = 1 + SEGMENTS * MSS;
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..SEGMENTS {
                let seq = 1 + n * MSS;
                let frame = PATH.frame(&packet(Direction::FromGuest, seq, 1, MSS));
                run(from, &frame, &mut [0; 2_048], 1).unwrap();
                sent.store(seq + MSS, Ordering::Release);
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let mut ack = 1;
                while ack < end {
                    ack = sent.load(Ordering::Acquire);
                    let frame = PATH.frame(&packet(Direction::ToGuest, 1, ack, 0));
                    // Again and again without a system call in between, so that the CPUs meet.
                    run(to, &frame, &mut [0; 2_048], 30).unwrap();
                }
            });
        }
    });
    // What nobody was told of yet comes with the next ACK that is heard of.
    let more = packet(Direction::FromGuest, end, 1, MSS);
    kernel.pass(1_000_000_000, Direction::FromGuest, &PATH.frame(&more));
    let last = packet(Direction::ToGuest, 1, end + MSS, 0);
    kernel.pass(1_000_000_000, Direction::ToGuest, &PATH.frame(&last));
    let connection = kernel.programs.connection(&PATH.key()).unwrap().unwrap();
    assert_eq!(
        (connection.una, connection.nxt),
        (Seq(end + MSS), Seq(end + MSS))
    );
    let Fate::Controlled(slot) = connection.fate else {
        panic!("{connection:?}");
    };
    let [_, bytes, calls] = kernel.variables(slot, 3)[..] else {
        panic!("three variables");
    };
    assert_eq!(bytes, u64::from(SEGMENTS + 1) * u64::from(MSS));
    assert!(calls > 10, "{calls} invocations");
}

/// Two packets that both prove that a connection is open take one slot, though two CPUs see them at a time.
#[test]
fn a_connection_that_two_cpus_open_takes_one_slot() {
    if !is_privileged() {
        return;
    }
    let mut kernel = controlling();
    let [first, answer, third] = opening();
    let third = PATH.frame(&third);
    for round in 0..500 {
        kernel.begin(&RULES);
        for packet in [&first, &answer] {
            kernel.pass(1_000_000_000, packet.direction, &PATH.frame(packet));
        }
        let from = kernel.programs.from_guest.as_fd();
        let arrived = AtomicU32::new(0);
        let pass = || {
            arrived.fetch_add(1, Ordering::AcqRel);
            while arrived.load(Ordering::Acquire) < 2 {
                std::hint::spin_loop();
            }
            run(from, &third, &mut [0; 2_048], 1).unwrap();
        };
        thread::scope(|scope| {
            scope.spawn(pass);
            pass();
        });
        let connection = kernel.programs.connection(&PATH.key()).unwrap().unwrap();
        let is_controlled = matches!(connection.fate, Fate::Controlled(_));
        assert!(is_controlled, "round {round}: {connection:?}");
    }
}

/// A connection may be forgotten while a CPU runs its flow's program: the slot is freed once, and only then.
#[test]
fn a_flow_that_ends_under_its_program_ends_once() {
    if !is_privileged() {
        return;
    }
    let mut kernel = controlling();
    let data = PATH.frame(&packet(Direction::FromGuest, 1, 1, MSS));
    let duplicate = PATH.frame(&packet(Direction::ToGuest, 1, 1, 0));
    let at_once = TableConfig {
        idle: Duration::ZERO,
        closing: Duration::ZERO,
        ..TableConfig::default()
    };
    let mut slots = BTreeSet::new();
    for _ in 0..300 {
        open(&mut kernel);
        kernel.pass(1_000_000_000, Direction::FromGuest, &data);
        let connection = kernel.programs.connection(&PATH.key()).unwrap().unwrap();
        let Fate::Controlled(slot) = connection.fate else {
            panic!("{connection:?}");
        };
        slots.insert(slot);
        let to = kernel.programs.to_guest.as_fd();
        let begun = AtomicU32::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                begun.store(1, Ordering::Release);
                run(to, &duplicate, &mut [0; 2_048], 20_000).unwrap();
            });
            while begun.load(Ordering::Acquire) == 0 {
                std::hint::spin_loop();
            }
            // The system call has begun then, and takes some milliseconds.
            thread::sleep(Duration::from_micros(500));
            assert_eq!(kernel.programs.expire(&at_once).unwrap(), 1);
        });
        assert_eq!(kernel.programs.connection(&PATH.key()).unwrap(), None);
        // Hears of the end, which comes once (`Kernel::begin`).
        kernel.serve(1_000_000_000);
    }
    kernel.begin(&RULES);
    assert!(slots.len() <= 2, "slots are not given back: {slots:?}");
}
