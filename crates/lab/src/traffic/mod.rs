//! What sends over a path.

mod bulk;
mod child;
mod iperf3;

use std::fmt;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use serde::Serialize;

use crate::Sending;
use crate::error::LabError;
use crate::packet::FIRST_PORT;
use crate::path::Path;
use crate::preflight;

/// Which program sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Traffic {
    /// iperf3, a client and a server a flow. It sets the congestion control once connected.
    #[default]
    Iperf3,
    /// The lab's own bulk sender, in this process: needs nothing, and sets the congestion control
    /// before it connects.
    Bulk,
}

impl Traffic {
    /// iperf3 where it can be run, else the lab's own sender.
    pub fn available() -> Self {
        match preflight::runs_iperf3() {
            Ok(()) => Traffic::Iperf3,
            Err(_) => Traffic::Bulk,
        }
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Traffic::Iperf3 => "iperf3",
            Traffic::Bulk => "the lab's bulk sender",
        })
    }
}

/// One flow to be sent.
#[derive(Debug)]
pub(crate) struct FlowSpec<'a> {
    /// Its index, from which its source port follows.
    pub(crate) index: u16,
    /// What to call it.
    pub(crate) label: &'a str,
    /// The kernel's name of its congestion control.
    pub(crate) congestion_control: &'a str,
    /// Whether the receiver has that congestion control too.
    pub(crate) at_both_ends: bool,
    /// How long the run lasts.
    pub(crate) duration: Duration,
    /// When in it the flow sends.
    pub(crate) sending: Sending,
}

/// The first of the receiver's ports.
const FIRST_SERVER_PORT: u16 = 5201;

impl FlowSpec<'_> {
    fn source_port(&self) -> u16 {
        FIRST_PORT + self.index
    }

    fn server_port(&self) -> u16 {
        FIRST_SERVER_PORT + self.index
    }

    fn failed(&self, reason: impl ToString) -> LabError {
        LabError::Traffic {
            label: self.label.to_owned(),
            reason: reason.to_string(),
        }
    }
}

/// A flow that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Finished {
    /// CPU time, user and system, of the processes that sent and received; zero when they are
    /// threads of this process.
    pub(crate) cpu: Duration,
    /// Segments retransmitted, when the sender knows.
    pub(crate) retransmissions: Option<u64>,
}

/// A flow that runs. Dropping it ends it.
#[derive(Debug)]
pub(crate) enum Flow {
    Iperf3(iperf3::Iperf3),
    Bulk(bulk::Bulk),
}

impl Flow {
    /// Starts a flow.
    ///
    /// # Errors
    /// [`LabError::Traffic`], or [`LabError::System`] when a process or thread cannot be made.
    pub(crate) fn start(
        traffic: Traffic,
        path: &Path,
        spec: &FlowSpec<'_>,
    ) -> Result<Self, LabError> {
        let receiver: IpAddr = path.receiver_address;
        match traffic {
            Traffic::Iperf3 => {
                iperf3::Iperf3::start(path.sender.as_fd(), path.receiver.as_fd(), receiver, spec)
                    .map(Flow::Iperf3)
            }
            Traffic::Bulk => {
                bulk::Bulk::start(path.sender.as_fd(), path.receiver.as_fd(), receiver, spec)
                    .map(Flow::Bulk)
            }
        }
    }

    /// How it ended, once it has.
    ///
    /// # Errors
    /// [`LabError::Traffic`] when it ended in failure.
    pub(crate) fn finished(&mut self, label: &str) -> Result<Option<Finished>, LabError> {
        match self {
            Flow::Iperf3(iperf3) => iperf3.finished(),
            Flow::Bulk(bulk) => bulk.finished(),
        }
        .map_err(|reason| LabError::Traffic {
            label: label.to_owned(),
            reason,
        })
    }
}
