//! Emulated networks in which real flows run, and what they measure.
//!
//! Two hosts, `sender` and `receiver`, are network namespaces with a TUN device each; the router
//! between them is a user-space [link](fairwater_net::Link) that real packets pass through, on
//! time. Real TCP sends over it under any congestion control the kernel knows by name: its own,
//! or those that a plane has registered. Nothing here has a name or a file, so nothing can be left
//! behind: what exists is held by this process and ends with it.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//! use fairwater_lab::{Contender, Experiment, run};
//!
//! let cubic = Contender {
//!     label: "kernel:cubic".into(),
//!     congestion_control: "cubic".into(),
//! };
//! let experiment = Experiment::new("48mbit 20ms 1bdp".parse()?, vec![cubic]);
//! let results = run(&experiment, &AtomicBool::new(false), &mut |progress| {
//!     eprintln!("{:?} of {:?}", progress.elapsed, progress.duration);
//! })?;
//! println!("{:.1} Mbit/s", results.runs[0].throughput_bps / 1e6);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod calibrate;
mod clock;
mod emulator;
mod error;
mod experiment;
pub mod findings;
mod link_log;
mod namespace;
mod netlink;
mod packet;
mod path;
mod preflight;
pub mod report;
mod results;
mod run;
mod sampler;
pub mod scenario;
mod simulated;
mod steal;
mod traffic;
mod tun;

pub use calibrate::{Calibration, calibrate};
pub use error::LabError;
pub use experiment::{Contender, Experiment, Sending};
pub use preflight::{Missing, require};
pub use results::{Lateness, LinkInterval, Percentiles, Results, RunResult, Series};
pub use run::{FlowProgress, Progress, run};
pub use sampler::TcpSample;
pub use simulated::{Simulated, counterpart, simulate};
pub use traffic::Traffic;
