//! What can be typed.

use clap::{Parser, Subcommand};

use crate::commands::{
    algorithms, attach, bundle, certify, check, completions, doctor, edge, host, man, quic_get,
    quic_serve, record, replay, reproduce, run, serve, simulate, status, switch, top, r#try, up,
    why,
};
use crate::failure::Failure;

/// A congestion control plane: write an algorithm once, run it on every datapath.
#[derive(Debug, Parser)]
#[command(name = "fairwater", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    failed while running
  2    bad input; nothing was started
  3    this machine lacks a requirement, which the error names: root, BTF, a kernel feature
  4    done, but an algorithm failed, and its flows ran under the fallback for part of the time
  5    switch: the flows are back under the former algorithm
  130  stopped by Ctrl-C; nothing is left behind";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::Args),
    Try(r#try::Args),
    Reproduce(reproduce::Args),
    Certify(certify::Args),
    Up(up::Args),
    Status(status::Args),
    Switch(switch::Args),
    Why(why::Args),
    Record(record::Args),
    Replay(replay::Args),
    Edge(edge::Args),
    Bundle(bundle::Args),
    Attach(attach::Args),
    Serve(serve::Args),
    QuicServe(quic_serve::Args),
    QuicGet(quic_get::Args),
    Top(top::Args),
    Check(check::Args),
    Doctor(doctor::Args),
    Algorithms(algorithms::Args),
    Completions(completions::Args),
    Man(man::Args),
    #[command(hide = true)]
    Host(host::Args),
    #[command(hide = true)]
    Simulate(simulate::Args),
}

impl Command {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self {
            Self::Run(args) => run::run(&args),
            Self::Try(args) => r#try::run(&args),
            Self::Reproduce(args) => reproduce::run(&args),
            Self::Certify(args) => certify::run(&args),
            Self::Up(args) => up::run(&args),
            Self::Status(args) => status::run(&args),
            Self::Switch(args) => switch::run(&args),
            Self::Why(args) => why::run(&args),
            Self::Record(args) => record::run(&args),
            Self::Replay(args) => replay::run(&args),
            Self::Edge(args) => edge::run(&args),
            Self::Bundle(args) => bundle::run(&args),
            Self::Attach(args) => attach::run(&args),
            Self::Serve(args) => serve::run(&args),
            Self::QuicServe(args) => quic_serve::run(&args),
            Self::QuicGet(args) => quic_get::run(&args),
            Self::Top(args) => top::run(&args),
            Self::Check(args) => check::run(&args),
            Self::Doctor(args) => doctor::run(&args),
            Self::Algorithms(args) => algorithms::run(&args),
            Self::Completions(args) => completions::run(&args),
            Self::Man(args) => man::run(&args),
            Self::Host(args) => host::run(&args),
            Self::Simulate(args) => simulate::run(&args),
        }
    }
}
