//! Errors of the data plane in the kernel.

use std::io;

use fairwater_kernel::KernelError;

/// Why the data plane cannot do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TcError {
    /// What every datapath in the kernel may meet.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// There are more rules than the programs have room for.
    #[error("{0} rules are too many; at most {max} are allowed", max = crate::MAX_RULES)]
    TooManyRules(usize),
}

impl TcError {
    /// Wraps a libbpf error of what was being done.
    pub(crate) fn bpf(what: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Self {
        move |error| KernelError::bpf(what)(error).into()
    }

    /// Wraps an I/O error of what was being done.
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| KernelError::io(what)(error).into()
    }
}
