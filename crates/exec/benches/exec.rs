//! The cost of compiling a program, and of one run in each backend.
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
use fairwater_exec::interp;
use fairwater_exec::invocation::{Registers, initial};
use fairwater_exec::native::Code;
use fairwater_lang::{Program, Signal, Signals, compile};

/// Programs by name. `fairwater-bench datapath` runs the same ones.
const PROGRAMS: [(&str, &str); 3] = [
    ("empty", include_str!("programs/empty.ccp")),
    ("figure 2", include_str!("programs/figure_2.ccp")),
    ("BBR-like", include_str!("programs/bbr.ccp")),
];
const NAMES: [&str; 3] = [PROGRAMS[0].0, PROGRAMS[1].0, PROGRAMS[2].0];

fn main() {
    divan::main();
}

fn program(source: &str) -> Program {
    match compile("bench.ccp", source) {
        Ok(compiled) => compiled.program,
        Err(errors) => panic!("{}", errors.render(false)),
    }
}

fn signals() -> Signals {
    let mut signals = Signals::default();
    for (signal, value) in [
        (Signal::BytesAcked, 2896),
        (Signal::PacketsAcked, 2),
        (Signal::RateIncoming, 5_900_000),
        (Signal::RateOutgoing, 6_000_000),
        (Signal::RttSampleUs, 20_500),
    ] {
        signals[signal] = value;
    }
    signals
}

const fn registers() -> Registers {
    Registers {
        cwnd: 14480,
        rate: 0,
        timer_zero: 0,
    }
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

mod compiling {
    use super::*;

    /// From text to a checked program.
    #[divan::bench(args = NAMES)]
    fn check(bencher: Bencher<'_, '_>, name: &str) {
        bencher.bench(|| program(black_box(source(name))));
    }

    /// From a checked program to machine code in executable memory.
    #[divan::bench(args = NAMES)]
    fn native(bencher: Bencher<'_, '_>, name: &str) {
        let program = program(source(name));
        bencher.bench(|| Code::compile(black_box(&program)));
    }

    /// From a checked program to eBPF that is not loaded.
    #[divan::bench(args = NAMES)]
    fn ebpf(bencher: Bencher<'_, '_>, name: &str) {
        let (program, layout) = (program(source(name)), FrameLayout::new(512));
        bencher.bench(|| generate(black_box(&program), layout, &Bare { frame: 3 }));
    }
}

#[divan::bench(args = NAMES)]
fn interpreter(bencher: Bencher<'_, '_>, name: &str) {
    let program = program(source(name));
    let (mut registers, mut variables) = (registers(), initial(&program));
    let signals = signals();
    bencher.bench_local(|| {
        interp::run(
            &program,
            &mut registers,
            &mut variables,
            black_box(&signals),
        )
    });
}

#[divan::bench(args = NAMES)]
fn native(bencher: Bencher<'_, '_>, name: &str) {
    let program = program(source(name));
    let code = Code::compile(&program).unwrap_or_else(|why| panic!("{why}"));
    let (mut registers, mut variables) = (registers(), initial(&program));
    let signals = signals();
    bencher.bench_local(|| code.run(&mut registers, &mut variables, black_box(&signals)));
}

/// Compare with `nothing`, a program that only returns: the rest is the kernel's loop.
#[divan::bench(args = ["nothing", NAMES[0], NAMES[1], NAMES[2]], sample_size = 1)]
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
    for (signal, value) in signals().iter() {
        frame.write(frame::SIGNALS as usize + 8 * signal as usize, value);
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
