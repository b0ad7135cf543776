//! `fairwater man`.

use std::fs;
use std::path::PathBuf;

use clap::CommandFactory;
use clap_mangen::Man;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  fairwater man | man -l -
  fairwater man --dir /usr/local/share/man/man1";

/// Print the man page, or write one per subcommand to a directory
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Write fairwater.1 and one page per subcommand here, making the directory if need be
    #[arg(long)]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let command = Cli::command();
    match &args.dir {
        Some(dir) => {
            fs::create_dir_all(dir).map_err(Failure::io(dir.display().to_string()))?;
            clap_mangen::generate_to(command, dir).map_err(Failure::io(dir.display().to_string()))
        }
        None => {
            let mut page = Vec::new();
            Man::new(command)
                .render(&mut page)
                .map_err(Failure::io("the man page"))?;
            output::print(page)
        }
    }
}
