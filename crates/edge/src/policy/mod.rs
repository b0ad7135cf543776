//! What is to be done with connections: the policy as a file, and what comes of it for each connection.

mod conditions;
mod defaults;
mod difference;
mod explain;
mod policies;
mod port_set;
mod read;
mod rule;
mod shadow;
mod treatment;

pub(crate) use policies::Policies;

pub use conditions::{Conditions, Mismatch};
pub use defaults::{Defaults, OnPlaneLoss};
pub use port_set::{PortPattern, PortSet};
pub use read::{ParsedPolicy, read_selector};
pub use rule::{Action, EdgePolicy, MAX_MATCHES, MAX_PORT_SETS, Match, Rule, WhenStarved};
pub use treatment::{Echo, Exemption, Mode, Policy, Share, Treatment};
