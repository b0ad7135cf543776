//! Errors of kernel datapaths.

use std::io;

use crate::{MAX_ALGORITHMS, MAX_PROGRAMS};

/// Why a kernel datapath cannot do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// There are more algorithms, or more programs, than the kernel side has room for.
    #[error(
        "{algorithms} algorithms with {programs} programs are too many; at most {MAX_ALGORITHMS} with {MAX_PROGRAMS} are \
         allowed"
    )]
    TooManyPrograms {
        /// How many algorithms there are.
        algorithms: usize,
        /// How many programs they have.
        programs: usize,
    },
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
    /// A call failed.
    #[error("cannot {what}: {source}")]
    Call {
        /// What was being done.
        what: &'static str,
        /// The error.
        source: io::Error,
    },
}

impl KernelError {
    /// Wraps a libbpf error of what was being done.
    pub fn bpf(what: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Self {
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

    /// Wraps an I/O error of what was being done.
    pub fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Call { what, source }
    }
}
