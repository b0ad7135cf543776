//! How a subcommand fails, and the exit code that says so.

use std::io;

use fairwater_hosting::Stop;
use fairwater_linux::LinuxError;
use fairwater_linux::probe::Missing;
use fairwater_results::Fallback;

/// Why a subcommand ended without doing all that was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// What was asked for makes no sense; nothing was started.
    #[error("{0}")]
    BadInput(String),
    /// The output says already what is wrong; this is the exit code.
    #[error("exit code {0}")]
    AlreadyReported(u8),
    /// This machine or process lacks something.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// There are results, but not all of them are the algorithms': one failed.
    #[error("an algorithm failed, and flows ran without it")]
    AlgorithmFailed,
    /// Ctrl-C; everything is cleaned up.
    #[error("interrupted")]
    Interrupted,
    /// The lab lacks something.
    #[error("{0}")]
    LabMissing(String),
    /// Something else went wrong.
    #[error("{0}")]
    Other(String),
    /// The Linux datapath failed.
    #[error(transparent)]
    Linux(LinuxError),
    /// Reading or writing failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being read or written.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl From<LinuxError> for Failure {
    fn from(error: LinuxError) -> Self {
        match error {
            LinuxError::Missing(missing) => Self::Missing(missing),
            other => Self::Linux(other),
        }
    }
}

impl Failure {
    /// The failure of reading or writing `what`.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// [`Failure::Interrupted`] after Ctrl-C.
    pub(crate) fn if_interrupted(stop: &Stop) -> Result<(), Self> {
        if stop.was_interrupted() {
            Err(Self::Interrupted)
        } else {
            Ok(())
        }
    }

    /// [`Failure::AlgorithmFailed`] if one of these says so.
    pub(crate) fn if_fallen_back<'f>(
        fallbacks: impl IntoIterator<Item = &'f Option<Fallback>>,
    ) -> Result<(), Self> {
        match fallbacks.into_iter().flatten().any(Fallback::is_failure) {
            true => Err(Self::AlgorithmFailed),
            false => Ok(()),
        }
    }

    /// Says on standard error what failed, once, and gives the exit code.
    pub(crate) fn report(&self) -> u8 {
        match self {
            // The reader of our output has seen enough (`fairwater … | head`).
            Self::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Other(_) | Self::Linux(_) | Self::Io { .. } => self.say(1),
            Self::AlreadyReported(code) => *code,
            Self::BadInput(_) => self.say(2),
            Self::Missing(_) | Self::LabMissing(_) => self.say(3),
            Self::AlgorithmFailed => self.say(4),
            Self::Interrupted => 130,
        }
    }

    fn say(&self, code: u8) -> u8 {
        eprintln!("fairwater: {self}");
        code
    }
}
