//! How a subcommand fails, and the exit code that says so.

use std::io;
use std::process::ExitCode;

/// Why a subcommand ended without doing all that was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Reading or writing failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being read or written.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl Failure {
    /// The failure of reading or writing `what`.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// Says on standard error what failed, once, and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            // The reader of our output has seen enough (`fairwater … | head`).
            Self::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe => {
                ExitCode::SUCCESS
            }
            Self::Io { .. } => {
                eprintln!("fairwater: {self}");
                ExitCode::from(1)
            }
        }
    }
}
