//! `fairwater completions`.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  fairwater completions bash > /etc/bash_completion.d/fairwater
  fairwater completions fish > ~/.config/fish/completions/fairwater.fish";

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell to complete in
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    // clap_complete panics when it cannot write, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "fairwater", &mut script);
    output::print(script)
}
