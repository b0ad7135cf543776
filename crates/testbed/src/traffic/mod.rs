//! What sends over a path.

mod bulk;
mod child;
mod iperf3;
mod quic;
mod user;

pub(crate) use quic::QuicFlows;
pub use quic::{QUIC, QuicEnds, QuicFlow, QuicState};
pub use user::{USER_TCP, UserPlane};
pub(crate) use user::{UserLog, UserTcp, device as user_device};

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use fairwater_results::TrafficProgram;

use crate::error::TestbedError;
use crate::packet::FIRST_PORT;
use crate::path::Path;
use fairwater_netlink::Namespace;

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
    /// When in the run the flow starts.
    pub(crate) start: Duration,
    /// When in the run the flow stops; `None` is the run's end.
    pub(crate) stop: Option<Duration>,
    /// `SO_MARK` of its socket; 0 is none.
    pub(crate) tag: u32,
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

    fn failed(&self, reason: impl ToString) -> TestbedError {
        TestbedError::Traffic {
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
    /// Starts a flow that `sender` sends.
    ///
    /// # Errors
    /// [`TestbedError::Traffic`], or [`TestbedError::System`] when a process or thread cannot be made.
    pub(crate) fn start(
        program: TrafficProgram,
        path: &Path,
        sender: &Namespace,
        spec: &FlowSpec<'_>,
    ) -> Result<Self, TestbedError> {
        let receiver: IpAddr = path.receiver_address;
        match program {
            TrafficProgram::Iperf3 => {
                iperf3::Iperf3::start(sender.as_fd(), path.receiver.as_fd(), receiver, spec)
                    .map(Flow::Iperf3)
            }
            TrafficProgram::Bulk => {
                bulk::Bulk::start(sender.as_fd(), path.receiver.as_fd(), receiver, spec)
                    .map(Flow::Bulk)
            }
        }
    }

    /// How it ended, once it has.
    ///
    /// # Errors
    /// [`TestbedError::Traffic`] when it ended in failure.
    pub(crate) fn finished(&mut self, label: &str) -> Result<Option<Finished>, TestbedError> {
        match self {
            Flow::Iperf3(iperf3) => iperf3.finished(),
            Flow::Bulk(bulk) => bulk.finished(),
        }
        .map_err(|reason| TestbedError::Traffic {
            label: label.to_owned(),
            reason,
        })
    }
}

/// Flows of a transport in user space. Dropping it ends them.
#[derive(Debug)]
pub(crate) enum UserFlows {
    Tcp(UserTcp),
    Quic(QuicFlows),
}

impl UserFlows {
    /// What was sent, once all flows have ended.
    ///
    /// # Errors
    /// Why one has failed.
    pub(crate) fn finished(&mut self) -> Result<Option<UserLog>, String> {
        match self {
            Self::Tcp(flows) => flows.finished(),
            Self::Quic(flows) => flows.finished(),
        }
    }
}
