//! The back end of scenarios and experiments, as typed.

use fairwater_experiment::Backend;

/// The two back ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum BackendArgument {
    /// In the simulator
    Sim,
    /// On this machine's TCP, over an emulated link
    Linux,
}

impl BackendArgument {
    pub(crate) fn backend(self) -> Backend {
        match self {
            Self::Sim => Backend::Sim,
            Self::Linux => Backend::Linux,
        }
    }
}
