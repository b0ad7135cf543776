//! Where scenarios and experiments run, as typed.

use fairwater_lab::scenario::World;

/// The two worlds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum On {
    /// In the simulator
    Sim,
    /// On this machine's TCP, over an emulated link
    Linux,
}

impl On {
    pub(crate) fn world(self) -> World {
        match self {
            On::Sim => World::Sim,
            On::Linux => World::Linux,
        }
    }
}
