//! Errors of the Linux datapath.

use std::io;

use fairwater_kernel::KernelError;

/// Why the Linux datapath cannot do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinuxError {
    /// The machine lacks a required feature; `fairwater doctor` lists all.
    #[error("{0}")]
    Missing(#[from] crate::probe::Missing),
    /// The name of a congestion control is taken.
    #[error("the name {name} is held by {holder}")]
    NameTaken {
        /// The kernel's name, `fw_cubic`.
        name: String,
        /// The process that has registered it, or a guess.
        holder: String,
    },
    /// The name does not fit the kernel's 16 bytes or has characters other than `a-z0-9_`.
    #[error(
        "{name:?} cannot name a congestion control: a name has 1 to 12 characters of a-z, 0-9 and _"
    )]
    BadName {
        /// The algorithm's name.
        name: String,
    },
    /// There is no algorithm that Linux TCP can run.
    #[error("there is no algorithm to register")]
    NoAlgorithm,
    /// What any kernel datapath does failed.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Something in the kernel's BTF that the datapath needs was not found.
    #[error("the kernel's BTF has no {0}")]
    NoBtf(String),
}

impl LinuxError {
    /// Wraps a libbpf error of what was being done.
    pub(crate) fn bpf(what: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Self {
        move |error| KernelError::bpf(what)(error).into()
    }

    /// Wraps an I/O error of what was being done.
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| KernelError::io(what)(error).into()
    }
}
