//! What a policy says for all connections.

use std::time::Duration;

use fairwater_proto::Fallback;

use crate::DEFAULT_GRACE;
use crate::buffer::BufferConfig;
use crate::track::TableConfig;

/// What becomes of controlled guests while no plane controls them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnPlaneLoss {
    /// The guest keeps to its own congestion control and its peer's window.
    #[default]
    Release,
    /// The datapath's own fallback controls the guest.
    Hold,
}

impl OnPlaneLoss {
    /// The fallback of a datapath that does so.
    #[must_use]
    pub const fn fallback(self) -> Fallback {
        match self {
            Self::Release => Fallback::Release,
            Self::Hold => Fallback::Cubic,
        }
    }

    /// The word in a policy.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Hold => "hold",
        }
    }
}

/// What a policy says for all connections: `[defaults]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defaults {
    /// How long a flow waits for its program before it is released.
    pub grace: Duration,
    /// What becomes of controlled guests while no plane controls them.
    pub on_plane_loss: OnPlaneLoss,
    /// Whether passed flows that starve beside marked traffic are proposed for control.
    pub propose: bool,
    /// Limits of the flow table. The key of its hash is 0, and the caller's to choose.
    pub table: TableConfig,
    /// How much is held of connections in [`Mode::Buffer`](super::Mode::Buffer).
    pub buffers: BufferConfig,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            grace: DEFAULT_GRACE,
            on_plane_loss: OnPlaneLoss::default(),
            propose: false,
            table: TableConfig::default(),
            buffers: BufferConfig::default(),
        }
    }
}
