//! The `fairwater` command, for the program of that name and for the Python package, which knows
//! algorithms in Python besides.
//!
//! One file per subcommand in `commands`; each takes its arguments and writes what a program
//! may read to standard output, what a person should know to standard error.

mod backend;
mod budget;
mod cli;
mod commands;
mod control;
mod failure;
mod filter;
mod hosting;
mod output;
mod report_page;
mod units;

use std::ffi::OsString;

use clap::Parser;

/// Runs the command with these arguments, the program's name first. Returns the exit code, which
/// `fairwater --help` explains.
pub fn main(arguments: impl Iterator<Item = OsString>) -> u8 {
    match cli::Cli::try_parse_from(arguments) {
        Ok(cli) => match cli.command.run() {
            Ok(()) => 0,
            Err(failure) => failure.report(),
        },
        Err(usage) => {
            // Whoever reads may have gone.
            let _ = usage.print();
            u8::try_from(usage.exit_code()).unwrap_or(2)
        }
    }
}
