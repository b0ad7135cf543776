//! Why a host's plane could not be started.

use std::io;

use fairwater_bundle_linux::BoxError;
use fairwater_edge_tc::EdgeError;
use fairwater_exec::cost::within;
use fairwater_linux::LinuxError;
use fairwater_linux::probe::Missing;
use fairwater_plane::{Plane, PlaneError};

use crate::changed_default::DefaultError;
use crate::{DuplicateName, ProcessError};

/// Why a [`Host`](super::Host) was not started. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostFailure {
    /// The configuration has no algorithm.
    #[error("there is no algorithm to run")]
    NoAlgorithm,
    /// Two algorithms have one name.
    #[error(transparent)]
    Duplicate(#[from] DuplicateName),
    /// The plane refused an algorithm.
    #[error(transparent)]
    Plane(#[from] PlaneError),
    /// A program may take too long.
    #[error("the program `{program}` of {algorithm} {excess}")]
    OverBudget {
        /// The algorithm.
        algorithm: String,
        /// Its program.
        program: String,
        /// What it takes, and what it may.
        excess: String,
    },
    /// The algorithm that is to be the default cannot run on Linux TCP.
    #[error("{0} cannot run on Linux TCP, so it cannot be the default")]
    NotOnLinux(String),
    /// This machine or process lacks something.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// The Linux datapath refused.
    #[error(transparent)]
    Linux(#[from] LinuxError),
    /// The edge refused.
    #[error(transparent)]
    Edge(#[from] EdgeError),
    /// A box of bundles refused.
    #[error(transparent)]
    Box(#[from] BoxError),
    /// The sockets of links could not be bound.
    #[error("{0}")]
    Links(io::Error),
    /// The network namespace could not be told.
    #[error("cannot identify the network namespace: {0}")]
    Namespace(io::Error),
    /// The default could not be changed.
    #[error(transparent)]
    Default(#[from] DefaultError),
    /// The process of an algorithm failed.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

/// Refuses the first program that exceeds the budget, in eBPF instructions.
pub(super) fn within_budget(plane: &Plane, budget: usize) -> Result<(), HostFailure> {
    for algorithm in plane.algorithms() {
        for program in algorithm.programs() {
            within(&program.shared(), budget).map_err(|error| HostFailure::OverBudget {
                algorithm: algorithm.name().to_owned(),
                program: program.name().to_owned(),
                excess: error.to_string(),
            })?;
        }
    }
    Ok(())
}
