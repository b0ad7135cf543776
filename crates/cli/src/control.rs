//! Commands that ask a plane that runs.

use std::path::PathBuf;

use fairwater_hosting::control::{Client, ClientError};
use fairwater_hosting::host::runtime_directory;

use crate::failure::Failure;

/// Which plane is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct ControlArgs {
    /// Control socket of the plane [default: /run/fairwater/control for root,
    /// $XDG_RUNTIME_DIR/fairwater/control for others]
    #[arg(long = "socket", value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl ControlArgs {
    /// Connects to the plane.
    pub(crate) fn connect(&self) -> Result<Client, Failure> {
        let usual = || runtime_directory().map(|directory| directory.join("control"));
        let socket = self.socket.clone().or_else(usual).ok_or_else(|| {
            Failure::BadInput(
                "$XDG_RUNTIME_DIR is not set, so there is no usual place for the control socket: \
                 name it with --socket PATH"
                    .to_owned(),
            )
        })?;
        Ok(Client::connect(&socket)?)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::Other(error.to_string())
    }
}
