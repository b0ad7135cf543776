//! The points of a scenario's grid: run on either back end, with results of one model.

mod real;
mod schedule;
mod simulated;

pub use real::{check_real, run_real};
pub use schedule::schedule;
pub(crate) use simulated::fallback;
pub use simulated::simulated;
