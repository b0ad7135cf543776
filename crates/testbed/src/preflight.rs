//! Whether this machine can run experiments.

use std::io;
use std::process::{Command, Stdio};

use fairwater_results::TrafficProgram;
use rustix::fs::{Access, access};
use thiserror::Error;

/// One thing an experiment needs and does not find.
#[derive(Debug, Error)]
pub enum Missing {
    /// The process may not make namespaces and devices.
    #[error(
        "the lab must run as root: it makes network namespaces and devices (try again with sudo)"
    )]
    Root,
    /// There is no TUN driver.
    #[error("the lab needs /dev/net/tun, which cannot be opened ({0}): is the tun driver there?")]
    Tun(io::Error),
    /// iperf3 cannot be run.
    #[error("the lab needs iperf3, which cannot be run ({0}): install the package `iperf3`")]
    Iperf3(io::Error),
}

/// Checks that an experiment can run with this program, and changes nothing.
///
/// # Errors
/// Everything that is missing.
pub fn require(program: TrafficProgram) -> Result<(), Vec<Missing>> {
    let mut missing = Vec::new();
    if !rustix::process::geteuid().is_root() {
        missing.push(Missing::Root);
    }
    if let Err(error) = access("/dev/net/tun", Access::READ_OK | Access::WRITE_OK) {
        missing.push(Missing::Tun(error.into()));
    }
    if program == TrafficProgram::Iperf3
        && let Err(error) = runs_iperf3()
    {
        missing.push(Missing::Iperf3(error));
    }
    if missing.is_empty() {
        Ok(())
    } else {
        Err(missing)
    }
}

/// iperf3 where it can be run, else the test bed's own sender.
#[must_use]
pub fn available_program() -> TrafficProgram {
    match runs_iperf3() {
        Ok(()) => TrafficProgram::Iperf3,
        Err(_) => TrafficProgram::Bulk,
    }
}

fn runs_iperf3() -> io::Result<()> {
    let status = Command::new("iperf3")
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "`iperf3 --version` ended with {status}"
        )))
    }
}
