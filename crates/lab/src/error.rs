//! What can go wrong in a lab.

use std::io;

use fairwater_net::TraceError;
use fairwater_sim::ConfigError;
use thiserror::Error;

use crate::preflight::Missing;

/// Why an experiment did not run.
#[derive(Debug, Error)]
pub enum LabError {
    /// This machine, or this user, cannot run it.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Missing(Vec<Missing>),
    /// The experiment has nothing to run.
    #[error("the experiment names no congestion control to run")]
    NoContender,
    /// iperf3 was asked to send for a part of the run, or with a tag.
    #[error("iperf3 sends all the time and without a tag; the lab's own sender can do otherwise")]
    Timing,
    /// More flows than can be told apart.
    #[error("{asked} flows were asked for on one link; at most {most} can be told apart")]
    TooManyContenders {
        /// How many were asked for.
        asked: usize,
        /// How many there can be.
        most: usize,
    },
    /// The run would take no time.
    #[error("a run must last at least 1 s and at most a day; {asked:?} was asked for")]
    Duration {
        /// What was asked for.
        asked: std::time::Duration,
    },
    /// The kernel does not have a congestion control.
    #[error(
        "this kernel has no congestion control named `{name}`; it has {}",
        available.join(", ")
    )]
    UnknownCongestionControl {
        /// The name.
        name: String,
        /// What the kernel has.
        available: Vec<String>,
    },
    /// The simulator has no IPv6.
    #[error("the simulator sends over IPv4 alone; IPv6 needs real TCP")]
    SimulatedIpv6,
    /// The simulator cannot do it.
    #[error("this cannot be simulated: {0}")]
    Simulator(#[from] ConfigError),
    /// A delivery trace could not be read.
    #[error("cannot read the delivery trace {name}: {source}")]
    TraceFile {
        /// The file.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// A delivery trace is malformed.
    #[error("the delivery trace {name} is malformed:\n{source}")]
    Trace {
        /// The file.
        name: String,
        /// What is wrong, by line.
        source: TraceError,
    },
    /// Traffic failed.
    #[error("the traffic of `{label}` failed: {reason}")]
    Traffic {
        /// The contender.
        label: String,
        /// Why.
        reason: String,
    },
    /// A part of the lab stopped of itself.
    #[error("the lab's {part} failed: {reason}")]
    Part {
        /// Which.
        part: &'static str,
        /// Why.
        reason: String,
    },
    /// The system refused something.
    #[error("cannot {doing}: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The caller cancelled.
    #[error("cancelled")]
    Cancelled,
}

impl LabError {
    pub(crate) fn system(doing: &'static str) -> impl FnOnce(io::Error) -> LabError {
        move |source| LabError::System { doing, source }
    }
}
