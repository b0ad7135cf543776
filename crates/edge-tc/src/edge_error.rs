//! Errors of the datapath.

use std::io;
use std::sync::Arc;

use fairwater_kernel::KernelError;

use crate::TcError;

/// Why the edge cannot do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EdgeError {
    /// The policy names an algorithm that the plane does not host, or that an edge cannot run.
    #[error("the edge cannot run {0}: `fairwater algorithms --for edge` says why")]
    NotServed(Arc<str>),
    /// The policy asks for what the data plane in the kernel does not have.
    #[error("the edge in the kernel has no {}", .0.join(", and no "))]
    NotInKernel(Vec<&'static str>),
    /// The policy wants tables of another size than they were loaded with.
    #[error("`max_flows` and `max_half_open` cannot change while the edge runs: restart it")]
    FixedSize,
    /// The data plane refused.
    #[error(transparent)]
    DataPlane(#[from] TcError),
    /// What every datapath in the kernel may meet.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

impl EdgeError {
    /// Wraps an I/O error of what was being done.
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| KernelError::io(what)(error).into()
    }

    /// Whether the process lacks rights.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        let kernel = match self {
            Self::Kernel(error) | Self::DataPlane(TcError::Kernel(error)) => error,
            _ => return false,
        };
        matches!(kernel, KernelError::Call { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }
}
