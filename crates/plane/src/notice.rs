//! What the plane has to tell about flows that went wrong.

use thiserror::Error;

use crate::FlowId;

/// A flow left its algorithm for the datapath's fallback, or runs otherwise than the algorithm
/// wanted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("flow {} of {algorithm}: {reason}", flow.slot)]
pub struct Notice {
    /// The flow.
    pub flow: FlowId,
    /// The name of its algorithm.
    pub algorithm: String,
    /// What happened.
    pub reason: Reason,
}

/// What went wrong with a flow.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Reason {
    /// The algorithm's code panicked.
    #[error("the algorithm panicked: {0}")]
    Panicked(String),
    /// What the algorithm aggregates flows by panicked: the flow runs alone.
    #[error("the algorithm's key function panicked, so it runs alone: {0}")]
    KeyPanicked(String),
    /// A program that runs in the plane was stopped.
    #[error("the program that controls its aggregate was stopped: {0}")]
    Nested(&'static str),
    /// The algorithm [gave it up](crate::Control::withdraw).
    #[error("{0}")]
    GivenUp(String),
    /// The algorithm set cwnd to 0.
    #[error("the algorithm set cwnd to 0")]
    CwndZero,
    /// The algorithm set a rate above [`MAX_RATE`](crate::MAX_RATE).
    #[error(
        "the algorithm set a rate of {rate} bytes/s, above {}",
        crate::MAX_RATE
    )]
    RateAbsurd {
        /// What it set, bytes/s.
        rate: u64,
    },
    /// The algorithm read a field of a program that did not report.
    #[error("the algorithm read field `{field}` of program `{of}` in a report of `{reporter}`")]
    ForeignField {
        /// The field's name.
        field: String,
        /// The program that the field belongs to.
        of: String,
        /// The program that reported.
        reporter: String,
    },
    /// The algorithm set a variable of a program that the flow does not run.
    #[error(
        "the algorithm set variable `{variable}` of program `{of}`, but the flow runs `{running}`"
    )]
    ForeignVariable {
        /// The variable's name.
        variable: String,
        /// The program that the variable belongs to.
        of: String,
        /// The program that the flow runs.
        running: String,
    },
    /// The algorithm set a boolean variable to something else than 0 or 1.
    #[error("the algorithm set boolean `{variable}` to {value}")]
    NotBoolean {
        /// The variable's name.
        variable: String,
        /// What it was set to.
        value: u64,
    },
    /// The algorithm switched to a program of another algorithm.
    #[error("the algorithm switched to a program that is not its own")]
    ForeignProgram,
    /// The algorithm handed the flow over to an algorithm that the plane does not have.
    #[error("the algorithm handed the flow over to `{0}`, which the plane does not have")]
    UnknownAlgorithm(String),
    /// The algorithm handed the flow over before its first report.
    #[error("the algorithm handed the flow over before its first report")]
    HandedOverAtStart,
    /// The datapath stopped the flow's program.
    #[error("the datapath stopped the program: {0}")]
    Datapath(String),
    /// The datapath's slot is above what the plane keeps.
    #[error("slot {0} is above the {max} flows that a plane keeps", max = crate::MAX_FLOWS)]
    TooManyFlows(u32),
}
