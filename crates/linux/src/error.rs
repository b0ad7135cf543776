//! Errors of the Linux datapath.

use std::io;

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
    /// There are more algorithms, or more programs, than the kernel side has room for.
    #[error(
        "{algorithms} algorithms with {programs} programs are too many; at most {} with {} are \
         allowed",
        crate::layout::MAX_ALGORITHMS,
        crate::layout::MAX_PROGRAMS
    )]
    TooManyPrograms {
        /// How many algorithms there are.
        algorithms: usize,
        /// How many programs they have.
        programs: usize,
    },
    /// There is no algorithm that Linux TCP can run.
    #[error("there is no algorithm to register")]
    NoAlgorithm,
    /// A program could not be turned into eBPF.
    #[error("program {program} of {algorithm}: {source}")]
    Generate {
        /// The algorithm.
        algorithm: String,
        /// The program.
        program: String,
        /// Why.
        source: fairwater_exec::ebpf::GenerateError,
    },
    /// The kernel's verifier refused generated code: a defect in Fairwater.
    #[error("the kernel refused program {program} of {algorithm}: {source}\n{log}")]
    Refused {
        /// The algorithm.
        algorithm: String,
        /// The program.
        program: String,
        /// The kernel's error.
        source: io::Error,
        /// The verifier's log.
        log: String,
    },
    /// Something in the kernel's BTF that the datapath needs was not found.
    #[error("the kernel's BTF has no {0}")]
    NoBtf(String),
    /// A call failed.
    #[error("cannot {what}: {source}")]
    Call {
        /// What was being done.
        what: &'static str,
        /// The error.
        source: io::Error,
    },
}

impl LinuxError {
    /// Wraps a libbpf error.
    pub(crate) fn bpf(what: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Self {
        move |error| {
            let source = match error.kind() {
                libbpf_rs::ErrorKind::PermissionDenied => {
                    io::Error::new(io::ErrorKind::PermissionDenied, error)
                }
                _ => io::Error::other(format!("{error:#}")),
            };
            Self::Call { what, source }
        }
    }

    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Call { what, source }
    }
}
