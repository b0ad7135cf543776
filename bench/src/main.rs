//! Benchmarks on real kernel TCP. Every figure is a ratio or a difference taken in one run, in
//! alternation, as the median of several rounds with its spread; see `bench/README.md`.

mod ack_cost;
mod bulk;
mod hosted;
mod statistics;

use clap::{Parser, Subcommand};

/// Benchmarks of Fairwater on this machine's TCP; needs root and Linux 6.10.
#[derive(Debug, Parser)]
#[command(name = "fairwater-bench")]
struct Arguments {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    /// Kernel ns per ACK of a program, above an empty `cong_control`.
    AckCost(ack_cost::Arguments),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().benchmark {
        Benchmark::AckCost(arguments) => ack_cost::run(&arguments),
    }
}
