//! The `fairwater` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    fairwater_cli::main(std::env::args_os()).into()
}
