//! Networks, and runs of them.

#[path = "../support/mod.rs"]
mod networks;

pub(crate) use networks::{BOTTLENECK, Dumbbell, edge, jain, link, plane, rate};

use fairwater_sim::{Experiment, Outcome, run};

/// Runs with Reno and Cubic in the plane.
pub(crate) fn outcome(config: &Experiment) -> Outcome {
    run(config, plane(&["reno", "cubic"]), &mut ()).unwrap()
}
