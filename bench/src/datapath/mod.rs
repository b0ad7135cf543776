//! What an ACK costs a datapath in user space: ours against libccp, on the same programs.

mod acks;
mod compiling;
mod instructions;
mod ours;
mod peer;

use std::hint::black_box;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::statistics::Rounds;
use acks::{Ack, acks};
use instructions::{Counter, Side};
use ours::Ours;

/// How to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Rounds; each measures both sides once.
    #[arg(long, default_value_t = 31)]
    rounds: usize,
    /// ACKs that a side takes in a round.
    #[arg(long, default_value_t = 200_000)]
    acks: u64,
    /// Only the programs whose name has this in it.
    #[arg(long, default_value = "")]
    only: String,
    /// Run one side alone, untimed: for a profiler, or to count its instructions.
    #[arg(long, value_enum)]
    alone: Option<Side>,
}

/// A program that both sides run.
struct Measured {
    name: &'static str,
    source: &'static str,
}

macro_rules! measured {
    ($($name:literal: $file:literal),*) => {
        [$(Measured {
            name: $name,
            source: include_str!(concat!("../../../crates/exec/benches/programs/", $file, ".ccp")),
        }),*]
    };
}

const PROGRAMS: [Measured; 5] = measured![
    "empty": "empty",
    "Figure 2": "figure_2",
    "Reno-like": "reno",
    "BBR-like": "bbr",
    "report each ACK": "each_ack"
];

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let programs = || PROGRAMS.iter().filter(|p| p.name.contains(&arguments.only));
    if let Some(side) = arguments.alone {
        return programs().try_for_each(|program| alone(side, program.source, arguments.acks));
    }
    let counter = Counter::find();
    for program in programs() {
        measure(program, arguments, &counter)?;
    }
    compiling::run(&PROGRAMS[3], arguments.rounds)
}

fn measure(program: &Measured, arguments: &Arguments, counter: &Counter) -> anyhow::Result<()> {
    let stream = acks();
    let mut ours = Ours::new(program.source)?;
    let agent = peer::Agent::new(program.source)?;
    let mut peer = agent.connect()?;
    let [mut our_ns, mut peer_ns, mut ratios, mut clockless] = [(); 4].map(|()| Rounds::default());
    // The first round warms up and is not counted.
    for round in 0..=arguments.rounds {
        let our = per_ack(arguments.acks, &stream, |ack| ours.invoke(ack));
        let their = per_ack(arguments.acks, &stream, |ack| peer.invoke(ack));
        let clock = clock_ns();
        if round > 0 {
            our_ns.push(our);
            peer_ns.push(their);
            ratios.push(their / our);
            clockless.push((their - peer::CLOCK_READS * clock) / our);
        }
    }
    println!(
        "{}: ours {our_ns:.1} ns, {} instructions; libccp {peer_ns:.1} ns, {} instructions; \
         ratio {:.1} ({:.1} without the clock that libccp reads)",
        program.name,
        counter.per_ack(Side::Ours, program.name),
        counter.per_ack(Side::Peer, program.name),
        ratios.median(),
        clockless.median(),
    );
    eprintln!(
        "  {} instructions in libccp's form; packets with reports: {} of ours, {} of libccp's",
        agent.instructions(),
        ours.reports(),
        peer.reports(),
    );
    Ok(())
}

/// Takes so many ACKs on one side only.
fn alone(side: Side, source: &str, count: u64) -> anyhow::Result<()> {
    let stream = acks();
    match side {
        Side::Ours => {
            let mut ours = Ours::new(source)?;
            take(count, &stream, |ack| ours.invoke(ack));
        }
        Side::Peer => {
            let agent = peer::Agent::new(source)?;
            let mut peer = agent.connect()?;
            take(count, &stream, |ack| peer.invoke(ack));
        }
    }
    Ok(())
}

fn take(count: u64, stream: &[Ack], mut invoke: impl FnMut(&Ack)) {
    for ack in stream.iter().cycle().take(count as usize) {
        invoke(black_box(ack));
    }
}

/// Mean ns of `invoke` over `count` ACKs.
fn per_ack(count: u64, stream: &[Ack], invoke: impl FnMut(&Ack)) -> f64 {
    let start = cpu_time();
    take(count, stream, invoke);
    mean_ns(cpu_time().saturating_sub(start), count)
}

/// What reading the monotonic clock once costs, ns.
fn clock_ns() -> f64 {
    const READS: u64 = 10_000;
    let start = cpu_time();
    for _ in 0..READS {
        black_box(Instant::now());
    }
    mean_ns(cpu_time().saturating_sub(start), READS)
}

/// What this thread has computed so far, in user space and in the kernel: unlike real time it
/// stands still while others have the processor.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "a mean")]
fn mean_ns(time: Duration, of: u64) -> f64 {
    time.as_nanos() as f64 / of as f64
}
