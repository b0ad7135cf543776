//! Why a comparison or a scenario did not run.

use fairwater_net::TraceError;
use fairwater_sim::ConfigErrors;
use fairwater_testbed::TestbedError;
use thiserror::Error;

use crate::input::InputError;

/// Why a comparison or a scenario did not run.
#[derive(Debug, Error)]
pub enum LabError {
    /// The comparison has nothing to run.
    #[error("the comparison names no congestion control to run")]
    NoCandidate,
    /// More flows than can be told apart.
    #[error("{asked} flows were asked for on one link; at most {most} can be told apart")]
    TooManyCandidates {
        /// How many were asked for.
        asked: usize,
        /// How many there can be.
        most: usize,
    },
    /// The run would take no time, or for ever.
    #[error("a run must last at least 1 s and at most a day; {asked:?} was asked for")]
    Duration {
        /// What was asked for.
        asked: std::time::Duration,
    },
    /// The simulator has no IPv6.
    #[error("the simulator sends over IPv4 alone; IPv6 needs real TCP")]
    SimulatedIpv6,
    /// The simulator cannot do it.
    #[error("this cannot be simulated: {0}")]
    Simulator(#[from] ConfigErrors),
    /// A delivery trace could not be read.
    #[error("cannot read the delivery trace {name}: {source}")]
    TraceFile {
        /// The file.
        name: String,
        /// Why.
        source: InputError,
    },
    /// A delivery trace is malformed.
    #[error("the delivery trace {name} is malformed:\n{source}")]
    Trace {
        /// The file.
        name: String,
        /// What is wrong, by line.
        source: TraceError,
    },
    /// It cannot run over QUIC.
    #[error("over QUIC: {0}")]
    Quic(String),
    /// The caller cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The test bed failed.
    #[error(transparent)]
    Testbed(TestbedError),
}

impl From<TestbedError> for LabError {
    fn from(error: TestbedError) -> Self {
        match error {
            TestbedError::Cancelled => LabError::Cancelled,
            other => LabError::Testbed(other),
        }
    }
}
