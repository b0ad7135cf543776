//! What the programs at a guest's port cost per packet, by the kernel's own measurement of
//! `BPF_PROG_TEST_RUN`. First one run per packet, each of another flow chosen at random, with the caches as a
//! system call leaves them; then the same of one flow; then one flow's packet again and again: data that was sent
//! before, and an ACK that says nothing new, for which the flow's program runs too where that is controlled.
//!
//! `cargo run --release -p fairwater-edge-tc --example cost [FLOWS...]`, by default 1,000, 10,000 and 100,000

#![expect(clippy::unwrap_used, reason = "a measurement that fails is none")]
#![expect(clippy::print_stdout, reason = "its output")]

use std::env;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use fairwater_edge_tc::{Control, Options, Programs, Rule, run};
use fairwater_exec::ebpf::fit;
use fairwater_kernel::{NamedProgram, PAGE_BYTES, PlanePage, Shared, load, now_us};
use fairwater_lang::compile;
use fairwater_wire::{Checksum, EcnCodepoint, Seq, TcpFlags, TcpOption, VlanTags, compose};
use libbpf_rs::{MapCore, MapFlags};

/// Offset in a frame of the index of the flow's program.
const PROGRAM: usize = 44;
const MSS: u32 = 1448;
const PACKETS: usize = 20_000;
/// Bytes of the headers of IPv4 and TCP without options.
const IP_AND_TCP: usize = 40;

/// Grows by what is acknowledged, halves at losses: about the work of Reno in one program.
const PROGRAM_SOURCE: &str = "(def (Report (volatile acked 0) (volatile lost 0)))
    (when true
        (:= Report.acked (+ Report.acked Ack.bytes_acked))
        (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
        (:= Cwnd (min 65000 (+ Cwnd (/ (* 1448 Ack.bytes_acked) Cwnd))))
        (fallthrough))
    (when (> Ack.lost_pkts_sample 0) (:= Cwnd (max 2896 (/ Cwnd 2))))";

fn main() {
    println!("ns per packet: 10 %, median, 90 %; the floor (a packet that is no IP) is included");
    println!(
        "{:>8} {:>10} {:>16} {:>16} {:>16}",
        "flows", "", "floor", "data", "ACK"
    );
    let chosen: Vec<u32> = env::args().skip(1).map(|n| n.parse().unwrap()).collect();
    let default = [1_000, 10_000, 100_000];
    for &flows in if chosen.is_empty() {
        &default[..]
    } else {
        &chosen
    } {
        for is_controlled in [false, true] {
            measure(flows, is_controlled);
        }
    }
}

fn measure(flows: u32, is_controlled: bool) {
    let program = compile("cost", PROGRAM_SOURCE).unwrap().program;
    let layout = fit([&program]);
    let programs = Programs::load(&Options {
        max_flows: if is_controlled { flows } else { 1 },
        max_connections: flows + flows / 4,
        silent_after: Duration::from_secs(3600),
        ..Options::new(layout)
    })
    .unwrap();
    let rule = Rule {
        action: is_controlled.then_some(Control {
            algorithm: 0,
            ecn: true,
            police: true,
            max_scale: Some(3),
        }),
        ..Rule::default()
    };
    programs.set_rules(&[rule]).unwrap();
    let named = NamedProgram {
        algorithm: "cost",
        name: "cost",
        program: &program,
        idle_restart: true,
    };
    let loaded = load(&named, layout, &programs.target(0)).unwrap();
    let fd = loaded.as_raw_fd().to_ne_bytes();
    programs
        .programs
        .update(&0u32.to_ne_bytes(), &fd, MapFlags::ANY)
        .unwrap();
    let page = PlanePage::new(Shared::writable(programs.page.as_fd(), PAGE_BYTES).unwrap());
    page.heartbeat_us().store(now_us(), Relaxed);
    for flow in 0..flows {
        open(&programs, flow);
    }
    if is_controlled {
        let bytes = layout.size() * flows as usize;
        let frames = Shared::writable(programs.frames.as_fd(), bytes).unwrap();
        for slot in 0..flows as usize {
            frames.u32(layout.size() * slot + PROGRAM).store(0, Relaxed);
        }
    }
    let mut sent = vec![1u32; flows as usize];
    let many = singly(&programs, &mut sent);
    let one = singly(&programs, &mut sent[..1]);
    let what = if is_controlled {
        "controlled"
    } else {
        "measured"
    };
    for ([floor, data, acks], which) in [(many, ""), (one, "   one flow")] {
        println!("{flows:>8} {what:>10} {floor:>16} {data:>16} {acks:>16}{which}");
    }
    let again = packet(0, true, sent[0], 1, TcpFlags::ACK, 1);
    let same = packet(0, false, 1, sent[0], TcpFlags::ACK, 0);
    let (from, to) = (programs.from_guest.as_fd(), programs.to_guest.as_fd());
    let [floor, data, acks] = [(from, &[0; 60][..]), (from, &again), (to, &same)].map(hot);
    println!("{flows:>8} {what:>10} {floor:>16} {data:>16} {acks:>16}   one flow, hot");
}

/// Quantiles of the floor, of new data and of ACKs of it, each packet of a flow chosen at random. `sent` has the
/// flows' next sequence numbers.
fn singly(programs: &Programs, sent: &mut [u32]) -> [String; 3] {
    let (mut floor, mut data, mut acks) = (Vec::new(), Vec::new(), Vec::new());
    let (from, to) = (programs.from_guest.as_fd(), programs.to_guest.as_fd());
    let mut random = 88_172_645_463_325_252u64;
    for _ in 0..PACKETS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let flow = (random % sent.len() as u64) as u32;
        let nxt = &mut sent[flow as usize];
        floor.push(pass(from, &[0; 60]));
        data.push(pass(from, &packet(flow, true, *nxt, 1, TcpFlags::ACK, 1)));
        *nxt += MSS;
        acks.push(pass(to, &packet(flow, false, 1, *nxt, TcpFlags::ACK, 0)));
    }
    [floor, data, acks].map(quantiles)
}

