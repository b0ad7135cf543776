//! What runs experiments.

use serde::Serialize;

use crate::Native;

/// What runs an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// In the simulator.
    Sim,
    /// Over an emulated link, with this machine's TCP.
    Linux,
}

impl Backend {
    /// Its name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Backend::Sim => "sim",
            Backend::Linux => "linux",
        }
    }
}

impl Native {
    /// What the simulator has in place of the kernel's congestion control of this name: its own of
    /// the same algorithm, if it has one.
    #[must_use]
    pub fn in_place_of_kernel(name: &str) -> Option<Self> {
        match name {
            "reno" => Some(Native::Reno),
            "cubic" => Some(Native::Cubic),
            _ => None,
        }
    }
}
