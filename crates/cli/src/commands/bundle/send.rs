//! `fairwater bundle send`.

use std::path::{Path, PathBuf};

use fairwater_hosting::bundle::SendboxConfig;
use fairwater_hosting::host::{ControlConfig, HostConfig};
use fairwater_hosting::resolve;

use crate::commands::up::{host_until_stopped, still_in_force};
use crate::control::send_socket;
use crate::failure::Failure;

/// Run a sendbox: queue and schedule this site's packets to other sites
///
/// Packets of the site's ports to the bundles' destinations pass this process. When it hangs or is
/// killed they pass by it. At Ctrl-C or SIGTERM nothing of it is left on the machine.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Where `fairwater bundle status` asks [default: /run/fairwater/bundle-send]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let read = || configuration(&args.file, args.socket.as_ref());
    let reread = || read().map_err(|failure| still_in_force(failure, &args.file));
    host_until_stopped(read()?, &reread)
}

/// A host with the sendbox of a file.
fn configuration(file: &Path, socket: Option<&PathBuf>) -> Result<HostConfig, Failure> {
    host_of(super::sendbox(file)?, socket.cloned().or_else(send_socket))
}

/// A host with a sendbox alone, whose algorithms are those of its bundles.
pub(super) fn host_of(
    sendbox: SendboxConfig,
    socket: Option<PathBuf>,
) -> Result<HostConfig, Failure> {
    let mut algorithms = Vec::new();
    for spec in sendbox.algorithms() {
        let resolved = resolve(&spec, Path::new(""))?;
        algorithms.push((spec, resolved));
    }
    Ok(HostConfig {
        algorithms,
        sendbox: Some(sendbox),
        control: socket.map(|socket| ControlConfig {
            socket,
            groups: Vec::new(),
        }),
        ..HostConfig::default()
    })
}

/// Refuses algorithms that a bundle cannot run.
pub(super) fn require_known(sendbox: &SendboxConfig) -> Result<(), Failure> {
    for spec in sendbox.algorithms() {
        resolve(&spec, Path::new(""))?;
    }
    Ok(())
}
