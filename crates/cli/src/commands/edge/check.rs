//! `fairwater edge check`.

use std::path::PathBuf;

use fairwater_edge_tc::{EdgeError, not_in_kernel};

use crate::failure::Failure;
use crate::hosting::read_edge_policy;
use crate::output;
use crate::units::count;

/// Find every mistake in a policy
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The policy
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let policy = read_edge_policy(&args.file, None)?;
    let lacking = not_in_kernel(&policy);
    if !lacking.is_empty() {
        let refusal = EdgeError::NotInKernel(lacking);
        return Err(Failure::BadInput(format!(
            "{}: {refusal}",
            args.file.display()
        )));
    }
    for name in policy.algorithms() {
        let folder = args.file.parent().unwrap_or(std::path::Path::new(""));
        fairwater_hosting::resolve(&name, folder)?;
    }
    let rules = count(policy.rules().len(), "rule");
    output::print(format!("{}: {rules}, no mistakes\n", args.file.display()))
}
