//! Networks, seeds, series over time and figures: what the tests of all algorithms need.

pub(crate) mod figure;
#[path = "../../support/mod.rs"]
mod networks;
mod seeds;
pub(crate) mod series;

pub(crate) use networks::{BOTTLENECK, Dumbbell, jain, plane, rate};
pub(crate) use seeds::each_seed;

use std::time::Duration;

use fairwater_sim::{Experiment, Outcome, run};

/// How often [`observed`] samples.
pub(crate) const INTERVAL: Duration = Duration::from_millis(10);

/// Runs with these algorithms in the plane, by their specifications (`copa:delta=0.25`), and
/// samples flows and edges each [`INTERVAL`] unless the configuration says how often.
pub(crate) fn observed(config: &Experiment, algorithms: &[&str]) -> Outcome {
    let mut config = config.clone();
    config.measure.interval.get_or_insert(INTERVAL);
    run(&config, plane(algorithms), &mut ()).unwrap()
}
