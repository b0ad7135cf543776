//! How a subcommand fails, and the exit code that says so.

use std::io;
use std::process::ExitCode;

/// Why a subcommand ended without doing all that was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// What was asked for makes no sense; nothing was started.
    #[error("{0}")]
    BadInput(String),
    /// As [`Failure::BadInput`], with diagnostics that are already on standard error.
    #[error("bad input")]
    Diagnosed,
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
            Self::Diagnosed => ExitCode::from(2),
            Self::BadInput(_) => self.say(2),
            Self::Io { .. } => self.say(1),
        }
    }

    fn say(&self, code: u8) -> ExitCode {
        eprintln!("fairwater: {self}");
        ExitCode::from(code)
    }
}
