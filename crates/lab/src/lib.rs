//! Runs experiments on either back end, the simulator or the test bed: comparisons of algorithms on
//! one link, and the points of scenarios. What they measured is in one model of results.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//! use fairwater_lab::{Candidate, Comparison, run};
//!
//! let cubic = Candidate {
//!     label: "kernel:cubic".into(),
//!     congestion_control: "cubic".into(),
//! };
//! let comparison = Comparison::new("48mbit 20ms 1bdp".parse()?, vec![cubic]);
//! let results = run(&comparison, &AtomicBool::new(false), &mut |progress| {
//!     eprintln!("{:?} of {:?}", progress.elapsed, progress.duration);
//! })?;
//! println!("{:.1} Mbit/s", results.runs[0].throughput_bps / 1e6);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod comparison;
mod error;
pub mod input;
mod noq_ends;
mod over_quic;
pub mod points;
mod simulated;

pub use comparison::{Candidate, Comparison, run};
pub use error::LabError;
pub use noq_ends::NoqEnds;
pub use over_quic::{QuicController, over_quic};
pub use simulated::{Simulated, simulate};
