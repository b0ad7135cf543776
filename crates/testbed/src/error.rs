//! Why an experiment did not run on the test bed.

use std::io;

use thiserror::Error;

use crate::preflight::Missing;

/// Why an experiment did not run.
#[derive(Debug, Error)]
pub enum TestbedError {
    /// This machine, or this user, cannot run it.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Missing(Vec<Missing>),
    /// iperf3 was asked to send for a part of the run, or with a tag.
    #[error("iperf3 can neither pause nor tag its traffic; the test bed's own sender can")]
    Timing,
    /// The network is of a shape that the test bed does not have.
    #[error("the test bed cannot run this network: {0}")]
    Network(&'static str),
    /// More flows than can be told apart.
    #[error("{asked} flows were asked for on one link; at most {most} can be told apart")]
    TooManyFlows {
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
    /// A flow is behind a box at its host's edge, and there is nothing to put the box there.
    #[error("the test bed was given no edge for the flows that ask for one")]
    NoEdge,
    /// The box at the edge of the sending host cannot be there.
    #[error("cannot attach the edge: {0}")]
    Edge(Box<dyn std::error::Error + Send + Sync>),
    /// Traffic failed.
    #[error("the traffic of `{label}` failed: {reason}")]
    Traffic {
        /// The flow.
        label: String,
        /// Why.
        reason: String,
    },
    /// A part of the test bed stopped of itself.
    #[error("the {part} of the test bed failed: {reason}")]
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

impl TestbedError {
    pub(crate) fn system(doing: &'static str) -> impl FnOnce(io::Error) -> TestbedError {
        move |source| TestbedError::System { doing, source }
    }
}
