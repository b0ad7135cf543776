//! The `fairwater` command.
//!
//! One file per subcommand in [`commands`]; each takes its arguments and writes what a program
//! may read to standard output, what a person should know to standard error.

mod cli;
mod commands;
mod failure;
mod hosting;
mod output;
mod report_page;
mod stop;
mod units;
mod world;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match cli::Cli::parse().command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
