//! `--max-instructions`: the budget of programs.

use fairwater_exec::cost::{DEFAULT_BUDGET, within};
use fairwater_plane::Plane;

use crate::failure::Failure;

/// What a program may cost.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Budget {
    /// Refuse a program that may take more eBPF instructions than this for an ACK
    #[arg(long, value_name = "N", default_value_t = DEFAULT_BUDGET)]
    pub(crate) max_instructions: usize,
}

impl Budget {
    /// Fails for the first program of the plane's algorithms that exceeds the budget.
    pub(crate) fn check(self, plane: &Plane) -> Result<(), Failure> {
        for algorithm in plane.algorithms() {
            for program in algorithm.programs() {
                within(&program.shared(), self.max_instructions).map_err(|error| {
                    Failure::BadInput(format!(
                        "the program `{}` of {} {error}; see --max-instructions",
                        program.name(),
                        algorithm.name(),
                    ))
                })?;
            }
        }
        Ok(())
    }
}
