//! What commands need of `fairwater-hosting`, with its errors as failures of a command.

use fairwater_hosting::{
    AttachError, DuplicateName, HostError, NamedAlgorithm, ProcessError, ResolveError, plane_of,
};
use fairwater_plane::Plane;

use crate::failure::Failure;

/// A plane with these algorithms, each under the name before it.
pub(crate) fn plane(algorithms: &[NamedAlgorithm]) -> Result<Plane, Failure> {
    let named = algorithms
        .iter()
        .map(|(name, algorithm)| (name.as_str(), &algorithm.choice));
    plane_of(named).map_err(|error| Failure::BadInput(error.to_string()))
}

impl From<ResolveError> for Failure {
    fn from(error: ResolveError) -> Self {
        Self::BadInput(error.to_string())
    }
}

impl From<DuplicateName> for Failure {
    fn from(error: DuplicateName) -> Self {
        Self::BadInput(error.to_string())
    }
}

impl From<AttachError> for Failure {
    fn from(error: AttachError) -> Self {
        match error {
            AttachError::Linux(error) => error.into(),
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<ProcessError> for Failure {
    fn from(error: ProcessError) -> Self {
        match error {
            ProcessError::Exited(code) => Self::AlreadyReported(code),
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Plane(error) => Self::BadInput(error.to_string()),
            HostError::Attach(error) => error.into(),
            HostError::Process(error) => error.into(),
            other => Self::Other(other.to_string()),
        }
    }
}
