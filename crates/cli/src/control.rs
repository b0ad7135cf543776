//! Commands that ask a plane that runs.

use std::path::PathBuf;

use fairwater_hosting::control::{Client, ClientError};
use fairwater_hosting::host::runtime_directory;

use crate::failure::Failure;

/// The control socket of a plane that root runs.
const HOST_SOCKET: &str = "/run/fairwater/control";

/// Which plane is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct ControlArgs {
    /// Control socket of the plane [default: $XDG_RUNTIME_DIR/fairwater/control if it exists,
    /// otherwise /run/fairwater/control]
    #[arg(long = "socket", value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl ControlArgs {
    /// Connects to the plane of `fairwater edge`, or to the host's, which may have an edge too.
    pub(crate) fn connect_to_edge(&self) -> Result<Client, Failure> {
        let socket = edge_socket().filter(|_| self.socket.is_none());
        // A socket that a killed edge left answers nobody.
        match socket.and_then(|socket| Client::connect(&socket).ok()) {
            Some(client) => Ok(client),
            None => self.connect(),
        }
    }

    /// Connects to each plane that answers: that of `--socket` alone, or the host's and those of `fairwater edge` and
    /// `fairwater bundle send`.
    pub(crate) fn connect_to_all(&self) -> Vec<Client> {
        let others = [edge_socket(), send_socket()].into_iter().flatten();
        let others = others.filter(|_| self.socket.is_none());
        let others = others.filter_map(|socket| Client::connect(&socket).ok());
        self.connect().ok().into_iter().chain(others).collect()
    }

    /// Connects to the plane.
    pub(crate) fn connect(&self) -> Result<Client, Failure> {
        let own = || runtime_directory().map(|directory| directory.join("control"));
        // Somebody who runs no plane means the host's.
        let host = || Some(PathBuf::from(HOST_SOCKET)).filter(|path| path.exists());
        let usual = || {
            own()
                .filter(|path| path.exists())
                .or_else(host)
                .or_else(own)
        };
        let socket = self.socket.clone().or_else(usual).ok_or_else(|| {
            Failure::BadInput(
                "$XDG_RUNTIME_DIR is not set, so the control socket has no default path: set it \
                 with --socket PATH"
                    .to_owned(),
            )
        })?;
        Ok(Client::connect(&socket)?)
    }
}

/// The control socket of `fairwater edge`.
pub(crate) fn edge_socket() -> Option<PathBuf> {
    Some(runtime_directory()?.join("edge"))
}

/// The control socket of `fairwater bundle send`.
pub(crate) fn send_socket() -> Option<PathBuf> {
    Some(runtime_directory()?.join("bundle-send"))
}

/// The control socket of `fairwater bundle receive`.
pub(crate) fn receive_socket() -> Option<PathBuf> {
    Some(runtime_directory()?.join("bundle-receive"))
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::Other(error.to_string())
    }
}
