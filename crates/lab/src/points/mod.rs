//! The points of a scenario's grid: run on either back end, with results of one model.

mod real;
mod schedule;
mod simulated;

pub use real::{check_real, run_real};
pub use schedule::schedule;
pub use simulated::simulated;
pub(crate) use simulated::{congestion_state, fallback};
