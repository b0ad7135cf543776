//! The cost of compiling a program, and of one invocation in each backend.
//!
//! The kernel's part needs BPF: `kernel` is left out, having said so, where it is missing.

#[expect(dead_code, reason = "the tests use more of it")]
#[path = "../tests/kernel/bpf.rs"]
mod bpf;

use bpf::{Array, Loaded};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use fairwater_exec::ebpf::asm::Asm;
use fairwater_exec::ebpf::{Host, Reg, generate};
use fairwater_exec::frame::{self, FrameLayout};
use fairwater_exec::interp::{Input, Machine};
use fairwater_lang::{Program, Signal, compile};

/// Programs by name: CCP Figure 2, and one whose invocation computes more.
const PROGRAMS: [(&str, &str); 2] = [
    (
        "figure 2",
        "(def (Report (volatile acked 0) (volatile lost 0)))
         (when true
           (:= Report.acked (+ Report.acked Ack.bytes_acked))
           (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
           (fallthrough))
         (when (> Report.lost 0) (report))",
    ),
    (
        "rtt and rate",
        "(def (Report (volatile acked 0) (volatile rate 0) (rtt 0) (min_rtt +infinity)) (gain 5))
         (when true
           (:= Report.acked (+ Report.acked Ack.bytes_acked))
           (:= Report.rate (max Report.rate (min Flow.rate_incoming Flow.rate_outgoing)))
           (:= Report.rtt (ewma 9 Flow.rtt_sample_us))
           (:= Report.min_rtt (min Report.min_rtt Flow.rtt_sample_us))
           (:= Rate (/ (* Report.rate gain) 4))
           (:= Cwnd (max 2896 (* 2.5 (/ (* Report.rate Report.min_rtt) 1000000))))
           (fallthrough))
         (when (> Ack.lost_pkts_sample 0) (report))",
    ),
];

fn main() {
    divan::main();
}

fn program(source: &str) -> Program {
    match compile("bench.ccp", source) {
        Ok(compiled) => compiled.program,
        Err(errors) => panic!("{}", errors.render(false)),
    }
}

fn signals() -> [u64; Signal::ALL.len()] {
    let mut signals = [0; Signal::ALL.len()];
    for (signal, value) in [
        (Signal::BytesAcked, 2896),
        (Signal::PacketsAcked, 2),
        (Signal::RateIncoming, 5_900_000),
        (Signal::RateOutgoing, 6_000_000),
        (Signal::RttSampleUs, 20_500),
    ] {
        signals[signal as usize] = value;
    }
    signals
}

/// The least that a datapath could do around the code.
struct Bare {
    frame: i32,
}

impl Host for Bare {
    fn enter(&self, asm: &mut Asm) {
        asm.map_value(Reg::R6, self.frame, 0);
    }
    fn apply_cwnd(&self, _: &mut Asm) {}
    fn apply_rate(&self, _: &mut Asm) {}
    fn report(&self, _: &mut Asm, _: u32) {}
    fn leave(&self, asm: &mut Asm) {
        asm.mov(Reg::R0, 0);
        asm.exit();
    }
}

#[divan::bench(args = PROGRAMS.map(|(name, _)| name))]
fn compile_and_generate(bencher: Bencher<'_, '_>, name: &str) {
    let source = source(name);
    bencher.bench(|| {
        let program = program(black_box(source));
        generate(&program, FrameLayout::new(512), &Bare { frame: 3 })
    });
}

#[divan::bench(args = PROGRAMS.map(|(name, _)| name))]
fn interpreter(bencher: Bencher<'_, '_>, name: &str) {
    let program = program(source(name));
    let mut machine = Machine::new(&program, 0);
    let input = Input {
        signals: signals(),
        cwnd: 14480,
        rate: 0,
        stage: None,
    };
    bencher.bench_local(|| machine.invoke(black_box(&input)));
}

/// Compare with `nothing`, a program that only returns: the rest is the kernel's loop.
#[divan::bench(args = ["nothing", PROGRAMS[0].0, PROGRAMS[1].0], sample_size = 1)]
fn kernel(bencher: Bencher<'_, '_>, name: &str) {
    const REPEAT: u32 = 1_000_000;
    let layout = FrameLayout::new(8);
    let frame = match Array::new(layout.size()) {
        Ok(frame) => frame,
        Err(why) => return eprintln!("left out: BPF maps are not available: {why}"),
    };
    let host = Bare { frame: frame.fd() };
    let code = if name == "nothing" {
        let mut asm = Asm::new();
        host.leave(&mut asm);
        asm.finish().map_err(Into::into)
    } else {
        generate(&program(source(name)), layout, &host)
    };
    let loaded = code
        .map_err(|e| e.to_string())
        .and_then(|code| Loaded::new(&code));
    let loaded = loaded.unwrap_or_else(|why| panic!("{why}"));
    for (i, signal) in signals().into_iter().enumerate() {
        frame.write(frame::SIGNALS as usize + 8 * i, signal);
    }
    frame.write(frame::CWND as usize, 14480);
    bencher
        .counter(ItemsCount::new(REPEAT))
        .bench_local(|| loaded.run(REPEAT));
}

fn source(name: &str) -> &'static str {
    PROGRAMS
        .iter()
        .find(|(n, _)| *n == name)
        .map_or("", |(_, source)| source)
}
