//! `--max-instructions`: the budget of programs.

use fairwater_exec::cost::DEFAULT_BUDGET;

/// What a program may cost.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Budget {
    /// Refuse programs that may take more eBPF instructions than this for an ACK
    #[arg(long, value_name = "N", default_value_t = DEFAULT_BUDGET)]
    pub(crate) max_instructions: usize,
}
