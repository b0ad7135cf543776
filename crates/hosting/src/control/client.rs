//! The other end of the control socket.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Request, Response};

/// How long a plane may take to answer; while it switches flows, it says something each second.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// A connection to a plane.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    lines: BufReader<UnixStream>,
}

/// Why a plane did not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No plane is there.
    #[error("no plane answers at {}: {source}; `fairwater up` starts one", path.display())]
    NoPlane {
        /// The socket.
        path: PathBuf,
        /// What connecting said.
        source: io::Error,
    },
    /// The plane left, or took too long.
    #[error("the plane at {} does not answer: {source}", path.display())]
    Lost {
        /// The socket.
        path: PathBuf,
        /// What reading or writing said.
        source: io::Error,
    },
    /// What came is no answer: the plane is of another version, maybe.
    #[error("the plane at {} gave an unexpected answer: {message}", path.display())]
    Unintelligible {
        /// The socket.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The plane refuses to tell or do that.
    #[error("{0}")]
    Refused(String),
    /// The plane could not do it.
    #[error("{0}")]
    Failed(String),
}

impl Client {
    /// Connects to the plane at a control socket.
    ///
    /// # Errors
    /// Nobody is there.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let connected = UnixStream::connect(path).and_then(|stream| {
            stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
            Ok(stream)
        });
        match connected {
            Ok(stream) => Ok(Self {
                path: path.to_owned(),
                lines: BufReader::new(stream),
            }),
            Err(source) => Err(ClientError::NoPlane {
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// Asks, and returns the first answer.
    ///
    /// # Errors
    /// The plane is gone, or refuses.
    pub fn ask(&mut self, request: &Request) -> Result<Response, ClientError> {
        let mut line = serde_json::to_vec(request).map_err(|error| self.lost(error.into()))?;
        line.push(b'\n');
        let written = self.lines.get_mut().write_all(&line);
        written.map_err(|error| self.lost(error))?;
        self.next_answer()
    }

    /// The next answer to what was asked.
    ///
    /// # Errors
    /// The plane is gone, or refuses.
    pub fn next_answer(&mut self) -> Result<Response, ClientError> {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line);
        match read.map_err(|error| self.lost(error))? {
            0 => Err(self.lost(io::ErrorKind::UnexpectedEof.into())),
            _ => match serde_json::from_str(&line) {
                Ok(Response::Refused(why)) => Err(ClientError::Refused(why)),
                Ok(Response::Failed(why)) => Err(ClientError::Failed(why)),
                Ok(response) => Ok(response),
                Err(error) => Err(ClientError::Unintelligible {
                    path: self.path.clone(),
                    message: error.to_string(),
                }),
            },
        }
    }

    /// The error for an answer to something else.
    #[must_use]
    pub fn unexpected(&self) -> ClientError {
        ClientError::Unintelligible {
            path: self.path.clone(),
            message: "an answer to another request".to_owned(),
        }
    }

    fn lost(&self, source: io::Error) -> ClientError {
        ClientError::Lost {
            path: self.path.clone(),
            source,
        }
    }
}
