//! What it takes to compile a program.

#[expect(dead_code, reason = "the tests of exec use more of it")]
#[path = "../../../crates/exec/tests/kernel/bpf.rs"]
mod bpf;

use std::hint::black_box;

use bpf::{Array, Loaded};
use fairwater_exec::ebpf::asm::Asm;
use fairwater_exec::ebpf::{Host, Reg, generate};
use fairwater_exec::frame::FrameLayout;
use fairwater_exec::native::Code;
use fairwater_lang::{Program, compile};

use super::{Measured, cpu_time};
use crate::statistics::Rounds;

/// Compilations in a round.
const REPEAT: u32 = 20;

type Step<'a> = (&'static str, Box<dyn Fn() -> anyhow::Result<()> + 'a>);

/// Prints the time of each step, and of portus' compiler.
pub(super) fn run(measured: &Measured, rounds: usize) -> anyhow::Result<()> {
    let source = measured.source;
    let program = check(source)?;
    let layout = FrameLayout::new(64);
    let frame = Array::new(layout.size());
    let mut steps: Vec<Step<'_>> = vec![
        ("check", Box::new(|| done(check(source)))),
        ("native", Box::new(|| done(Ok(Code::compile(&program)?)))),
        (
            "portus, to libccp's instructions",
            Box::new(|| done(Ok(portus::lang::compile(source.as_bytes(), &[])?))),
        ),
    ];
    match &frame {
        Ok(frame) => steps.push((
            "eBPF, loaded",
            Box::new(|| {
                let code = generate(&program, layout, &Bare { frame: frame.fd() })?;
                done(Loaded::new(&code).map_err(anyhow::Error::msg))
            }),
        )),
        Err(why) => eprintln!("eBPF is left out: no BPF maps: {why}"),
    }
    let mut times = vec![Rounds::default(); steps.len()];
    for _ in 0..rounds {
        for ((_, step), times) in steps.iter().zip(&mut times) {
            let start = cpu_time();
            for _ in 0..REPEAT {
                step()?;
            }
            times.push(cpu_time().saturating_sub(start).as_secs_f64() * 1e6 / f64::from(REPEAT));
        }
    }
    for ((step, _), times) in steps.iter().zip(&times) {
        println!("{}, compiled: {step}: {times:.1} µs", measured.name);
    }
    Ok(())
}

fn check(source: &str) -> anyhow::Result<Program> {
    compile("benchmark", source)
        .map(|compiled| compiled.program)
        .map_err(|errors| anyhow::anyhow!("{}", errors.render(false)))
}

/// Drops what was made, as part of what is timed.
fn done<T>(made: anyhow::Result<T>) -> anyhow::Result<()> {
    black_box(made).map(drop)
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
