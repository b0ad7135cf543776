//! Environments for learning congestion control, over the simulator.
//!
//! What a policy observes is computed from the reports of a datapath program, [`PROGRAM`], and what
//! it does becomes the flow's cwnd, both by [`PolicyAdapter`]. An algorithm that runs the same program
//! and uses the same [`PolicyAdapter`] sees and does the same on real TCP.
//!
//! An [`Environment`] is one flow on a path drawn at random, stepped from report to report; a
//! [`Fleet`] is several, stepped in one call. Both are deterministic: the same seed and actions give
//! the same observations and rewards, bit for bit, on every machine.

mod adapter;
mod collector;
mod environment;
mod fleet;
mod paths;
mod report;
mod reward;

pub use adapter::{FEATURES, Feature, OBSERVATION, Observation, PolicyAdapter};
pub use environment::{ActionError, Environment, Settings, Step, StepMetrics};
pub use fleet::{Fleet, FleetError, Steps};
pub use paths::{Path, Paths, Range, SettingsErrors};
pub use report::{FIELDS, PROGRAM, Reported};
pub use reward::Reward;