/// The least mean of many repetitions: what the programs cost when nothing disturbs them.
fn hot((program, frame): (BorrowedFd<'_>, &[u8])) -> u32 {
    let mean = |_| run(program, frame, &mut [0; 2048], 4_000).unwrap().nanos;
    (0..50).map(mean).min().unwrap_or(0)
}

fn quantiles(mut nanos: Vec<u32>) -> String {
    nanos.sort_unstable();
    let at = |percent: usize| nanos[nanos.len() * percent / 100];
    format!("{} {} {}", at(10), at(50), at(90))
}

fn pass(program: BorrowedFd<'_>, frame: &[u8]) -> u32 {
    run(program, frame, &mut [0; 2048], 1).unwrap().nanos
}

fn open(programs: &Programs, flow: u32) {
    let (from, to) = (programs.from_guest.as_fd(), programs.to_guest.as_fd());
    pass(from, &packet(flow, true, 0, 0, TcpFlags::SYN, 0));
    let answer = TcpFlags::SYN | TcpFlags::ACK | TcpFlags::ECE;
    pass(to, &packet(flow, false, 0, 1, answer, 0));
    pass(from, &packet(flow, true, 1, 1, TcpFlags::ACK, 0));
}

/// A segment of the flow of that number, with so many times the MSS of data.
fn packet(
    flow: u32,
    from_guest: bool,
    seq: u32,
    ack: u32,
    flags: TcpFlags,
    segments: u32,
) -> Vec<u8> {
    let guest = ([10, 0, (flow >> 24) as u8, (flow >> 16) as u8], flow as u16);
    let peer = ([192, 0, 2, 1], 443);
    let (from, to) = if from_guest {
        (guest, peer)
    } else {
        (peer, guest)
    };
    let ip = compose::Ip {
        ecn: EcnCodepoint::NotEct,
        ..compose::Ip::new(from.0.into(), to.0.into())
    };
    let tcp = compose::Tcp {
        source_port: from.1,
        destination_port: to.1,
        seq: Seq(seq),
        ack: Seq(ack),
        flags,
        window: 30_000,
        urgent: 0,
    };
    let clock = TcpOption::Timestamps {
        value: seq,
        echo: ack,
    };
    let syn = [
        TcpOption::Mss(1460),
        TcpOption::WindowScale(7),
        TcpOption::SackPermitted,
        clock,
    ];
    let options = if flags.contains(TcpFlags::SYN) {
        &syn[..]
    } else {
        &syn[3..]
    };
    let payload = vec![0; (MSS * segments) as usize];
    let mut bytes = vec![0; 2048];
    let start = compose::ethernet([2; 6], [4; 6], VlanTags::NONE, false, &mut bytes).unwrap();
    let length = compose::tcp(
        &ip,
        &tcp,
        options,
        &payload,
        Checksum::Complete,
        &mut bytes[start..],
    );
    bytes.truncate(start + length.unwrap());
    if !flags.contains(TcpFlags::SYN) {
        // Two no-ops first, as hosts align them (RFC 7323 appendix A).
        let aligned = &mut bytes[start + IP_AND_TCP..][..12];
        aligned.rotate_right(2);
        aligned[..2].fill(1);
    }
    bytes
}
