//! Errors of the data plane in the kernel.

use std::io;

/// Why the data plane cannot do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TcError {
    /// A program could not be turned into eBPF.
    #[error("program {program}: {source}")]
    Generate {
        /// The program.
        program: String,
        /// Why.
        source: fairwater_exec::ebpf::GenerateError,
    },
    /// The kernel's verifier refused generated code: a defect in Fairwater.
    #[error("the kernel refused program {program}: {source}\n{log}")]
    Refused {
        /// The program.
        program: String,
        /// The kernel's error.
        source: io::Error,
        /// The verifier's log.
        log: String,
    },
    /// There are more rules than the kernel side has room for.
    #[error("{0} rules are too many; at most {max} are allowed", max = crate::MAX_RULES)]
    TooManyRules(usize),
    /// A call failed.
    #[error("cannot {what}: {source}")]
    Call {
        /// What was being done.
        what: &'static str,
        /// The error.
        source: io::Error,
    },
}

impl TcError {
    /// Wraps a libbpf error.
    pub(crate) fn bpf(what: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Self {
        move |error| {
            let kind = match error.kind() {
                libbpf_rs::ErrorKind::PermissionDenied => io::ErrorKind::PermissionDenied,
                _ => io::ErrorKind::Other,
            };
            let source = io::Error::new(kind, format!("{error:#}"));
            Self::Call { what, source }
        }
    }

    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Call { what, source }
    }
}
